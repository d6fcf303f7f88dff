#include "partita/strategy/pipeline/network_work.hpp"

namespace partita {

NetworkWork::NetworkWork(const RunContext& context, std::vector<StageUpdater*> updaters,
                         std::int64_t microbatches, std::int64_t live)
    : _context(context), _updaters(std::move(updaters)), _microbatches(microbatches),
      _live(static_cast<std::size_t>(live)) {
  const IndexRange share =
      shareOf(context.config.training.batch, context.grid.replica(), context.grid.replicas());
  _first_row = share.begin;
  _rows = share.size();
  const std::int64_t capacity = largestShare(_rows, microbatches);
  for (const auto& local : context.stages) {
    for (Live& each : _live) {
      // The stage's own tape is one of them; evaluations use it between steps.
      each.tapes.push_back(&each == &_live.front() ? local->tape : local->makeTape(capacity));
      each.inputs.emplace_back();
    }
    const Stage& stage = local->stage;
    _input_gradients.push_back(local->index() == 0
                                   ? TypedRows()
                                   : TypedRows("partita::NetworkWork::input_gradient", stage.inputPrecision(),
                                               capacity, stage.inputs()));
  }
}

void NetworkWork::begin(BatchReader& reader, std::uint64_t step) {
  _reader = &reader;
  _step = step;
}

IndexRange NetworkWork::sliceOf(std::int64_t number) const {
  return shareOf(_rows, number, _microbatches);
}

std::int64_t NetworkWork::rows(std::int64_t number) const {
  return sliceOf(number).size();
}

Pass NetworkWork::passOf(std::int64_t number) const {
  Pass pass;
  pass.step = _step;
  pass.first_row = _first_row + sliceOf(number).begin;
  pass.accumulate = number > 0;
  return pass;
}

TypedMatrix NetworkWork::forward(const ExecSpace& space, std::int64_t number, const TypedMatrix& in) {
  Live& live = liveOf(number);
  const Pass pass = passOf(number);
  const Batch batch = _reader->next(space);
  PARTITA_REQUIRE(static_cast<std::int64_t>(batch.rows_read->size()) == rows(number),
                  "a microbatch of another size");
  live.labels = batch.labels;
  TypedMatrix flow = _context.grid.group() == 0 ? TypedMatrix(batch.features) : in;
  for (std::size_t i = 0; i < _context.stages.size(); ++i) {
    live.inputs[i] = flow;
    flow = _context.stages[i]->forwardJoined(space, pass, flow, live.tapes[i]);
    if (&live == &_live.front()) _context.stages[i]->tape.rows = live.tapes[i].rows; // the same memory
  }
  return flow;
}

TypedMatrix NetworkWork::lossGradient(const ExecSpace& space, std::int64_t number) {
  const Live& live = liveOf(number);
  LocalStage& local = *_context.stages.back();
  const TypedMatrix gradient =
      local.lossGradient(space, passOf(number), local.outputForLoss(space, live.tapes.back()),
                         {live.labels, Matrix()}, _updaters.back()->lossWeight());
  _updaters.back()->checkLoss(space, live.tapes.back(), live.inputs.back());
  return gradient;
}

TypedMatrix NetworkWork::backward(const ExecSpace& space, std::int64_t number, const TypedMatrix& gradient) {
  const Live& live = liveOf(number);
  const Pass pass = passOf(number);
  const bool final = number + 1 == _microbatches;
  TypedMatrix flow = gradient.size() > 0 ? gradient : lossGradient(space, number);
  for (std::size_t i = _context.stages.size(); i-- > 0;) {
    const TypedMatrix before =
        _input_gradients[i].empty() ? TypedMatrix() : _input_gradients[i].top(rows(number));
    _context.stages[i]->backwardJoined(space, pass, live.inputs[i], live.tapes[i], flow, before,
                                       final ? _updaters[i]->gradientReady(space) : Stage::GradientReady());
    flow = before;
  }
  return flow;
}

} // namespace partita
