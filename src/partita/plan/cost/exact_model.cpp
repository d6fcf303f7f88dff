#include "partita/plan/cost/channel_grid.hpp"
#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/gradient_buckets.hpp"
#include "partita/plan/cost/spatial_split.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// The part of `extent` channels that the rank with most of them has.
double largestPart(double extent, std::int64_t parts) {
  return std::ceil(extent / asReal(parts)) / extent;
}

/// The equations of ParaDL with its errors corrected; docs/prediction.md lists them.
class ExactModel {
 public:
  ExactModel(const CostTerms& terms, Prediction& prediction)
      : _terms(terms), _rows(terms.task.layers), _prediction(prediction), _parts(prediction.grid.parts),
        _replicas(prediction.grid.replicas), _samples(std::ceil(prediction.batch / asReal(_replicas))),
        _shares(_rows.size()) {}

  void fill() {
    switch (_prediction.strategy) {
    case CostStrategy::spatial:
    case CostStrategy::data_spatial:
      spatial();
      break;
    case CostStrategy::filter:
    case CostStrategy::data_filter:
      filter();
      break;
    case CostStrategy::channel:
      channel();
      break;
    case CostStrategy::grid:
    case CostStrategy::data_grid:
      grid();
      break;
    default:
      break;
    }
    synchroniseNorms();
    sumGradients();
    finish();
  }

 private:
  /// What a rank has of a row, as parts of the whole.
  struct Share {
    double work = 1.0, weights = 1.0, input = 1.0, output = 1.0;
  };

  bool spatialStrategy() const {
    return _prediction.strategy == CostStrategy::spatial ||
           _prediction.strategy == CostStrategy::data_spatial;
  }
  const Link& inside() const { return _terms.cluster.links.of(_parts); }
  const Link& across() const { return _terms.cluster.links.of(_prediction.ranks); }
  double bytes(double items) const { return _samples * items * bytes_per_item; }

  void sum(ExchangeKind kind, const Messages& messages, const Link& link, double flows, double added_bytes) {
    _prediction.add(kind, messages, link, flows, added_bytes * _terms.cluster.seconds_per_reduced_byte);
  }

  void allReduce(ExchangeKind kind, std::int64_t ranks, double whole, const Link& link, double flows = 1.0) {
    sum(kind, ringAllReduce(ranks, whole), link, flows, whole * asReal(ranks - 1) / asReal(ranks));
  }

  /// Each rank gathers all outputs, and sums the gradient of the input over the ranks.
  void filter() {
    for (const std::size_t i : divided()) {
      _shares[i].work = _shares[i].weights = largestPart(_rows[i].filters(), _parts);
      _prediction.add(ExchangeKind::all_gather,
                      ringAllGather(_parts, bytes(_rows[i].outputs) / asReal(_parts)), inside());
      if (i != firstTrained(_rows))
        allReduce(ExchangeKind::all_reduce, _parts, bytes(_rows[i].inputs), inside());
    }
  }

  /// Each rank sums all outputs over the ranks, and gathers the gradient of the input. The first layer, with
  /// few input channels, is not divided.
  void channel() {
    for (const std::size_t i : divided()) {
      if (i == firstTrained(_rows)) continue;
      _shares[i].work = _shares[i].weights = largestPart(_rows[i].channels(), _parts);
      allReduce(ExchangeKind::all_reduce, _parts, bytes(_rows[i].outputs), inside());
      _prediction.add(ExchangeKind::all_gather,
                      ringAllGather(_parts, bytes(_rows[i].inputs) / asReal(_parts)), inside());
    }
  }

  void grid() {
    const std::vector<std::size_t> rows = divided();
    for (const std::size_t i : rows) gridLayer(i);
    // The layers between divided ones keep their channels divided; the first product after them needs all.
    std::size_t end = rows.empty() || _parts == 1 ? 0 : rows.back() + 1;
    while (end > 0 && end < _rows.size() && _rows[end].work != LayerWork::product) ++end;
    for (std::size_t i = 0; i < end; ++i) {
      _shares[i].output = 1.0 / asReal(_parts);
      if (i > 0) _shares[i].input = _shares[i].output;
    }
    if (end > 0 && end < _rows.size())
      _prediction.add(ExchangeKind::gather, ringAllGather(_parts, bytes(_rows[end].inputs) / asReal(_parts)),
                      inside());
  }

  /// The first layer is divided by filter: its input is no activation, and its gradient is not needed.
  void gridLayer(std::size_t i) {
    const LayerCost& row = _rows[i];
    const bool first = i == firstTrained(_rows);
    const ChannelGrid grid = first ? ChannelGrid{1, _parts} : bestGrid(row, _parts, _samples, inside());
    _shares[i].work = _shares[i].weights =
        largestPart(row.channels(), grid.inputs) * largestPart(row.filters(), grid.outputs);
    if (first) return;
    const GridExchange exchange = gridExchange(row, grid, _samples);
    for (const Messages& gather : {exchange.gather, exchange.gather_back})
      _prediction.add(ExchangeKind::all_gather, gather, inside());
    for (const Messages& reduce : {exchange.reduce_scatter, exchange.reduce_scatter_back})
      sum(ExchangeKind::reduce_scatter, reduce, inside(), 1.0, reduce.count * reduce.bytes);
  }

  void spatial() {
    if (_parts == 1) return;
    const SpatialSplit split = chooseSplit(_terms, _parts, _samples).split;
    const std::size_t rows = spatialPrefix(_terms.task);
    const Link& link = _terms.cluster.layerLinks().of(_parts);
    for (std::size_t i = 0; i < rows; ++i) {
      Share& share = _shares[i];
      share.work = share.output = shareOf(_rows[i], split);
      share.input = i > 0 ? _shares[i - 1].output : share.output;
      const double passes = i > firstTrained(_rows) ? 2.0 : 1.0; // backward too
      for (const Messages& message : haloMessages(_rows[i], split, _samples))
        _prediction.add(ExchangeKind::halo, {passes * message.count, message.bytes}, link);
    }
    if (rows < _rows.size())
      _prediction.add(ExchangeKind::gather,
                      ringAllGather(_parts, bytes(_rows[rows - 1].outputs) / asReal(_parts)), link);
  }

  std::vector<std::size_t> divided() const {
    return _parts > 1 ? dividedRows(_rows) : std::vector<std::size_t>{};
  }

  /// Two sums and two gradients of sums per channel.
  void synchroniseNorms() {
    for (const LayerCost& row : _rows) {
      if (!row.synchronised) continue;
      for (int pass = 0; pass < 2; ++pass)
        allReduce(ExchangeKind::batch_norm, _replicas, 2.0 * row.channels() * bytes_per_item, across());
    }
  }

  /// Parts that have divided channels have gradients of their own weights, and the rings of all parts share
  /// the cables of a node. Sums over replicas go on while a rank computes. Parts that have divided places add
  /// up those of the divided layers first.
  void sumGradients() {
    double of_places = 0.0;
    const std::size_t prefix = spatialStrategy() && _parts > 1 ? spatialPrefix(_terms.task) : 0;
    for (std::size_t i = 0; i < prefix; ++i) of_places += _rows[i].parameters();
    if (of_places > 0.0) allReduce(ExchangeKind::gradients, _parts, of_places * bytes_per_item, inside());
    std::vector<GradientLayer> layers(_rows.size());
    for (std::size_t i = 0; i < _rows.size(); ++i)
      layers[i] = {_samples * _shares[i].work * _terms.times[i].forward,
                   _samples * _shares[i].work * _terms.times[i].backward,
                   _rows[i].parameters() * _shares[i].weights * bytes_per_item};
    const RingPath path = ringPath(_terms.cluster, _prediction.ranks, _replicas, _parts);
    const double flows = spatialStrategy() ? 1.0 : path.flows;
    _prediction.add(gradientExchange(layers, bucketRule(_terms.task.program->deck()), _replicas,
                                     _terms.cluster.overlap, [&](double bytes) {
                                       return path.link.seconds(ringAllReduce(_replicas, bytes), flows) +
                                              bytes * asReal(_replicas - 1) / asReal(_replicas) *
                                                  _terms.cluster.seconds_per_reduced_byte;
                                     }));
  }

  void finish() {
    double seconds = 0.0, update = 0.0;
    for (std::size_t i = 0; i < _rows.size(); ++i) {
      const Share& share = _shares[i];
      seconds += _terms.times[i].perSample() * share.work;
      update += _terms.times[i].update * share.weights;
    }
    _prediction.epoch_compute = _prediction.steps * (_samples * seconds + update);
    _prediction.memory = memory();
  }

  /// What a replica would need, less the weights and outputs that other parts have.
  double memory() const {
    const StageMemory whole = _terms.task.program->ofReplica(std::llround(_samples), _replicas);
    double own_weights = 0.0, weights = 0.0, own_outputs = 0.0, outputs = 0.0;
    for (std::size_t i = 0; i < _rows.size(); ++i) {
      weights += _rows[i].parameters();
      own_weights += _rows[i].parameters() * _shares[i].weights;
      outputs += _rows[i].outputs;
      own_outputs += _rows[i].outputs * _shares[i].output;
    }
    const double state = asReal(whole.parameters + whole.gradients + whole.optimiser);
    return state * (weights > 0.0 ? own_weights / weights : 1.0) +
           asReal(whole.activations) * own_outputs / outputs +
           asReal(whole.buffers + whole.evaluation) * _shares.front().input;
  }

  const CostTerms& _terms;
  const std::vector<LayerCost>& _rows;
  Prediction& _prediction;
  std::int64_t _parts, _replicas;
  double _samples; ///< of a replica, per step
  std::vector<Share> _shares;
};

} // namespace

Obstacle exactObstacle(const CostTerms& terms, const Prediction& prediction) {
  const CostTask& task = terms.task;
  const std::int64_t parts = prediction.grid.parts;
  switch (prediction.strategy) {
  case CostStrategy::spatial:
  case CostStrategy::data_spatial:
    return parts > 1 ? chooseSplit(terms, parts, prediction.batch).obstacle : Obstacle::none;
  case CostStrategy::filter:
  case CostStrategy::channel:
  case CostStrategy::grid:
  case CostStrategy::data_filter:
  case CostStrategy::data_grid:
    return channelObstacle(task, dividedRows(task.layers), prediction.strategy, parts);
  default:
    return Obstacle::none;
  }
}

void predictExact(const CostTerms& terms, Prediction& prediction) {
  ExactModel(terms, prediction).fill();
}

} // namespace partita
