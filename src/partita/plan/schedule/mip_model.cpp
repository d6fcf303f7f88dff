#include "partita/plan/schedule/mip_model.hpp"

namespace partita::detail {

int MipModel::addColumn(double column_cost, double least, double most, bool is_integer) {
  cost.push_back(column_cost);
  lower.push_back(least);
  upper.push_back(most);
  integer.push_back(is_integer ? 1 : 0);
  return columns() - 1;
}

void MipModel::addRow(double least, const std::vector<Term>& terms, double most) {
  for (const auto& [column, factor] : terms) {
    index.push_back(column);
    value.push_back(factor);
  }
  row_start.push_back(static_cast<int>(index.size()));
  row_lower.push_back(least);
  row_upper.push_back(most);
}

} // namespace partita::detail
