// Reads a specification of a search and the description of a transformer; what is accepted must have
// accelerators, and layers of which none is negative.
#include "partita/plan/search/search_spec.hpp"
#include "partita/plan/search/transformer.hpp"

#include <cmath>

#include "fuzz.hpp"

using namespace partita;

namespace {

void check(const SearchSpec& spec) {
  const SearchTask& task = spec.task;
  fuzz::require(!spec.models.empty() && !task.cases.empty(), "nothing to search");
  fuzz::require(task.devices % task.node_devices == 0, "nodes do not fill the devices");
  for (const SearchCase& one : task.cases) {
    fuzz::require(one.microbatch > 0 && task.batch % one.microbatch == 0, "microbatches");
    fuzz::require(one.memory > 0.0, "memory");
    fuzz::require(!(one.recompute && one.choose.recompute), "a choice that is none");
  }
  fuzz::require(!task.accelerators.empty(), "no accelerators");
  fuzz::require(task.node_bandwidth >= task.bandwidth && task.bandwidth > 0.0, "bandwidths");
}

void check(const Transformer& model) {
  fuzz::require(divides(model, model.least_parts), "parts");
  constexpr std::int64_t few = 100;
  if (model.layers > few) return;
  const ModelChain chain = chainOf(model, static_cast<int>(model.least_parts), 1);
  fuzz::require(chain.chain.size() == static_cast<std::size_t>(model.layers) + 2, "layers");
  for (const GraphLayer& layer : chain.layers)
    fuzz::require(std::isfinite(layer.macs()) && layer.macs() >= 0.0 && layer.parameters >= 0.0, "layer");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  SearchSpec spec;
  if (fuzz::accepted([&] { spec = parseSearchSpec(text, "spec"); })) check(spec);
  Transformer model;
  if (fuzz::accepted([&] { model = parseTransformer(text, "model"); })) check(model);
  return 0;
}
