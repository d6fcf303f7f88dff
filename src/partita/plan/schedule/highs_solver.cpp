// HiGHS through its C interface: its C++ interface depends on the string ABI of the library's build.
#ifdef PARTITA_HAVE_HIGHS

#include "partita/plan/schedule/mip_model.hpp"

#include <interfaces/highs_c_api.h>
#include <memory>

namespace partita::detail {

std::string highsVersion() {
  return Highs_version();
}

MipAnswer solveWithHighs(const MipModel& model, const std::vector<double>& start, double gap,
                         double seconds) {
  const std::unique_ptr<void, void (*)(void*)> highs(Highs_create(), Highs_destroy);
  Highs_setBoolOptionValue(highs.get(), "output_flag", 0);
  Highs_setStringOptionValue(highs.get(), "parallel", "off");
  Highs_setIntOptionValue(highs.get(), "threads", 1);
  Highs_setDoubleOptionValue(highs.get(), "time_limit", seconds);
  Highs_setDoubleOptionValue(highs.get(), "mip_rel_gap", gap);
  Highs_setDoubleOptionValue(highs.get(), "mip_abs_gap", 0.0);
  const std::vector<HighsInt> starts(model.row_start.begin(), model.row_start.end() - 1),
      index(model.index.begin(), model.index.end()), integer(model.integer.begin(), model.integer.end());
  Highs_passMip(highs.get(), model.columns(), model.rows(), static_cast<HighsInt>(index.size()),
                kHighsMatrixFormatRowwise, kHighsObjSenseMinimize, 0.0, model.cost.data(), model.lower.data(),
                model.upper.data(), model.row_lower.data(), model.row_upper.data(), starts.data(),
                index.data(), model.value.data(), integer.data());
  Highs_setSolution(highs.get(), start.data(), nullptr, nullptr, nullptr);
  MipAnswer answer;
  if (Highs_run(highs.get()) == kHighsStatusError) return answer;
  HighsInt status = kHighsSolutionStatusNone;
  Highs_getIntInfoValue(highs.get(), "primal_solution_status", &status);
  if (status == kHighsSolutionStatusFeasible) {
    answer.values.resize(model.cost.size());
    Highs_getSolution(highs.get(), answer.values.data(), nullptr, nullptr, nullptr);
  }
  Highs_getDoubleInfoValue(highs.get(), "mip_dual_bound", &answer.bound);
  return answer;
}

} // namespace partita::detail

#endif
