#include "partita/config/deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/network_plan.hpp"

#include <array>
#include <chrono>
#include <cstdio>

#include "bench_model.hpp"

namespace partita {

namespace {

constexpr int batch = 16;

/// Six blocks of width 256 on windows of 128 characters, without dropout.
const char* const gpt_deck = R"(
[data]
kind = "grammar"
sequence = 128
samples = 64
test_samples = 1
[network]
layers = [
  { type = "embedding", width = 256, positions = true },
  { type = "block", repeat = 6, layers = [
    { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 4 }] },
    { type = "residual", layers = [{ type = "layer-norm" },
      { type = "dense", units = 1024, activation = "gelu" }, { type = "dense", units = 256 }] },
  ] },
  { type = "layer-norm" },
  { type = "dense" },
]
[training]
batch = 16
)";

Measurement tell(const std::string& name, double flops, double ms, double gemm_rate) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "  %-12s %8.3f ms a step, %6.1f GFLOP/s = %5.1f %% of sgemm",
                name.c_str(), ms, 1e-6 * flops / ms, 1e-4 * flops / ms / gemm_rate);
  Log::info(line.data());
  return {name, ms, "ms"};
}

void showPhases(const ExecSpace& space, BenchModel& model) {
  PhaseTimes::enable(true);
  PhaseTimes::reset();
  constexpr int steps = 4; // half of them warm-up
  timeSteps(space, model, 1, steps / 2);
  const auto seconds = PhaseTimes::seconds();
  PhaseTimes::enable(false);
  for (const Phase phase : {Phase::gemm, Phase::elementwise, Phase::optimiser, Phase::data}) {
    std::array<char, 80> line{};
    std::snprintf(line.data(), line.size(), "    %-22s %8.3f ms", phaseName(phase),
                  1e3 * seconds[static_cast<std::size_t>(phase)] / steps);
    Log::info(line.data());
  }
}

/// One attention layer alone: its projections and what lies between them.
Measurement measureAttention(const ExecSpace& space, const LayerPlan& plan, int repeats, double gemm_rate) {
  const auto layer = makeLayer(plan);
  const auto size = static_cast<std::size_t>(plan.parameters());
  const Vector parameters("partita::bench::parameters", size), gradients("partita::bench::gradients", size);
  const auto host = Kokkos::create_mirror_view(parameters);
  layer->initialise(1, host.data());
  Kokkos::deep_copy(space, parameters, host);
  layer->bind(parameters, gradients);
  const Matrix in("partita::bench::in", batch, plan.inputs()),
      out("partita::bench::out", batch, plan.outputs()),
      saved("partita::bench::saved", batch, plan.savedValues()),
      grad("partita::bench::grad", batch, plan.outputs()),
      grad_in("partita::bench::grad_in", batch, plan.inputs());
  Kokkos::deep_copy(space, in, Real(0.5));
  Pass pass;
  pass.work = Vector("partita::bench::work", static_cast<std::size_t>(plan.workValues(batch)));
  std::vector<double> milliseconds;
  for (int i = 0; i < repeats; ++i) {
    Kokkos::deep_copy(space, grad, Real(0.1));
    fence(space, "partita::bench::attention");
    const auto start = std::chrono::steady_clock::now();
    layer->forward(space, pass, in, out, saved);
    layer->backward(space, pass, in, out, saved, grad, grad_in);
    fence(space, "partita::bench::attention");
    milliseconds.push_back(1e3 *
                           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double flops = batch * (plan.forwardFlops() + plan.weightFlops() + plan.inputFlops());
  return tell("attention256", flops, median(milliseconds), gemm_rate);
}

} // namespace

std::vector<Measurement> measureText(const ExecSpace& space, const Communicator& self, bool quick,
                                     double gemm_rate) {
  const RunConfig deck = parseDeck(gpt_deck, "bench");
  BenchModel model(deck, loadData(deck.data, 1, Need::everything), self);
  const double flops = model.partition.joint_flops * batch;
  std::vector<Measurement> measured{
      tell("gpt256_b16", flops, median(timeSteps(space, model, quick ? 2 : 9, quick ? 1 : 3)), gemm_rate)};
  showPhases(space, model);
  const LayerPlan& attention = model.partition.stages[0].layers[1].body[0].body[1];
  measured.push_back(measureAttention(space, attention, quick ? 3 : 25, gemm_rate));
  return measured;
}

} // namespace partita
