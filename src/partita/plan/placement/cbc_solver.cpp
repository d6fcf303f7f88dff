// CBC of COIN-OR through its C interface.
#ifdef PARTITA_HAVE_CBC

#include "partita/plan/placement/mip_model.hpp"

#include <Cbc_C_Interface.h>
#include <memory>

namespace partita::detail {

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
  for (int c = 0; c < model.columns(); ++c)
    Cbc_addCol(cbc.get(), ("c" + std::to_string(c)).c_str(), model.lower[c], model.upper[c], model.cost[c],
               model.integer[c], 0, nullptr, nullptr);
  // A row with two finite ends becomes two rows: the interface knows one side and one sense.
  for (int r = 0; r < model.rows(); ++r) {
    const int begin = model.row_start[r], count = model.row_start[r + 1] - begin;
    const auto add = [&](char sense, double side) {
      Cbc_addRow(cbc.get(), ("r" + std::to_string(r) + sense).c_str(), count, &model.index[begin],
                 &model.value[begin], sense, side);
    };
    if (model.row_lower[r] == model.row_upper[r]) {
      add('E', model.row_lower[r]);
      continue;
    }
    if (model.row_lower[r] > -no_limit) add('G', model.row_lower[r]);
    if (model.row_upper[r] < no_limit) add('L', model.row_upper[r]);
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
