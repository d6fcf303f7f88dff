#pragma once

#include "partita/plan/placement/component_graph.hpp"
#include "partita/plan/placement/mip_model.hpp"

namespace partita::detail {

/// The integer program of PHAZE (ICML 2024) for a component: start and mode of each operator, an order for
/// each pair of operators that have none, and cores. Times are divided by the makespan of a known schedule,
/// which also bounds them. In addition to the paper it has the energy bounds as rows; cores are assigned to
/// operators only if there are more operators than cores.
class ScheduleModel {
 public:
  /// `known` is a valid schedule of the task.
  ScheduleModel(const ScheduleTask& task, const OperatorSchedule& known);

  const MipModel& model() const { return _model; }
  /// The values of all columns for the known schedule.
  std::vector<double> start() const;
  /// The schedule that values of the columns describe. Starts are computed again from the order of the
  /// operators, since solvers only meet constraints up to a tolerance.
  OperatorSchedule schedule(const std::vector<double>& values) const;
  /// A makespan from a value of the cost.
  double makespan(double cost) const { return cost * _scale; }

 private:
  /// Columns of an operator; -1 if it has none.
  struct Columns {
    int start = -1, all_cores = -1;
    std::vector<int> tensor, vector; ///< per core; the same for both kinds if the operator is fused
  };
  struct Pair {
    int first = 0, second = 0; ///< operators without an order
    int forward = 0, back = 0; ///< columns: the first ends before the second starts, and the reverse
  };

  const ScheduledOperator& known(std::size_t op) const { return _known.operators[_graph.positions[op]]; }
  void addOperators();
  void addCores();
  void addPrecedence();
  void addPairs();
  void addEnergy();
  void addCommonCores(const Pair& pair, const std::vector<int>& first, const std::vector<int>& second);
  /// Row: the column `later` is at least the end of an operator plus `more`. If there is a column `only_if`
  /// and it is 0, the row is looser by `slack`.
  void addEnd(int later, std::size_t op, double more, int only_if = -1, double slack = 0.0);
  std::vector<int> orderOf(const std::vector<double>& values) const;

  ComponentGraph _graph;
  const OperatorSchedule& _known;
  double _scale;
  MipModel _model;
  int _makespan = 0; ///< column
  std::vector<Columns> _columns;
  std::vector<Pair> _pairs;
  std::vector<double> _heads; ///< earliest starts, divided by the scale
};

/// The shortest schedule of a component by a solver. It starts from the first schedule of the built-in
/// search, and never returns a longer one.
OperatorSchedule solveComponent(const ScheduleTask& task, const MipSolver& solver, double seconds);

} // namespace partita::detail
