#include "partita/config/user_error.hpp"
#include "partita/plan/layer_rules.hpp"
#include "partita/plan/parts/divide_layers.hpp"

namespace partita {

namespace {

/// Refuses a layer with fewer `what` than there are parts.
void checkShare(const LayerPlan& layer, int parts, std::int64_t count, const char* what) {
  if (count >= parts) return;
  throw UserError("strategy/parts: " + std::to_string(parts) + " parts cannot share the " +
                  std::to_string(count) + " " + what + " of " + layer.entry + " (" + layer.spec.type + ")");
}

} // namespace

/// Sequences are divided by position between the layers that are divided by heads, units or tokens
/// (Korthikanti et al., arXiv 2205.05198). The latter gather all positions, and their sums are divided by
/// position again.
void LayerDivider::addInSequence(PartChain& chain, const std::vector<LayerPlan>& layers, std::size_t index,
                                 bool ends) {
  const LayerPlan& layer = layers[index];
  const LayerRules& rules = layer.rules();
  const Layout layout = chain.flow().layout;
  if (!rules.table(layer).empty()) return addVocabulary(chain, layer);
  if (rules.work() == LayerWork::attention) return addHeads(chain, layer);
  if (rules.work() == LayerWork::product) {
    const bool last = ends && index + 1 == layers.size(), logits = last && _divides_classes,
               channels = channelsAfter(layers, index, ends);
    if (layout != Layout::channels || logits || rules.tied(layer))
      return addByOutputs(chain, layer, !logits && !channels);
    return channels ? addByBoth(chain, layer)
                    : addByInputs(chain, layer, last ? wholeFlow(layer.out) : between(layer.out));
  }
  const bool each_position = rules.work() == LayerWork::elementwise ||
                             (rules.work() == LayerWork::normalisation && layout == Layout::positions);
  if (each_position && layer.in == layer.out && layout != Layout::whole) return chain.addInside(layer);
  chain.addWhole(layer);
}

/// Each part looks up the tokens of its range, and adds the vectors of its range of positions. The output is
/// the sum over all parts.
void LayerDivider::addVocabulary(PartChain& chain, const LayerPlan& layer) {
  checkShare(layer, _parts, layer.classes, "tokens");
  const std::int64_t positions = layer.in[0];
  LayerPart has;
  has.outputs = {rangeOf(layer.classes, _parts, _part)};
  has.tensors["position"].outputs = {positions >= _parts ? rangeOf(positions, _parts, _part)
                                                         : IndexRange{0, _part == 0 ? positions : 0}};
  chain.addSums(layer, layer, has, between(layer.out));
}

/// Each part has the rows of its heads in the projection to queries, keys and values, and their columns in
/// the other one (Shoeybi et al., Megatron-LM). The output is the sum over all parts.
void LayerDivider::addHeads(PartChain& chain, const LayerPlan& layer) {
  const std::int64_t heads = layer.spec.attention.heads, width = layer.in[1], each = width / heads;
  checkShare(layer, _parts, heads, "heads");
  const IndexRange own_heads = rangeOf(heads, _parts, _part),
                   columns{own_heads.begin * each, own_heads.end * each};
  LayerPart has;
  has.partial_input_gradient = chain.shareWhole(layer);
  has.adds_bias = _part == 0;
  std::vector<IndexRange> rows;
  for (std::int64_t first = 0; first < 3 * width; first += width)
    rows.push_back({first + columns.begin, first + columns.end});
  has.tensors["qkv_weight"].outputs = has.tensors["qkv_bias"].outputs = rows;
  has.tensors["out_weight"].inputs = {columns};
  LayerPlan own = layer;
  own.spec.attention.heads = own_heads.size();
  chain.addSums(layer, own, has, between(layer.out));
}

} // namespace partita
