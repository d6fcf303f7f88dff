#include "partita/config/names.hpp"

namespace partita {

template <>
const std::vector<std::string>& namesOf<DataKind>() {
  static const std::vector<std::string> names{"glyphs", "grammar", "noise", "idx", "libsvm", "hdf5", "text"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Standardise>() {
  static const std::vector<std::string> names{"none", "scalar", "feature"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Activation>() {
  static const std::vector<std::string> names{"identity", "relu",    "leaky-relu", "gelu",
                                              "tanh",     "sigmoid", "silu"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Initialisation>() {
  static const std::vector<std::string> names{"he", "xavier", "lecun", "orthogonal"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<LossKind>() {
  static const std::vector<std::string> names{"cross-entropy", "mse"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<OptimiserKind>() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<ScheduleKind>() {
  static const std::vector<std::string> names{"constant", "step", "cosine"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<StrategyKind>() {
  static const std::vector<std::string> names{"joint", "sil", "pipeline", "local-sgd", "hogbatch"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Split>() {
  static const std::vector<std::string> names{"filter", "channel", "grid", "spatial"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<OuterStep>() {
  static const std::vector<std::string> names{"average", "nesterov"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<WorkerRule>() {
  static const std::vector<std::string> names{"fixed", "adaptive", "proportional", "synchronous"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<BatchGrowth>() {
  static const std::vector<std::string> names{"bounded", "free"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<ReplicaMerge>() {
  static const std::vector<std::string> names{"delta", "overwrite", "average"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<StalenessRule>() {
  static const std::vector<std::string> names{"none", "scale", "ringmaster"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<SharedUpdate>() {
  static const std::vector<std::string> names{"relaxed", "atomic", "plain"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<StageInput>() {
  static const std::vector<std::string> names{"free", "frozen", "relay"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<LabelKind>() {
  static const std::vector<std::string> names{"auto",       "learned", "uniform", "centred",
                                              "gaussian",   "sign",    "binary",  "sparse",
                                              "orthogonal", "etf",     "block"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Exits>() {
  static const std::vector<std::string> names{"none", "sum", "fitted"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<StageLoss>() {
  static const std::vector<std::string> names{"mse", "prototype"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<CutInitialisation>() {
  static const std::vector<std::string> names{"cut", "he"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<CutRule>() {
  static const std::vector<std::string> names{"flops", "memory", "list"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<PipelineSchedule>() {
  static const std::vector<std::string> names{"message-driven", "1f1b", "1f1b-eager", "gpipe"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<PipelineTie>() {
  static const std::vector<std::string> names{"forward-first", "backward-first", "fifo"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Match>() {
  static const std::vector<std::string> names{"auto", "before", "after"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Switch>() {
  static const std::vector<std::string> names{"auto", "on", "off"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Offload>() {
  static const std::vector<std::string> names{"none", "host", "file"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Precision>() {
  static const std::vector<std::string> names{"float", "bf16", "fp16"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Wire>() {
  static const std::vector<std::string> names{"auto", "float", "bf16", "fp16"};
  return names;
}

} // namespace partita
