#include "partita/config/section_reader.hpp"

#include "partita/config/text.hpp"

#include <algorithm>

namespace partita {

std::vector<TomlNode> SectionReader::parse(const std::string& text) {
  try {
    return parseToml(text).children;
  } catch (const TomlError& error) {
    _diagnostics.error(_source.at(error.line, error.column), "", std::string("not TOML: ") + error.what());
  }
  return {};
}

bool SectionReader::isRepeated(const TomlNode& node) {
  if (node.kind == TomlNode::Kind::list) return true;
  _diagnostics.error(_source.at(node.key_line, node.key_column), node.key,
                     "expected the section [[" + node.key + "]], found " + inWords(node));
  return false;
}

void SectionReader::readKeys(const TomlNode& node, const Section& section, const std::string& name) {
  if (node.kind != TomlNode::Kind::table)
    return error(node, name, "expected a section, found " + inWords(node));
  std::vector<std::string> given;
  for (const TomlNode& child : node.children) {
    given.push_back(child.key);
    const Parameter* parameter = section.find(child.key);
    if (parameter != nullptr)
      readParameter(*parameter, name + "/" + child.key, child, _source, _diagnostics);
    else
      _diagnostics.error(_source.at(child.key_line, child.key_column), name + "/" + child.key,
                         "unknown key" + suggestion(child.key, section.keys()));
  }
  for (const Parameter& parameter : section.parameters) {
    const bool missing = std::find(given.begin(), given.end(), parameter.key) == given.end();
    if (parameter.required == Required::always && missing)
      error(node, name, "`" + parameter.key + "` is missing; this row requires it");
  }
}

void SectionReader::unknownSection(const TomlNode& node, const std::vector<std::string>& valid) {
  _diagnostics.error(_source.at(node.key_line, node.key_column), node.key,
                     "unknown section" + suggestion(node.key, valid));
}

} // namespace partita
