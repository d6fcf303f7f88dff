#include "partita/config/parameter_text.hpp"

#include "partita/config/number_text.hpp"
#include "partita/config/parameters.hpp"

#include <cstdio>

namespace partita {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", code);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string layersText(const std::vector<LayerSpec>& layers, const std::string& indent);

std::string layerText(LayerSpec layer, const std::string& indent) {
  std::string text = "{ type = " + quoted(layer.type);
  for (const Parameter& parameter : describe(layer).parameters) {
    const auto* inside = std::get_if<std::vector<LayerSpec>*>(&parameter.target);
    if (inside != nullptr && (*inside)->empty()) continue;
    text += ", " + parameter.key + " = " +
            (inside == nullptr ? tomlText(parameter) : layersText(**inside, indent + "  "));
  }
  return text + " }";
}

std::string layersText(const std::vector<LayerSpec>& layers, const std::string& indent) {
  std::string text;
  for (const LayerSpec& layer : layers) text += "\n" + indent + layerText(layer, indent) + ",";
  return "[" + text + (text.empty() ? "]" : "\n" + indent.substr(2) + "]");
}

std::string listText(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

/// One overload a type of parameter, chosen by std::visit.
struct Writer {
  std::string operator()(const bool* field) const { return *field ? "true" : "false"; }
  std::string operator()(const std::int64_t* field) const { return std::to_string(*field); }
  std::string operator()(const double* field) const { return realText(*field); }
  std::string operator()(const std::string* field) const { return quoted(*field); }
  std::string operator()(const Choice& choice) const { return quoted(choice.names[choice.get()]); }

  std::string operator()(const Cuts& cuts) const {
    return *cuts.rule == CutRule::list ? listText(*cuts.list) : quoted(nameOf(*cuts.rule));
  }

  std::string operator()(const Axes& axes) const {
    if (axes.sizes->same) return quoted("same");
    const std::vector<std::int64_t>& values = axes.sizes->values;
    return values.size() == 1 ? std::to_string(values[0]) : listText(values);
  }

  std::string operator()(const std::vector<LayerSpec>* layers) const { return layersText(*layers, "  "); }
};

} // namespace

std::string tomlText(const Parameter& parameter) {
  return std::visit(Writer{}, parameter.target);
}

} // namespace partita
