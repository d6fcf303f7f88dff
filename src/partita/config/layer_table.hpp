#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace partita {

/// What a module has for each layer type, found by the name of the type in decks. There is one such table in
/// each of `config` (keys), `plan` (rules), `nn` (classes) and `io` (ONNX); no other code knows the types,
/// and `unit.io_layer_tables` checks that all four have the same types.
template <class Entry>
class LayerTable {
 public:
  struct Row {
    std::string name;
    Entry entry;
  };

  LayerTable(std::initializer_list<Row> rows) : _rows(rows) {}

  const std::vector<Row>& rows() const { return _rows; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Row& row : _rows) names.push_back(row.name);
    return names;
  }

  /// Null if there is no such type.
  const Entry* find(const std::string& type) const {
    for (const Row& row : _rows)
      if (row.name == type) return &row.entry;
    return nullptr;
  }

  /// Throws std::logic_error if there is no such type, as decks with unknown types have already been refused.
  const Entry& at(const std::string& type) const {
    if (const Entry* entry = find(type)) return *entry;
    throw std::logic_error("no layer type '" + type + "'");
  }

 private:
  std::vector<Row> _rows;
};

} // namespace partita
