#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/parts/flow.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace partita {

namespace {

/// One strategy of ParaDL's Table III (technical report of October 2020), or of the authors' program if the
/// table has no row. D, B, I, p, S, |x|, |y|, |w|, delta are as there; phi are the factors of `Contention`.
class PaperModel {
 public:
  PaperModel(const CostTerms& terms, Prediction& prediction)
      : _terms(terms), _rows(terms.task.layers), _times(terms.times), _prediction(prediction),
        _d(terms.task.samples), _b(prediction.batch), _p(static_cast<double>(prediction.ranks)),
        _p1(static_cast<double>(prediction.grid.replicas)), _p2(static_cast<double>(prediction.grid.parts)),
        _w(sumOf(_rows, &LayerCost::weights)) {
    for (const LayerTime& time : _times) add(_time, time, 1.0);
    for (const LayerCost& row : _rows)
      if (!row.in_place) _xy += row.inputs + row.outputs;
  }

  void fill() {
    switch (_prediction.strategy) {
    case CostStrategy::data:
      return data();
    case CostStrategy::spatial:
      return spatial();
    case CostStrategy::pipeline:
      return pipeline();
    case CostStrategy::filter:
    case CostStrategy::channel:
      return channels();
    case CostStrategy::data_filter:
      return dataFilter();
    case CostStrategy::data_spatial:
      return dataSpatial();
    default:
      return serial();
    }
  }

 private:
  const Link& link(double ranks) const { return _terms.cluster.links.of(std::llround(ranks)); }
  const Link& layerLink(double ranks) const { return _terms.cluster.layerLinks().of(std::llround(ranks)); }
  static double memoryOf(double items) { return 2.0 * bytes_per_item * items; }
  double weightBytes() const { return bytes_per_item * _w; }

  /// Adds a share of a layer.
  static void add(ComputeTime& sum, const LayerTime& layer, double share) {
    sum.forward += share * layer.forward;
    sum.backward += share * layer.backward;
    sum.update += share * layer.update;
  }
  /// `time`: passes of a sample, of which an epoch has so many, and the update of a step.
  void setCompute(double samples, const ComputeTime& time) {
    const double per_step = samples / _prediction.steps;
    _prediction.setCompute({per_step * time.forward, per_step * time.backward, time.update});
  }

  void serial() {
    setCompute(_d, _time);
    _prediction.memory = memoryOf(_b * _xy + _w);
  }

  void data() {
    setCompute(_d / _p, _time);
    _prediction.add(ExchangeKind::gradients, ringAllReduce(_prediction.ranks, weightBytes()), link(_p));
    _prediction.memory = memoryOf(_b / _p * _xy + _w);
  }

  /// Rows that a neighbour needs, times the other extents: a hyperplane through the tensor.
  static double planeOf(const LayerCost& row, const Shape& shape) {
    const std::size_t first_axis = shape.size() == 4 ? 0 : 1;
    const std::int64_t reach = (row.windows->kernel[first_axis] - 1) / 2;
    const std::int64_t plane = valuesOf(shape) / shape[1];
    return asReal(reach * plane);
  }

  static bool hasHalo(const LayerCost& row) {
    const auto& kernel = row.windows->kernel;
    return kernel[0] > 1 || kernel[1] > 1 || kernel[2] > 1;
  }

  /// Halos of two neighbours, in the forward and in the backward pass.
  void addHalos() {
    for (const std::size_t i : spatialRows(_terms.task)) {
      const LayerCost& row = _rows[i];
      if (!hasHalo(row) || _p2 == 1.0) continue; // a rank without neighbours sends nothing
      const double bytes = _b * (planeOf(row, row.in) + planeOf(row, row.out)) * bytes_per_item;
      _prediction.add(ExchangeKind::halo, {4.0, bytes / 2.0}, link(_p));
    }
  }

  void spatial() {
    data();
    addHalos();
    _prediction.memory = memoryOf(_b * _xy / _p + _w);
  }

  void pipeline() {
    const std::vector<std::int64_t> stage_of = stagesOfRows(_terms, _prediction.grid.stages);
    std::vector<double> forward(_prediction.grid.stages), backward(forward), update(forward), items(forward);
    double most_cut = 0.0;
    for (std::size_t i = 0; i < _rows.size(); ++i) {
      const std::int64_t stage = stage_of[i];
      forward[stage] += _times[i].forward;
      backward[stage] += _times[i].backward;
      update[stage] += _times[i].update;
      items[stage] +=
          _rows[i].weights + (_rows[i].in_place ? 0.0 : _b * (_rows[i].inputs + _rows[i].outputs));
      if (i + 1 < _rows.size() && stage_of[i + 1] != stage) most_cut = std::max(most_cut, _rows[i].outputs);
    }
    const auto most = [](const std::vector<double>& values) {
      return *std::max_element(values.begin(), values.end());
    };
    const auto segments = static_cast<double>(segmentsOf(_terms.task, _prediction.grid.stages));
    setCompute(_d * (_p + segments - 1.0) / segments, {most(forward), most(backward), most(update)});
    if (_p > 1.0) {
      const double bytes = _b / segments * most_cut * bytes_per_item;
      _prediction.add(ExchangeKind::stage, {2.0 * (_p + segments - 2.0), bytes}, link(_p));
    }
    _prediction.memory = memoryOf(most(items));
  }

  /// Filter: gather y, sum dL/dx. Channel: the mirror image, with the same bytes since |x_l| = |y_{l-1}|.
  void addChannelExchanges(double samples, double flows) {
    for (const std::size_t i : dividedRows(_rows)) {
      const double bytes = samples * _rows[i].outputs * bytes_per_item;
      const std::int64_t parts = _prediction.grid.parts;
      _prediction.add(ExchangeKind::all_gather, ringAllGather(parts, bytes / _p2), link(_p2), flows);
      _prediction.add(ExchangeKind::all_reduce, ringAllReduce(parts, bytes), link(_p2), flows);
    }
  }

  void channels() {
    ComputeTime time = _time;
    for (const std::size_t i : dividedRows(_rows)) add(time, _times[i], 1.0 / _p2 - 1.0);
    setCompute(_d / _p1, time);
    const double flows = _p1 > 1.0 ? _terms.cluster.contention.data_filter_inside : 1.0;
    addChannelExchanges(_b / _p1, flows);
    _prediction.memory = memoryOf(_b / _p1 * _xy + _w / _p2);
  }

  /// As in the authors' program, each replica sums all |w|, although each rank has only a part of them.
  void dataFilter() {
    channels();
    const double flows = _p2 > 1.0 ? _terms.cluster.contention.data_filter : 1.0;
    _prediction.add(ExchangeKind::gradients, ringAllReduce(_prediction.grid.replicas, weightBytes()),
                    link(_p), flows);
  }

  void dataSpatial() {
    const double samples = _b / _p1;
    const std::vector<std::size_t> rows = spatialRows(_terms.task);
    const std::set<std::size_t> divided(rows.begin(), rows.end());
    ComputeTime time;
    double items = _w;
    for (std::size_t i = 0; i < _rows.size(); ++i) {
      const double share = divided.count(i) > 0 ? 1.0 / _p2 : 1.0;
      const bool counts = _p2 == 1.0 || rows.empty() || i <= rows.back();
      if (counts) add(time, _times[i], share);
      if (!_rows[i].in_place) items += samples * (_rows[i].inputs + _rows[i].outputs) * share;
    }
    time.update = _time.update;
    setCompute(_d / _p1, time);
    addGroupExchanges(rows, samples);
    _prediction.memory = memoryOf(items);
  }

  void addGroupExchanges(const std::vector<std::size_t>& rows, double samples) {
    const Contention& phi = _terms.cluster.contention;
    const std::int64_t parts = _prediction.grid.parts;
    for (const std::size_t i : rows) {
      if (!hasHalo(_rows[i]) || parts == 1) continue;
      const double bytes = samples * planeOf(_rows[i], _rows[i].in) * bytes_per_item;
      _prediction.add(ExchangeKind::halo, {4.0, bytes}, layerLink(_p2), phi.halo);
    }
    if (!rows.empty()) {
      const double bytes = samples * _rows[rows.back()].outputs * bytes_per_item;
      Messages gather = ringAllGather(parts, bytes / _p2);
      gather.count *= 2.0; // and the scatter back
      _prediction.add(ExchangeKind::gather, gather, layerLink(_p2), phi.gather);
    }
    _prediction.add(ExchangeKind::gradients, ringAllReduce(parts, weightBytes()), link(_p2));
    _prediction.add(ExchangeKind::gradients, ringAllReduce(_prediction.grid.replicas, weightBytes()),
                    link(_p), _p2 > 1.0 ? phi.leaders : 1.0);
  }

  const CostTerms& _terms;
  const std::vector<LayerCost>& _rows;
  const std::vector<LayerTime>& _times;
  Prediction& _prediction;
  double _d, _b, _p, _p1, _p2, _w;
  double _xy = 0.0;  ///< sum of |x| + |y|
  ComputeTime _time; ///< of the whole network: passes of a sample, update of a step
};

/// Has a divided output fewer places than there are parts, or has a part fewer than its halo reaches,
/// floor((K - 1) / 2) along each axis? Only the first axis counts if no other one is divided.
Obstacle blockObstacle(const CostTask& task, std::int64_t parts, bool first_axis_only) {
  Obstacle found = Obstacle::none;
  for (const std::size_t i : spatialRows(task)) {
    const LayerCost& row = task.layers[i];
    std::int64_t places = 1, halo = 1;
    for (std::size_t axis = 1; axis < (first_axis_only ? 2 : row.out.size()); ++axis) {
      places *= row.out[axis];
      halo *= std::max<std::int64_t>(1, (row.windows->kernel[placeAxis(row.out, axis)] - 1) / 2);
    }
    if (parts > places) return Obstacle::more_ranks_than_places;
    if (parts * halo > places) found = Obstacle::slab_smaller_than_halo;
  }
  return found;
}

/// Are there fewer filters, or input channels of a layer that sums over them, than parts?
Obstacle channelObstacle(const CostTask& task, Split split, std::int64_t parts) {
  const std::vector<std::size_t> divided = dividedRows(task.layers);
  if (divided.empty()) return Obstacle::nothing_to_divide;
  for (const std::size_t row : divided) {
    const LayerCost& layer = task.layers[row];
    if (split == Split::filter && asReal(parts) > layer.filters()) return Obstacle::more_ranks_than_filters;
    if (split == Split::channel && row != firstTrained(task.layers) && asReal(parts) > layer.channels())
      return Obstacle::more_ranks_than_channels;
  }
  return Obstacle::none;
}

} // namespace

Obstacle paperObstacle(const CostTerms& terms, const Prediction& prediction) {
  const std::int64_t parts = prediction.grid.parts;
  if (!prediction.split || parts == 1) return Obstacle::none;
  if (*prediction.split != Split::spatial) return channelObstacle(terms.task, *prediction.split, parts);
  if (spatialRows(terms.task).empty()) return Obstacle::nothing_to_divide;
  return blockObstacle(terms.task, parts, formOf(prediction.strategy).replicas);
}

void predictPaper(const CostTerms& terms, Prediction& prediction) {
  PaperModel(terms, prediction).fill();
}

} // namespace partita
