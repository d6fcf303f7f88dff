#pragma once

#include "partita/plan/schedule/component_graph.hpp"
#include "partita/plan/schedule/component_search.hpp"
#include "partita/plan/schedule/mip_model.hpp"

namespace partita::detail {

/// The integer program of PHAZE (ICML 2024) for a component: start and mode of each operator, an order for
/// each unordered pair of operators, and cores. Times are divided by the makespan of a known schedule, which
/// also bounds them. Unlike the paper's, it has the energy bounds as rows, and assigns cores to operators
/// only if there are more operators than cores.
class ScheduleModel {
 public:
  /// `known` is a valid schedule of the task.
  ScheduleModel(const ScheduleTask& task, const OperatorSchedule& known);

  const MipModel& model() const { return _model; }
  /// The values of all columns for the known schedule.
  std::vector<double> start() const;
  /// The schedule of these values of the columns. Starts are computed again from the order of the operators,
  /// since solvers satisfy constraints only up to a tolerance.
  OperatorSchedule schedule(const std::vector<double>& values) const;
  /// The makespan for a value of the cost.
  double makespan(double cost) const { return cost * _scale; }

 private:
  /// Columns of an operator; -1 if it has none.
  struct Columns {
    int start = -1, all_cores = -1;
    std::vector<int> tensor, vector; ///< per core; the same for both kinds if the operator is fused
  };
  struct Pair {
    int first = 0, second = 0; ///< two unordered operators
    int forward = 0, back = 0; ///< columns: `first` ends before `second` starts, and the reverse
  };

  const ScheduledOperator& known(std::size_t op) const { return _known.operators[_graph.positions[op]]; }
  void addOperators();
  void addCores();
  void addPrecedence();
  void addPairs();
  void addEnergy();
  void addCommonCores(const Pair& pair, const std::vector<int>& first, const std::vector<int>& second);
  /// Adds the row: column `later` >= end of an operator + `more`. If column `only_if` exists and is 0, the
  /// row is looser by `slack`.
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

/// The shortest schedule of a component, by a solver that starts from the first schedule of the built-in
/// search. It is never longer than that one.
OperatorSchedule solveComponent(const ScheduleTask& task, const MipSolver& solver, Deadline deadline);

} // namespace partita::detail
