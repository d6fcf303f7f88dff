// CBC of COIN-OR through its C interface.
#ifdef PARTITA_HAVE_CBC

#include "partita/plan/schedule/mip_model.hpp"

#include <Cbc_C_Interface.h>
#include <memory>
#include <numeric>

namespace partita::detail {

namespace {

/// The matrix of a model by columns.
struct Columns {
  std::vector<CoinBigIndex> start;
  std::vector<int> row;
  std::vector<double> value;

  explicit Columns(const MipModel& model)
      : start(model.cost.size() + 1), row(model.index.size()), value(model.index.size()) {
    for (const int column : model.index) ++start[column + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<CoinBigIndex> next(start.begin(), start.end() - 1);
    for (int r = 0; r < model.rows(); ++r) {
      for (int i = model.row_start[r]; i < model.row_start[r + 1]; ++i) {
        const CoinBigIndex place = next[model.index[i]]++;
        row[place] = r;
        value[place] = model.value[i];
      }
    }
  }
};

} // namespace

std::string cbcVersion() {
  return Cbc_getVersion();
}

MipAnswer solveWithCbc(const MipModel& model, const std::vector<double>& start, double gap, double seconds) {
  const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> cbc(Cbc_newModel(), Cbc_deleteModel);
  Cbc_setParameter(cbc.get(), "logLevel", "0");
  Cbc_setParameter(cbc.get(), "timeMode", "elapsed");
  Cbc_setParameter(cbc.get(), "seconds", std::to_string(seconds).c_str());
  Cbc_setParameter(cbc.get(), "ratioGap", std::to_string(gap).c_str());
  Cbc_setParameter(cbc.get(), "allowableGap", "0");
  // All rows at once, because adding a row to CBC's matrix of columns takes as long as copying the matrix.
  const Columns matrix(model);
  Cbc_loadProblem(cbc.get(), model.columns(), model.rows(), matrix.start.data(), matrix.row.data(),
                  matrix.value.data(), model.lower.data(), model.upper.data(), model.cost.data(),
                  model.row_lower.data(), model.row_upper.data());
  // CBC finds the start by names of columns, and its presolve crashes if rows have no names.
  for (int r = 0; r < model.rows(); ++r) Cbc_setRowName(cbc.get(), r, ("r" + std::to_string(r)).c_str());
  for (int c = 0; c < model.columns(); ++c) {
    Cbc_setColName(cbc.get(), c, ("c" + std::to_string(c)).c_str());
    if (model.integer[c]) Cbc_setInteger(cbc.get(), c);
  }
  std::vector<int> columns(start.size());
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c] = static_cast<int>(c);
  Cbc_setMIPStartI(cbc.get(), static_cast<int>(start.size()), columns.data(), start.data());
  Cbc_solve(cbc.get());
  MipAnswer answer;
  const double* values = Cbc_bestSolution(cbc.get());
  if (values != nullptr) answer.values.assign(values, values + model.columns());
  answer.bound = Cbc_getBestPossibleObjValue(cbc.get());
  return answer;
}

} // namespace partita::detail

#endif
