#include "plan_command_line.hpp"

#include "partita/config/text.hpp"
#include "partita/plan/cost/cluster_rows.hpp"
#include "partita/plan/cost/prediction.hpp"
#include "partita/plan/schedule/operator_schedule.hpp"

#include <algorithm>
#include <cstdint>

#include "command_options.hpp"

namespace partita {

namespace {

std::string complaintIfEmpty(const std::string& text) {
  return text.empty() ? "is empty; is a shell variable unset?" : "";
}

/// "1,2,4": whole numbers from 1 to `most_ranks`.
std::string checkRankList(std::string& text) {
  const std::vector<std::string> numbers = split(text, ',');
  for (const std::string& number : numbers)
    if (number.find_first_not_of("0123456789") != std::string::npos ||
        number.find_first_not_of('0') == std::string::npos)
      return "'" + text + "' is not a list of numbers of ranks such as 1,2,4";
  for (const std::string& number : numbers) {
    if (number.size() <= 9 && std::stoll(number) <= most_ranks) continue;
    const std::string most = std::to_string(most_ranks);
    const std::string message = "'" + number + "' is more than " + most + " ranks, the maximum";
    return message;
  }
  return complaintIfEmpty(text);
}

std::string checkStrategies(std::string& text) {
  const std::vector<std::string>& names = namesOf<CostStrategy>();
  for (const std::string& name : split(text, ','))
    if (std::find(names.begin(), names.end(), name) == names.end())
      return "'" + name + "' is not a strategy" + suggestion(name, names);
  return complaintIfEmpty(text);
}

/// `-` alone is standard output.
std::string checkOutputPath(std::string& text) {
  return text == "-" ? std::string{} : checkPath(text);
}

/// The options about outputs, which all but `calibrate` have.
template <class PlanArguments>
void defineResults(CLI::App& app, PlanArguments& arguments) {
  app.add_option("--json", arguments.json, "write the result to this file; `-`: standard output")
      ->check(CLI::Validator(checkOutputPath, ""))
      ->type_name("FILE");
  overwriteFlag(app, arguments.overwrite);
}

template <class PlanArguments>
void defineDeckAndCluster(CLI::App& app, PlanArguments& arguments) {
  app.add_option("DECK", arguments.deck, "input deck (TOML)")->required();
  app.add_option("section/key=value", arguments.overrides, override_help);
  fileOption(app, "--cluster", arguments.cluster,
             "description of the cluster (TOML), such as clusters/abci.toml (default: an assumed one)");
}

void definePredict(CLI::App& predict, PredictArguments& arguments) {
  defineDeckAndCluster(predict, arguments);
  predict
      .add_option("--ranks", arguments.ranks,
                  "numbers of ranks, separated by commas (default: 1,2,4, ... 64)")
      ->check(CLI::Validator(checkRankList, ""))
      ->type_name("N,...");
  predict.add_option("--strategy", arguments.strategies, "strategies, separated by commas (default: all)")
      ->check(CLI::Validator(checkStrategies, ""))
      ->type_name("NAME,...");
  countOption(predict, "--stages", arguments.stages,
              "cut the network into this many stages; further ranks are replicas of them (default: one "
              "stage per rank)");
  countOption(
      predict, "--parts", arguments.parts,
      "number of ranks that share each layer: for data+filter, data+spatial and data+grid (default: the "
      "ranks of a node), and for pipelines and sil, which then divide layers as strategy/split says "
      "(default: 1); other strategies ignore it");
  choiceOption(
      predict, "--mode", arguments.mode,
      "exact: the plan that `partita train` would run (default); paper: the equations as printed by the "
      "authors of ParaDL",
      namesOf<CostMode>());
  choiceOption(predict, "--scaling", arguments.scaling,
               "whether training/batch is the batch of a step (strong) or of each replica (weak); "
               "default: strong; in paper mode: weak",
               {"strong", "weak"});
  defineResults(predict, arguments);
}

void defineDeck(CLI::App& deck, DeckArguments& arguments) {
  defineDeckAndCluster(deck, arguments);
  countOption(deck, "--ranks", arguments.ranks, "number of ranks that will run the deck")->required();
  fileOption(deck, "-o,--output", arguments.output, "deck to write")->required();
  deck.add_flag("--allow-local", arguments.allow_local,
                "consider sil and local-sgd too, which may change the accuracy");
  defineResults(deck, arguments);
}

void defineSchedule(CLI::App& schedule, ScheduleArguments& arguments) {
  fileOption(schedule, "FILE", arguments.input, "operators, edges and cores (JSON)")->required();
  schedule
      .add_option(
          "--time-limit", arguments.time_limit_seconds,
          "stop after this time with the best schedule found so far; also MM:SS or seconds (default: 60)")
      ->transform(timeTransform())
      ->type_name("HH:MM:SS");
  choiceOption(
      schedule, "--engine", arguments.engine,
      "engine that computes schedules (default: built-in); `partita info` lists the engines of this build",
      namesOf<ScheduleEngine>());
  fileOption(schedule, "--cache", arguments.cache,
             "file with schedules from earlier calls; new ones are added to it");
  defineResults(schedule, arguments);
}

void definePlace(CLI::App& place, PlaceArguments& arguments) {
  fileOption(place, "FILE", arguments.input,
             "layers, edges and devices (JSON); or a deck (.toml), whose network is placed on ranks")
      ->required();
  place.add_option("section/key=value", arguments.overrides, override_help);
  place.add_flag("--brute-force", arguments.brute_force,
                 "JSON: try all plans of a small network, as a check");
  fileOption(place, "-o,--output", arguments.output,
             "deck: write a deck that trains the network as planned; if no plan fits, no deck is written and "
             "the exit code is 2");
  fileOption(
      place, "--cluster", arguments.cluster,
      "deck: description of the cluster, as `partita plan calibrate` writes it (default: an assumed one)");
  countOption(place, "--ranks", arguments.ranks,
              "deck: maximum number of ranks (default: the ranks of this job)", 4096);
  defineResults(place, arguments);
}

void defineSearch(CLI::App& search, SearchArguments& arguments) {
  fileOption(search, "SPEC", arguments.spec, "models, cases and accelerators to search (TOML)")->required();
  fileOption(search, "--state", arguments.state,
             "save the progress to this file every ten seconds; a later call continues from it");
  defineResults(search, arguments);
}

void defineCalibrate(CLI::App& calibrate, CalibrateArguments& arguments) {
  CLI::Option* decks = calibrate.add_option("DECK", arguments.decks,
                                            "input decks (TOML): networks whose training step is timed");
  CLI::Option* runs =
      calibrate
          .add_option("--from", arguments.runs,
                      "measure nothing; refine the description with which these runs were compared "
                      "(run/cluster)")
          ->check(pathValidator())
          ->type_name("RUN...")
          ->excludes(decks);
  fileOption(calibrate, "-o,--output", arguments.output,
             "description of the cluster to write (default: print it after the measurements)");
  overwriteFlag(calibrate, arguments.overwrite)->needs("-o");
  calibrate
      .add_option("--noise", arguments.noise,
                  "percent by which the time of the same work may vary (default: 15); if it varies more, "
                  "nothing is written and the exit code is 1")
      ->check(numberValidator(within(0, 1e6)))
      ->type_name("PERCENT")
      ->excludes(runs);
  calibrate
      .add_flag("--quick", arguments.quick,
                "fewer repetitions and short messages only; checks that the command works")
      ->excludes(runs);
}

} // namespace

void definePlan(CLI::App& plan, Arguments& arguments) {
  plan.require_subcommand(0, 1);
  defineCalibrate(*plan.add_subcommand("calibrate", "Measure this job's cluster for the other plan commands"),
                  arguments.calibrate);
  definePredict(
      *plan.add_subcommand("predict", "Predict time and memory of parallel strategies on a cluster"),
      arguments.predict);
  defineDeck(*plan.add_subcommand("deck", "Write the deck of the fastest strategy on a cluster"),
             arguments.deck);
  defineSchedule(*plan.add_subcommand("schedule", "Schedule the operators of a layer on an accelerator"),
                 arguments.schedule);
  definePlace(*plan.add_subcommand("place", "Cut a network into pipeline stages on many devices"),
              arguments.place);
  defineSearch(*plan.add_subcommand("search", "Search for an accelerator, schedules and placements together"),
               arguments.search);
}

std::vector<std::string> planWords(const Arguments& arguments) {
  const PredictArguments& predict = arguments.predict;
  const DeckArguments& deck = arguments.deck;
  const ScheduleArguments& schedule = arguments.schedule;
  const PlaceArguments& place = arguments.place;
  const SearchArguments& search = arguments.search;
  const CalibrateArguments& calibrate = arguments.calibrate;
  std::vector<std::string> words{
      predict.deck,    predict.cluster, predict.ranks, predict.strategies, predict.mode,    predict.scaling,
      predict.json,    deck.deck,       deck.cluster,  deck.output,        deck.json,       schedule.input,
      schedule.engine, schedule.cache,  schedule.json, place.input,        place.json,      place.cluster,
      place.output,    search.spec,     search.state,  search.json,        calibrate.output};
  for (const bool flag :
       {place.brute_force, calibrate.quick, deck.allow_local, predict.overwrite, deck.overwrite,
        schedule.overwrite, place.overwrite, search.overwrite, calibrate.overwrite})
    words.emplace_back(flag ? "yes" : "no");
  words.push_back(std::to_string(calibrate.noise));
  for (const std::int64_t number :
       {predict.stages, predict.parts, deck.ranks, schedule.time_limit_seconds, place.ranks})
    words.push_back(std::to_string(number));
  for (const auto* list :
       {&predict.overrides, &deck.overrides, &place.overrides, &calibrate.decks, &calibrate.runs})
    words.insert(words.end(), list->begin(), list->end());
  return words;
}

} // namespace partita
