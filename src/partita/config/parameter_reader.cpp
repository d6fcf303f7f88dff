#include "partita/config/parameter_reader.hpp"

#include "partita/config/layer_types.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace partita {
namespace {

using Kind = TomlNode::Kind;

/// Is it a number out of the range of this type? TOML does not accept it as a number then.
template <class Number>
bool isBeyond(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc::result_out_of_range && end == text.data() + text.size();
}

/// Other programs have a layer for what is part of the loss here.
std::string aboutSoftmax(const std::string& name) {
  return name == "softmax" ? "; the loss includes softmax" : "";
}

/// One overload per type of parameter, chosen by std::visit.
class Reader {
 public:
  Reader(const Parameter& parameter, const std::string& name, const TomlNode& node, const Source& source,
         Diagnostics& diagnostics)
      : _parameter(parameter), _name(name), _node(node), _source(source), _diagnostics(diagnostics) {}

  void operator()(bool* field) const {
    if (is(Kind::boolean, "a boolean")) *field = _node.boolean;
  }

  void operator()(std::int64_t* field) const {
    if (!is(Kind::integer, "an integer")) return;
    if (inRange(static_cast<double>(_node.integer))) *field = _node.integer;
  }

  void operator()(double* field) const {
    if (_node.kind != Kind::integer && !is(Kind::real, "a real number")) return;
    const double value = _node.kind == Kind::integer ? static_cast<double>(_node.integer) : _node.real;
    if (inRange(value)) *field = value;
  }

  void operator()(std::string* field) const {
    if (is(Kind::text, "text")) *field = _node.text;
  }

  void operator()(const Choice& choice) const {
    if (!is(Kind::text, "text")) return;
    const auto found = std::find(choice.names.begin(), choice.names.end(), _node.text);
    if (found == choice.names.end()) return unknownChoice(choice.names);
    choice.set(found - choice.names.begin());
  }

  void operator()(const Cuts& cuts) const {
    if (_node.kind == Kind::list) return readCutList(cuts);
    if (!is(Kind::text, "text or a list of integers")) return;
    const auto& rules = Cuts::ruleNames();
    const auto found = std::find(rules.begin(), rules.end(), _node.text);
    if (found == rules.end()) return unknownChoice(rules);
    *cuts.rule = static_cast<CutRule>(found - rules.begin());
    cuts.list->clear();
  }

  void operator()(const Axes& axes) const {
    if (_node.kind == Kind::text && axes.may_be_same) {
      if (_node.text != "same") return unknownChoice({"same"});
      *axes.sizes = {{0}, true};
      return;
    }
    if (_node.kind != Kind::list && !is(Kind::integer, "an integer or a list of integers")) return;
    std::vector<std::int64_t> values;
    if (!readIntegers(_node.kind == Kind::list ? _node.children : std::vector{_node}, values)) return;
    if (values.empty()) return fail(_node, "expected an integer or a list of integers, found an empty list");
    *axes.sizes = {values, false};
  }

  void operator()(IntegerList list) const {
    std::vector<std::int64_t> values;
    if (is(Kind::list, "a list of integers") && readIntegers(_node.children, values)) *list = values;
  }

  void operator()(std::vector<LayerSpec>* layers) const {
    if (_node.kind == Kind::text && !_parameter.empty_word.empty()) {
      if (_node.text != _parameter.empty_word) return unknownChoice({_parameter.empty_word});
      return layers->clear();
    }
    if (!is(Kind::list, "a list of layers")) return;
    layers->clear();
    for (const TomlNode& entry : _node.children) {
      const std::string name = _name + "[" + std::to_string(layers->size()) + "]";
      layers->push_back(readLayer(entry, name));
    }
  }

 private:
  bool is(Kind kind, const std::string& expected) const {
    if (_node.kind == kind) return true;
    const bool number = _node.kind == Kind::text && (kind == Kind::real || kind == Kind::integer);
    if (number && isBeyond<double>(_node.text)) {
      fail(_node, _node.text + " is beyond the range of a double" + _parameter.hint());
      return false;
    }
    if (number && isBeyond<std::int64_t>(_node.text)) {
      fail(_node, _node.text + " is beyond the range of an integer of 64 bits" + _parameter.hint());
      return false;
    }
    fail(_node, "expected " + expected + ", found " + inWords(_node) + _parameter.hint());
    return false;
  }

  bool inRange(double value) const {
    if (std::isfinite(value) && _parameter.range.contains(value)) return true;
    fail(_node, inWords(_node) + " is out of range" + _parameter.hint());
    return false;
  }

  void unknownChoice(const std::vector<std::string>& names) const {
    fail(_node, "unknown choice '" + _node.text + "'" + _parameter.hint() + nearby(_node.text, names) +
                    (names == namesOf<Activation>() ? aboutSoftmax(_node.text) : ""));
  }

  /// Returns whether all are integers in the range of the parameter.
  bool readIntegers(const std::vector<TomlNode>& nodes, std::vector<std::int64_t>& values) const {
    for (const TomlNode& node : nodes) {
      const bool integer = node.kind == Kind::integer;
      if (!integer || !_parameter.range.contains(static_cast<double>(node.integer))) {
        fail(node, integer ? inWords(node) + " is out of range" + _parameter.hint()
                           : "expected an integer, found " + inWords(node));
        return false;
      }
      values.push_back(node.integer);
    }
    return true;
  }

  void readCutList(const Cuts& cuts) const {
    std::vector<std::int64_t> list;
    for (const TomlNode& cut : _node.children) {
      if (cut.kind != Kind::integer) return fail(cut, "expected an integer, found " + inWords(cut));
      list.push_back(cut.integer);
    }
    *cuts.rule = CutRule::list;
    *cuts.list = list;
  }

  LayerSpec readLayer(const TomlNode& entry, const std::string& name) const {
    LayerSpec spec;
    _diagnostics.setPlace(name, place(entry));
    if (entry.kind != Kind::table) {
      fail(entry, "expected a table such as {type = \"dense\"}, found " + inWords(entry));
    } else if (readLayerType(entry, spec)) {
      const Section section = describe(spec);
      for (const TomlNode& child : entry.children)
        if (child.key != "type") readLayerKey(section, child, name);
    }
    return spec;
  }

  bool readLayerType(const TomlNode& entry, LayerSpec& spec) const {
    const std::vector<std::string> types = layerTypes().names();
    for (const TomlNode& child : entry.children) {
      if (child.key != "type") continue;
      spec.type = child.text;
      if (layerTypes().find(spec.type) != nullptr) return true;
      fail(child, "expected a layer type, found " + inWords(child) + suggestion(child.text, types) +
                      aboutSoftmax(child.text));
      return false;
    }
    fail(entry, "the layer has no `type`; valid: " + quotedList(types));
    return false;
  }

  void readLayerKey(const Section& section, const TomlNode& child, const std::string& name) const {
    if (const Parameter* parameter = section.find(child.key))
      return readParameter(*parameter, name + "/" + child.key, child, _source, _diagnostics);
    std::vector<std::string> keys = section.keys();
    keys.insert(keys.begin(), "type");
    _diagnostics.error(_source.at(child.key_line, child.key_column), _name,
                       "unknown key '" + child.key + "' of a " + section.name + " layer" +
                           suggestion(child.key, keys));
  }

  Place place(const TomlNode& node) const { return _source.at(node.line, node.column); }
  void fail(const TomlNode& node, const std::string& message) const {
    _diagnostics.error(place(node), _name, message);
  }

  const Parameter& _parameter;
  const std::string& _name;
  const TomlNode& _node;
  const Source& _source;
  Diagnostics& _diagnostics;
};

} // namespace

void readParameter(const Parameter& parameter, const std::string& name, const TomlNode& node,
                   const Source& source, Diagnostics& diagnostics) {
  diagnostics.setPlace(name, source.at(node.line, node.column));
  std::visit(Reader(parameter, name, node, source, diagnostics), parameter.target);
}

} // namespace partita
