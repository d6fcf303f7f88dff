#include "partita/plan/parts/copy_on_part.hpp"

#include "partita/config/user_error.hpp"
#include "partita/plan/parts/part_of_stage.hpp"

#include <algorithm>

namespace partita {

namespace {

/// The slices that a part has of the tensors in a range of a stage's flat buffer.
std::vector<StageTensor> onPart(const StagePlan& stage, const StagePlan& own, std::int64_t begin,
                                std::int64_t size) {
  const std::vector<StageTensor> all = parameterTensors(own.allLayers());
  std::vector<StageTensor> found;
  for (const StageTensor& whole : parameterTensors(stage.allLayers())) {
    if (whole.offset < begin || whole.offset >= begin + size) continue;
    if (const StageTensor* const held = findTensor(all, whole.layer, whole.name)) found.push_back(*held);
  }
  return found;
}

bool sameSlices(const StageTensor& a, const StageTensor& b) {
  return a.name == b.name && std::equal(a.slices.begin(), a.slices.end(), b.slices.begin(), b.slices.end(),
                                        [](const TensorSlice& one, const TensorSlice& other) {
                                          return one.offset == other.offset && one.extents == other.extents;
                                        });
}

} // namespace

ParameterCopy copyOnPart(const ParameterCopy& copy, const std::vector<StagePlan>& stages,
                         const StrategySection& strategy, int part) {
  if (strategy.parts == 1) return copy;
  const auto tensors_in = [&](int stage, std::int64_t begin) {
    const StagePlan& whole = stages[static_cast<std::size_t>(stage)];
    return onPart(whole, partOfStage(whole, strategy, part), begin, copy.size);
  };
  const std::vector<StageTensor> from = tensors_in(copy.from_stage, copy.from),
                                 to = tensors_in(copy.to_stage, copy.to);
  if (from.empty() || !std::equal(from.begin(), from.end(), to.begin(), to.end(), sameSlices)) {
    const bool next = copy.kind == ParameterCopy::Kind::first_layer;
    throw UserError(std::string(next ? "strategy/lookahead" : "strategy/refresh") +
                    ": parts divide the weights of stage " + std::to_string(copy.from_stage + 1) +
                    " differently from their copy in the head of stage " + std::to_string(copy.to_stage + 1) +
                    "; use another strategy/split");
  }
  ParameterCopy own = copy;
  own.from = from.front().offset;
  own.to = to.front().offset;
  own.size = from.back().offset + storedSize(from.back().size) - own.from;
  return own;
}

} // namespace partita
