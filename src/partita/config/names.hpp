#pragma once

#include "partita/config/run_config.hpp"

#include <string>
#include <vector>

namespace partita {

/// The values of an enumeration as decks and reports spell them, in the order of the enumerators.
template <class Enum>
const std::vector<std::string>& namesOf();

template <>
const std::vector<std::string>& namesOf<DataKind>();
template <>
const std::vector<std::string>& namesOf<Standardise>();
template <>
const std::vector<std::string>& namesOf<Activation>();
template <>
const std::vector<std::string>& namesOf<Initialisation>();
template <>
const std::vector<std::string>& namesOf<LossKind>();
template <>
const std::vector<std::string>& namesOf<OptimiserKind>();
template <>
const std::vector<std::string>& namesOf<ScheduleKind>();
template <>
const std::vector<std::string>& namesOf<StrategyKind>();
template <>
const std::vector<std::string>& namesOf<Split>();
template <>
const std::vector<std::string>& namesOf<OuterStep>();
template <>
const std::vector<std::string>& namesOf<StageInput>();
template <>
const std::vector<std::string>& namesOf<LabelKind>();
template <>
const std::vector<std::string>& namesOf<Exits>();
template <>
const std::vector<std::string>& namesOf<StageLoss>();
template <>
const std::vector<std::string>& namesOf<CutInitialisation>();
template <>
const std::vector<std::string>& namesOf<CutRule>();
template <>
const std::vector<std::string>& namesOf<PipelineSchedule>();
template <>
const std::vector<std::string>& namesOf<PipelineTie>();
template <>
const std::vector<std::string>& namesOf<Match>();
template <>
const std::vector<std::string>& namesOf<Switch>();
template <>
const std::vector<std::string>& namesOf<Offload>();
template <>
const std::vector<std::string>& namesOf<Precision>();
template <>
const std::vector<std::string>& namesOf<Wire>();

template <class Enum>
const std::string& nameOf(Enum value) {
  return namesOf<Enum>().at(static_cast<std::size_t>(value));
}

} // namespace partita
