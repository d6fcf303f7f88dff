#include "partita/strategy/sil/exits.hpp"

#include "partita/comm/wait.hpp"
#include "partita/data/order.hpp"
#include "partita/strategy/evaluation.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

using Values = std::vector<double>;

/// The log-probabilities of all stages for this replica's share of a set, on the rank of the last stage.
struct ExitTable {
  std::vector<std::vector<Real>> logs; ///< by stage, [labels, classes]
  std::vector<std::int32_t> labels;
  std::int64_t classes = 0;
};

/// Sums over some labels.
struct Objective {
  double loss = 0.0;
  Values gradient, hessian; ///< [stages], [stages, stages]
};

ExitTable readExits(const ExecSpace& space, const RunContext& context) {
  const Dataset& set = context.sets.validation;
  const int stages = context.grid.plan().stages;
  ExitTable table;
  table.classes = context.sets.classes;
  table.logs.resize(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto& local : context.stages) local->exit_weight = local->index() == stage ? 1.0 : 0.0;
    std::vector<Real>& logs = table.logs[static_cast<std::size_t>(stage)];
    evaluateJoined(space, context.config, context.grid, context.stages, context.sets, set,
                   [&](const TypedMatrix& sums) {
                     const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), sums.real());
                     logs.insert(logs.end(), host.data(), host.data() + host.size());
                   });
  }
  const IndexRange share =
      shareOf(static_cast<std::int64_t>(set.size()), context.grid.replica(), context.grid.replicas());
  const auto each = static_cast<std::int64_t>(set.labels_per_sample);
  table.labels.assign(set.labels.begin() + share.begin * each, set.labels.begin() + share.end * each);
  return table;
}

/// Adds the cross-entropy of one label, with its derivatives by the weights. `p`: space for the posterior.
void addLabel(const ExitTable& table, std::size_t label, const Values& weights, Values& p, Objective& sums) {
  const std::size_t stages = weights.size(), classes = p.size(), first = label * classes,
                    own = table.labels[label];
  for (std::size_t c = 0; c < classes; ++c) {
    p[c] = 0.0;
    for (std::size_t k = 0; k < stages; ++k) p[c] += weights[k] * table.logs[k][first + c];
  }
  const double largest = *std::max_element(p.begin(), p.end()), of_own = p[own];
  double total = 0.0;
  for (double& value : p) total += value = std::exp(value - largest);
  for (double& value : p) value /= total;
  sums.loss += std::log(total) + largest - of_own;
  Values mean(stages, 0.0);
  for (std::size_t k = 0; k < stages; ++k) {
    for (std::size_t c = 0; c < classes; ++c) mean[k] += p[c] * table.logs[k][first + c];
    sums.gradient[k] += mean[k] - table.logs[k][first + own];
  }
  for (std::size_t k = 0; k < stages; ++k) {
    for (std::size_t j = 0; j <= k; ++j) {
      double product = 0.0;
      for (std::size_t c = 0; c < classes; ++c)
        product += p[c] * table.logs[k][first + c] * table.logs[j][first + c];
      const double curvature = product - mean[k] * mean[j];
      sums.hessian[k * stages + j] += curvature;
      if (j < k) sums.hessian[j * stages + k] += curvature;
    }
  }
}

/// Over the labels of all replicas.
Objective objectiveAt(const ExitTable& table, const Values& weights, const Communicator& peers) {
  Objective sums{0.0, Values(weights.size(), 0.0), Values(weights.size() * weights.size(), 0.0)};
  Values posterior(static_cast<std::size_t>(table.classes));
  for (std::size_t label = 0; label < table.labels.size(); ++label) {
    alive(); // with many classes and labels, all iterations together take minutes
    addLabel(table, label, weights, posterior, sums);
  }
  if (peers.size() == 1) return sums;
  Values all{sums.loss};
  all.insert(all.end(), sums.gradient.begin(), sums.gradient.end());
  all.insert(all.end(), sums.hessian.begin(), sums.hessian.end());
  peers.sum(all);
  const auto hessian = all.begin() + 1 + static_cast<std::ptrdiff_t>(weights.size());
  return {all.front(), Values(all.begin() + 1, hessian), Values(hessian, all.end())};
}

/// Solves A x = b for a symmetric positive definite A, by Gaussian elimination. A and b are overwritten.
Values solve(Values a, Values b) {
  const std::size_t n = b.size();
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    for (std::size_t row = pivot + 1; row < n; ++row) {
      const double factor = a[row * n + pivot] / a[pivot * n + pivot];
      for (std::size_t column = pivot; column < n; ++column)
        a[row * n + column] -= factor * a[pivot * n + column];
      b[row] -= factor * b[pivot];
    }
  }
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t column = row + 1; column < n; ++column) b[row] -= a[row * n + column] * b[column];
    b[row] /= a[row * n + row];
  }
  return b;
}

/// The objective with a penalty for weights that differ from equal ones. Two stages that predict nearly the
/// same would otherwise get huge weights of opposite sign.
struct Penalised {
  double strength = 0.0, equal = 0.0;

  Objective at(const ExitTable& table, const Values& weights, const Communicator& peers) const {
    Objective sums = objectiveAt(table, weights, peers);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double difference = weights[k] - equal;
      sums.loss += strength / 2.0 * difference * difference;
      sums.gradient[k] += strength * difference;
      sums.hessian[k * weights.size() + k] += strength;
    }
    return sums;
  }
};

/// Newton's method from equal weights; a step that raises the objective is halved.
Values fittedWeights(const ExitTable& table, std::size_t stages, const Communicator& peers) {
  constexpr int most_steps = 50, most_halvings = 30;
  constexpr double penalty = 0.01, accuracy = 1e-9; // `penalty`: relative to the mean curvature
  const double count = static_cast<double>(stages);
  Penalised objective{0.0, 1.0 / count};
  Values weights(stages, objective.equal);
  Objective here = objective.at(table, weights, peers);
  for (std::size_t k = 0; k < stages; ++k)
    objective.strength += penalty * here.hessian[k * stages + k] / count;
  here = objective.at(table, weights, peers);
  for (int iteration = 0; iteration < most_steps; ++iteration) {
    const Values step = solve(here.hessian, here.gradient);
    const double before = here.loss;
    double length = 1.0;
    for (int halving = 0; halving < most_halvings; ++halving, length /= 2.0) {
      Values next = weights;
      for (std::size_t k = 0; k < stages; ++k) next[k] -= length * step[k];
      Objective there = objective.at(table, next, peers);
      if (!(there.loss < here.loss)) continue;
      weights = std::move(next);
      here = std::move(there);
      break;
    }
    if (!(before - here.loss > accuracy * before)) break;
  }
  return weights;
}

} // namespace

void fitExits(const ExecSpace& space, const RunContext& context) {
  Grid& grid = context.grid;
  const int stages = grid.plan().stages;
  const ExitTable table = readExits(space, context);
  Values weights(static_cast<std::size_t>(stages), 0.0);
  if (grid.owns(stages - 1)) {
    const Values fitted = fittedWeights(table, weights.size(), grid.peers());
    if (grid.replica() == 0 && grid.part() == 0) weights = fitted;
  }
  grid.world().sum(weights); // one rank contributes
  for (const auto& local : context.stages)
    local->exit_weight = weights[static_cast<std::size_t>(local->index())];
}

} // namespace partita
