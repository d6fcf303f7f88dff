#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace partita::detail {

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// A mixed integer program: minimise cost x with lower <= x <= upper and row_lower <= A x <= row_upper. The
/// matrix is stored by rows.
struct MipModel {
  std::vector<double> cost, lower, upper;
  std::vector<char> integer;
  std::vector<double> row_lower, row_upper, value;
  std::vector<int> row_start{0}, index;

  /// A column and its factor.
  using Term = std::pair<int, double>;

  int addColumn(double column_cost, double least, double most, bool is_integer);
  int addBinary() { return addColumn(0.0, 0.0, 1.0, true); }
  void addRow(double least, const std::vector<Term>& terms, double most);

  int columns() const { return static_cast<int>(cost.size()); }
  int rows() const { return static_cast<int>(row_lower.size()); }
};

/// The result of a solver: the best values of the columns, if any, and a lower bound of the cost.
struct MipAnswer {
  std::vector<double> values;
  double bound = -no_limit;
};

/// Solves a model from a feasible point, within a relative gap and a number of seconds, on one thread.
using MipSolver =
    std::function<MipAnswer(const MipModel&, const std::vector<double>& start, double gap, double seconds)>;

#ifdef PARTITA_HAVE_HIGHS
MipAnswer solveWithHighs(const MipModel& model, const std::vector<double>& start, double gap, double seconds);
std::string highsVersion();
#endif
#ifdef PARTITA_HAVE_CBC
MipAnswer solveWithCbc(const MipModel& model, const std::vector<double>& start, double gap, double seconds);
std::string cbcVersion();
#endif

} // namespace partita::detail
