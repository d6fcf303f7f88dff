#include "partita/plan/memory_between_cuts.hpp"

#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace partita {

LeastMemory::LeastMemory(const RunConfig& config, std::vector<LayerPlan> layers, int stages, int replicas,
                         std::int64_t real_bytes) {
  const bool keeps = planOf(config.strategy).gradientsCross(); // otherwise heads change what layers keep
  setActivations(layers, activationPrecision(config));
  for (const LayerPlan& layer : layers) {
    _held.push_back(_held.back() + 2 * layer.storedValues() * numberBytes(config.run.precision, real_bytes));
    _kept.push_back(_kept.back() + (keeps ? layer.keptValues() * real_bytes : 0));
  }
  for (int index = 0; index < stages; ++index) {
    const StageRows rows(config.strategy, {index, stages, replicas}, config.training.batch);
    _rows.push_back(rows.pass + (rows.live - 1) * rows.microbatch);
  }
}

double LeastMemory::of(std::int64_t first, std::int64_t last, int index) const {
  const std::size_t begin = first, end = last, i = index;
  return static_cast<double>(_held[end] - _held[begin] + _rows[i] * (_kept[end] - _kept[begin]));
}

MemoryBetweenCuts::MemoryBetweenCuts(const RunConfig& config, const std::vector<LayerPlan>& layers,
                                     int stages, int replicas, const DeviceKind& device)
    : _config(config), _maker(config, layers), _layers(static_cast<std::int64_t>(layers.size())),
      _stages(stages), _replicas(replicas), _device(device),
      _sizes(config, layers, StageRows(config.strategy, {0, stages, replicas}, config.training.batch).pass) {
  std::map<std::tuple<bool, bool, std::int64_t, std::int64_t>, int> kinds;
  for (int index = 0; index < stages; ++index) {
    const StageRows rows(config.strategy, {index, stages, replicas}, config.training.batch);
    const auto kind = std::make_tuple(index == 0, index + 1 == stages, rows.live, rows.live_before);
    _like.push_back(kinds.emplace(kind, index).first->second);
  }
}

std::int64_t MemoryBetweenCuts::of(std::int64_t first, std::int64_t last, int index) const {
  constexpr std::size_t most_known = 1 << 20; // about 50 MB
  const int like = _like[static_cast<std::size_t>(index)];
  const std::int64_t key = (like * (_layers + 1) + first) * (_layers + 1) + last;
  const auto found = _known.find(key);
  if (found != _known.end()) return found->second;
  const StagePlan stage = _maker.ends(first, last, index, _stages, _sizes);
  const std::int64_t bytes = stageMemory(stage, _config, {index, _stages, _replicas}, _device).total();
  if (_known.size() < most_known) _known.emplace(key, bytes);
  return bytes;
}

double MemoryBetweenCuts::mostAt(std::size_t cut, const std::vector<std::int64_t>& cuts) const {
  const std::int64_t first = cut > 0 ? cuts[cut - 1] : 0,
                     last = cut + 1 < cuts.size() ? cuts[cut + 1] : _layers;
  const int index = static_cast<int>(cut);
  return static_cast<double>(std::max(of(first, cuts[cut], index), of(cuts[cut], last, index + 1)));
}

} // namespace partita
