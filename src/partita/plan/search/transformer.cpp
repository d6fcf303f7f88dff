#include "partita/plan/search/transformer.hpp"

#include "partita/config/files.hpp"
#include "partita/config/section_reader.hpp"
#include "partita/config/user_error.hpp"

namespace partita {

template <>
const std::vector<std::string>& namesOf<TransformerNorm>() {
  static const std::vector<std::string> names = {"layer", "rms"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<TransformerActivation>() {
  static const std::vector<std::string> names = {"relu", "gelu", "silu"};
  return names;
}

namespace {

constexpr double most_extent = 1 << 24, most_blocks = 1000;

Section describeModel(Transformer& model) {
  Section section{"model", ""};
  section.add("name", &model.name, "").required = Required::always;
  section.add("source", &model.source, "");
  section.add("layers", &model.layers, within(1, most_blocks), "blocks", "").required = Required::always;
  for (const auto& [key, field] : {std::pair<const char*, std::int64_t*>{"width", &model.width},
                                   {"heads", &model.heads},
                                   {"feed_forward", &model.feed_forward},
                                   {"vocabulary", &model.vocabulary},
                                   {"sequence", &model.sequence}})
    section.add(key, field, within(1, most_extent), "", "").required = Required::always;
  section.add("norm", choice(model.norm), "");
  section.add("activation", choice(model.activation), "");
  section.add("gated", &model.gated, "");
  section.add("rotary", &model.rotary, "");
  section.add("biases", &model.biases, "");
  section.add("segments", &model.segments, "");
  section.add("least_parts", &model.least_parts, within(1, 1024), "devices", "");
  section.add("most_parts", &model.most_parts, within(1, 1024), "devices", "");
  return section;
}

Section describeExpert(Transformer& model) {
  Section section{"expert", ""};
  for (const auto& [key, field] : {std::pair<const char*, std::int64_t*>{"stages", &model.expert_stages},
                                   {"replicas", &model.expert_replicas},
                                   {"parts", &model.expert_parts}})
    section.add(key, field, within(1, most_extent), "", "").required = Required::always;
  return section;
}

/// A degree of tensor parallelism that a search can use.
void checkDegree(const Transformer& model, const std::string& key, std::int64_t degree,
                 SectionReader& reader) {
  if (!divides(model, degree))
    reader.error(key, std::to_string(model.heads) + " heads or " + std::to_string(model.feed_forward) +
                          " units are not divisible by " + std::to_string(degree));
  if ((degree & (degree - 1)) != 0) reader.error(key, std::to_string(degree) + " is not a power of two");
}

/// Otherwise the plan would seem not to fit.
void checkExpert(const Transformer& model, SectionReader& reader) {
  if (model.expert_stages == 0) return;
  checkDegree(model, "expert/parts", model.expert_parts, reader);
  if (model.expert_parts < model.least_parts || model.expert_parts > model.most_parts)
    reader.error("expert/parts", "must be from least_parts to most_parts, " +
                                     std::to_string(model.least_parts) + " to " +
                                     std::to_string(model.most_parts));
  if (model.expert_stages > model.layers)
    reader.error("expert/stages", "must be at most the number of layers, " + std::to_string(model.layers));
}

} // namespace

Transformer parseTransformer(const std::string& text, const std::string& name) {
  Transformer model;
  SectionReader reader(name);
  bool found = false;
  for (const TomlNode& node : reader.parse(text)) {
    found = found || node.key == "model";
    if (node.key == "model")
      reader.readKeys(node, describeModel(model), node.key);
    else if (node.key == "expert")
      reader.readKeys(node, describeExpert(model), node.key);
    else
      reader.unknownSection(node, {"model", "expert"});
  }
  reader.throwIfAny();
  if (!found) reader.error("model", "the section [model] is missing");
  if (model.width % model.heads != 0)
    reader.error("model/heads", "the width " + std::to_string(model.width) + " is not divisible by " +
                                    std::to_string(model.heads) + " heads");
  checkDegree(model, "model/least_parts", model.least_parts, reader);
  if (model.most_parts < model.least_parts) reader.error("model/most_parts", "must be at least least_parts");
  checkExpert(model, reader);
  reader.throwIfAny();
  return model;
}

Transformer loadTransformer(const std::string& path) {
  constexpr std::uint64_t most_bytes = 1 << 20;
  if (!regularFileExists(path, ", not a model")) throw UserError(path + ": no such model");
  return parseTransformer(readTextFile(path, most_bytes), path);
}

bool divides(const Transformer& model, std::int64_t tensor_degree) {
  return model.heads % tensor_degree == 0 && model.feed_forward % tensor_degree == 0;
}

} // namespace partita
