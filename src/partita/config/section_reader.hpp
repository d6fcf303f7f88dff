#pragma once

#include "partita/config/parameter_reader.hpp"
#include "partita/config/parameter_table.hpp"
#include "partita/config/toml_tree.hpp"

#include <string>
#include <vector>

namespace partita {

/// Reads a TOML file of sections and of rows of repeated sections, [[row]], into fields, and collects all
/// mistakes with their places.
class SectionReader {
 public:
  /// `name` is the file in messages.
  explicit SectionReader(const std::string& name) : _source(Source::deck(name)), _diagnostics(_source) {}

  /// The sections of a text; empty, with a mistake noted, if it is not TOML.
  std::vector<TomlNode> parse(const std::string& text);
  /// The keys of a section, or of a row; `name` is its name in messages.
  void readKeys(const TomlNode& node, const Section& section, const std::string& name);
  /// Appends a row for each repetition of a section; `describe` gives its keys.
  template <class Row>
  void readRows(const TomlNode& node, std::vector<Row>& rows, Section (*describe)(Row&)) {
    if (!isRepeated(node)) return;
    for (const TomlNode& entry : node.children) {
      Row row;
      readKeys(entry, describe(row), node.key + "[" + std::to_string(rows.size()) + "]");
      rows.push_back(row);
    }
  }
  void unknownSection(const TomlNode& node, const std::vector<std::string>& valid);
  void error(const TomlNode& node, const std::string& name, const std::string& message) {
    _diagnostics.error(_source.at(node.line, node.column), name, message);
  }
  /// About the file as a whole.
  void error(const std::string& name, const std::string& message) {
    _diagnostics.error(_source.at(0, 0), name, message);
  }
  /// Throws UserError with all mistakes.
  void throwIfAny() { _diagnostics.throwIfAny(); }

 private:
  bool isRepeated(const TomlNode& node);

  Source _source;
  Diagnostics _diagnostics;
};

} // namespace partita
