#include "command_line.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/provenance.hpp"
#include "partita/plan/cost/prediction.hpp"
#include "partita/plan/placement/operator_schedule.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>

#include "command_pages.hpp"
#include "kokkos_environment.hpp"

namespace partita {

namespace {

const char* const override_help = "changes to the deck, e.g. run/seed=3 strategy/cuts=[2,4]";

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    if (app->get_parent() == nullptr) return programHelp(programPages(*app));
    std::vector<CommandPage> pages = commandPages(*app);
    if (app->get_subcommands([](const CLI::App*) { return true; }).empty()) {
      pages.front().name = name; // "partita train"
      return commandHelp(pages.front());
    }
    return groupHelp(name, app->get_description(), pages);
  }
};

/// HH:MM:SS, MM:SS or SS in seconds; 0 for any other text. Fields after a colon are below 60.
std::int64_t secondsOf(const std::string& text) {
  if (text.empty() || text.back() == ':') return 0;
  std::istringstream fields(text);
  std::string field;
  std::int64_t total = 0;
  for (int count = 0; std::getline(fields, field, ':'); ++count) {
    const bool digits = field.find_first_not_of("0123456789") == std::string::npos;
    if (count > 2 || field.empty() || field.size() > (count == 0 ? 9 : 2) || !digits) return 0;
    const std::int64_t value = std::stoll(field);
    if (count > 0 && value > 59) return 0;
    total = 60 * total + value;
  }
  return total;
}

std::string toSeconds(std::string& text) {
  const std::int64_t seconds = secondsOf(text);
  if (seconds == 0) return "'" + text + "' is not a time; expected HH:MM:SS, MM:SS or seconds, more than 0";
  text = std::to_string(seconds);
  return {};
}

std::string checkExportName(std::string& text) {
  if (endsWith(text, ".onnx") || endsWith(text, ".npz")) return {};
  return "'" + text + "' must end in .onnx or .npz";
}

/// An empty value comes from a variable that was not set, and a value that begins like an option is an
/// option.
std::string checkPath(std::string& text) {
  if (text.empty()) return "is empty; is a variable not set?";
  if (text.front() == '-')
    return "'" + text + "' looks like an option; write a file of this name as ./" + text;
  return {};
}

CLI::Validator pathValidator() {
  return {checkPath, ""};
}

void defineTrain(CLI::App& train, TrainArguments& arguments) {
  train.add_option("DECK", arguments.deck,
                   "input deck (TOML), see `partita info --deck`; optional with -r, which then uses the deck "
                   "stored in the checkpoint");
  train.add_option("section/key=value", arguments.overrides, override_help);
  train
      .add_option(
          "-d,--directory", arguments.run_directory,
          "run directory for deck, history, summary, checkpoints and parameters (default: nothing is kept)")
      ->check(pathValidator())
      ->type_name("DIR");
  train
      .add_option("-r,--restart", arguments.restart,
                  "continue from the newest complete checkpoint of the run directory, or from this file; "
                  "`latest` starts from the beginning if there is none")
      ->check(pathValidator())
      ->type_name("latest|FILE");
  train.add_flag("--overwrite", arguments.overwrite,
                 "replace the results of an earlier run in the run directory");
  train
      .add_option("-t,--time-limit", arguments.time_limit_seconds,
                  "write a checkpoint and stop with exit code 75 after this wall time; also MM:SS or seconds")
      ->transform(CLI::Validator(toSeconds, ""))
      ->type_name("HH:MM:SS");
  train.add_flag("-n,--dry-run", arguments.dry_run,
                 "check deck and data, print the effective deck and the partition, and exit");
  train.add_option("--ranks", arguments.ranks, "with -n: plan for this number of ranks")
      ->type_name("N")
      ->needs("-n")
      ->check(CLI::Range(1, 1 << 24).description(""));
}

void defineStages(CLI::App& app, int& stages) {
  app.add_option("--stages", stages,
                 "end the network after this number of stages, with the prediction made there")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24).description(""));
}

void defineEvaluate(CLI::App& evaluate, EvaluateArguments& arguments) {
  evaluate.add_option("RUN", arguments.path, "run directory, checkpoint or parameters.h5")->required();
  evaluate.add_option("section/key=value", arguments.overrides, override_help);
  evaluate
      .add_option("--predictions", arguments.predictions,
                  "write features, labels and logits of the test samples to this .npz file")
      ->check(pathValidator())
      ->type_name("FILE");
  defineStages(evaluate, arguments.stages);
}

void defineExport(CLI::App& app, ExportArguments& arguments) {
  app.add_option("RUN", arguments.path, "run directory, checkpoint or parameters.h5")->required();
  app.add_option("-o,--output", arguments.output,
                 "file to write; the suffix, .onnx or .npz, selects the format")
      ->type_name("FILE")
      ->required()
      ->check(pathValidator())
      ->check(CLI::Validator(checkExportName, ""));
  defineStages(app, arguments.stages);
}

void defineInfo(CLI::App& info, InfoArguments& arguments) {
  CLI::Option* run = info.add_option("RUN", arguments.path, "run directory, checkpoint or parameters.h5");
  CLI::Option* deck = info.add_flag("--deck", arguments.deck_reference,
                                    "print the reference of all deck parameters (Markdown)");
  CLI::Option* manual = info.add_flag("--man", arguments.manual, "print the man page (roff)");
  CLI::Option* completion =
      info.add_option("--completion", arguments.completion, "print the completion script for this shell")
          ->type_name("bash")
          ->check(CLI::IsMember({"bash"}).description(""));
  run->excludes(deck)->excludes(manual)->excludes(completion);
  deck->excludes(manual)->excludes(completion);
  manual->excludes(completion);
}

void defineBench(CLI::App& bench, BenchArguments& arguments) {
  bench.add_option("section/key=value", arguments.overrides,
                   "changes to the decks of the models, e.g. run/precision=bf16 optimiser/offload=host");
  bench.add_option("--json", arguments.json, "write the results as a list of {name, value, unit}")
      ->check(pathValidator())
      ->type_name("FILE");
  bench.add_flag("--quick", arguments.quick,
                 "run fewer repetitions; checks that the benchmarks work, but times are inaccurate");
}

/// "1,2,4": whole numbers from 1 to 2^24.
std::string checkRankList(std::string& text) {
  for (const std::string& number : split(text, ',')) {
    const bool digits =
        !number.empty() && number.size() < 9 && number.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoll(number) < 1 || std::stoll(number) > 1 << 24)
      return "'" + text + "' is not a list of numbers of ranks such as 1,2,4";
  }
  return {};
}

std::string checkStrategies(std::string& text) {
  const std::vector<std::string>& names = namesOf<CostStrategy>();
  for (const std::string& name : split(text, ','))
    if (std::find(names.begin(), names.end(), name) == names.end())
      return "'" + text + "': '" + name + "' is not a strategy" + suggestion(name, names);
  return text.empty() ? "is empty; is a variable not set?" : "";
}

/// `-` alone is standard output.
std::string checkOutputPath(std::string& text) {
  return text == "-" ? std::string{} : checkPath(text);
}

void defineJson(CLI::App& app, std::string& json) {
  app.add_option("--json", json, "write the result to this file; `-`: standard output")
      ->check(CLI::Validator(checkOutputPath, ""))
      ->type_name("FILE");
}

template <class PlanArguments>
void defineDeckAndCluster(CLI::App& app, PlanArguments& arguments) {
  app.add_option("DECK", arguments.deck, "input deck (TOML)")->required();
  app.add_option("section/key=value", arguments.overrides, override_help);
  app.add_option("--cluster", arguments.cluster,
                 "description of the cluster (TOML), such as clusters/abci.toml (default: an assumed one)")
      ->check(pathValidator())
      ->type_name("FILE");
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
  predict
      .add_option("--stages", arguments.stages,
                  "cut the network into so many stages; the ranks are replicas of them (default: a stage per "
                  "rank)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24).description(""));
  predict
      .add_option("--mode", arguments.mode,
                  "equations to use: corrected (exact, the default), or as ParaDL's authors print them")
      ->check(CLI::IsMember(namesOf<CostMode>()).description(""))
      ->type_name(joined(namesOf<CostMode>(), "|"));
  predict
      .add_option(
          "--scaling", arguments.scaling,
          "whether training/batch is that of a step (strong) or of each replica (weak); default: strong, in "
          "paper mode weak")
      ->check(CLI::IsMember({"strong", "weak"}).description(""))
      ->type_name("strong|weak");
  defineJson(predict, arguments.json);
}

void defineDeck(CLI::App& deck, DeckArguments& arguments) {
  defineDeckAndCluster(deck, arguments);
  deck.add_option("--ranks", arguments.ranks, "number of ranks that the deck is for")
      ->required()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24).description(""));
  deck.add_option("-o,--output", arguments.output, "deck to write")
      ->required()
      ->check(pathValidator())
      ->type_name("FILE");
  deck.add_flag("--allow-local", arguments.allow_local,
                "consider sil and local-sgd too, which may change the accuracy");
  defineJson(deck, arguments.json);
}

void defineEngine(CLI::App& app, std::string& engine) {
  const std::vector<std::string>& names = namesOf<ScheduleEngine>();
  app.add_option("--engine", engine,
                 "what computes schedules (default: built-in); `partita info` lists those of this build")
      ->check(CLI::IsMember(names).description(""))
      ->type_name(joined(names, "|"));
}

void defineSchedule(CLI::App& schedule, ScheduleArguments& arguments) {
  schedule.add_option("FILE", arguments.input, "operators, edges and cores (JSON)")
      ->required()
      ->check(pathValidator());
  schedule
      .add_option("--time-limit", arguments.time_limit_seconds,
                  "stop with the best schedule found after this time; also MM:SS or seconds (default: 60)")
      ->transform(CLI::Validator(toSeconds, ""))
      ->type_name("HH:MM:SS");
  defineEngine(schedule, arguments.engine);
  schedule
      .add_option("--cache", arguments.cache,
                  "file of schedules that earlier calls have found; new ones are added to it")
      ->check(pathValidator())
      ->type_name("FILE");
  defineJson(schedule, arguments.json);
}

void definePlace(CLI::App& place, PlaceArguments& arguments) {
  place
      .add_option("FILE", arguments.input,
                  "layers, edges and devices (JSON); or a deck (.toml), whose network is placed on ranks")
      ->required()
      ->check(pathValidator());
  place.add_option("section/key=value", arguments.overrides, override_help);
  place.add_flag("--brute-force", arguments.brute_force,
                 "JSON: try all plans of a small network, as a check");
  place.add_option("-o,--output", arguments.output, "deck: write the deck that trains the plan")
      ->check(pathValidator())
      ->type_name("FILE");
  place
      .add_option("--cluster", arguments.cluster,
                  "deck: description of the cluster, as `partita plan calibrate` writes it (default: an "
                  "assumed one)")
      ->check(pathValidator())
      ->type_name("FILE");
  place.add_option("--ranks", arguments.ranks, "deck: most ranks to use (default: those of this job)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""));
  defineJson(place, arguments.json);
}

void defineSearch(CLI::App& search, SearchArguments& arguments) {
  search.add_option("SPEC", arguments.spec, "models, cases and accelerators to search (TOML)")
      ->required()
      ->check(pathValidator());
  search
      .add_option("--state", arguments.state,
                  "file that keeps what is done, every ten seconds; a later call continues from it")
      ->check(pathValidator())
      ->type_name("FILE");
  defineJson(search, arguments.json);
}

void defineCalibrate(CLI::App& calibrate, CalibrateArguments& arguments) {
  CLI::Option* decks = calibrate.add_option("DECK", arguments.decks,
                                            "input decks (TOML): networks whose training step is timed");
  calibrate
      .add_option(
          "--from", arguments.runs,
          "measure nothing, but refine the description that these runs were compared with (run/cluster)")
      ->check(pathValidator())
      ->type_name("RUN...")
      ->excludes(decks);
  calibrate
      .add_option("-o,--output", arguments.output,
                  "description of the cluster to write (default: print it after the measurements)")
      ->check(pathValidator())
      ->type_name("FILE");
  calibrate
      .add_option("--noise", arguments.noise,
                  "percent by which the time of the same work may vary (default: 15); beyond, nothing is "
                  "written and the exit code is 1")
      ->check(CLI::Range(0.0, 1e6).description(""))
      ->type_name("PERCENT");
  calibrate.add_flag("--quick", arguments.quick,
                     "fewer repetitions and short messages only; checks that the command works");
}

void definePlan(CLI::App& plan, Arguments& arguments) {
  plan.require_subcommand(0, 1);
  defineCalibrate(*plan.add_subcommand("calibrate", "Measure the cluster that this job runs on, for predict"),
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

/// With a deck from the checkpoint no deck is named: the first word may then be an override.
void placeDeck(TrainArguments& train) {
  if (!train.restart.empty() && train.deck.find('=') != std::string::npos) {
    train.overrides.insert(train.overrides.begin(), train.deck);
    train.deck.clear();
  }
  if (train.deck.empty() && train.restart.empty()) throw UserError("DECK is required");
  if (train.restart == "latest" && train.run_directory.empty())
    throw UserError("-r latest needs the run directory, -d DIR");
}

} // namespace

void defineCommandLine(CLI::App& app, Arguments& arguments) {
  app.require_subcommand(0, 1)->allow_extras(); // checkCommandLine reports what is left over
  app.set_version_flag("--version", "partita " + versionString() + " (" + gitHash() + ")",
                       "print the version and exit");
  app.set_help_flag("-h,--help", "print this help and exit");
  app.formatter(std::make_shared<HelpFormatter>()); // before the subcommands, which inherit it
  defineTrain(*app.add_subcommand("train", "Train the network of a deck on all ranks of mpirun"),
              arguments.train);
  defineEvaluate(
      *app.add_subcommand("evaluate", "Compute the test accuracy of a run, on any number of ranks"),
      arguments.evaluate);
  defineExport(*app.add_subcommand("export", "Export a trained network to ONNX or NumPy"), arguments.exports);
  defineInfo(*app.add_subcommand("info", "Describe this build, or the contents of a run or file"),
             arguments.info);
  definePlan(*app.add_subcommand("plan", "Plan a training without running it"), arguments);
  defineBench(*app.add_subcommand("bench", "Measure products, memory and training steps here"),
              arguments.bench);
}

namespace {

/// The chosen commands, the inner one last.
std::vector<std::string> commandWords(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* chosen : app.get_subcommands()) {
    words.push_back(chosen->get_name());
    for (const std::string& inner : commandWords(*chosen)) words.push_back(inner);
  }
  return words;
}

} // namespace

std::string helpHint(const CLI::App& app) {
  std::string command;
  for (const std::string& word : commandWords(app)) command += " " + word;
  return "; see `partita" + command + " --help`";
}

void checkCommandLine(const CLI::App& app, Arguments& arguments) {
  try {
    for (const std::string& extra : app.remaining(true)) {
      if (!isKokkosFlag(extra)) throw UserError("unknown argument '" + extra + "'");
      checkKokkosFlag(extra);
    }
    if (app.get_subcommands().empty())
      throw UserError("a command is required: train, evaluate, export, info, plan or bench");
    if (app.got_subcommand("plan") && app.get_subcommand("plan")->get_subcommands().empty())
      throw UserError("a command is required after plan: calibrate, predict, deck, schedule, place or "
                      "search");
    if (app.got_subcommand("train")) placeDeck(arguments.train);
  } catch (const UserError& error) {
    throw UserError("command line: " + std::string(error.what()) + helpHint(app));
  }
}

std::string essence(const CLI::App& app, const Arguments& arguments) {
  const TrainArguments& train = arguments.train;
  const PredictArguments& predict = arguments.predict;
  const DeckArguments& deck = arguments.deck;
  std::vector<std::string> words = commandWords(app);
  for (const std::string* word : {&train.deck,
                                  &train.run_directory,
                                  &train.restart,
                                  &arguments.evaluate.path,
                                  &arguments.evaluate.predictions,
                                  &arguments.exports.path,
                                  &arguments.exports.output,
                                  &arguments.info.path,
                                  &arguments.info.completion,
                                  &arguments.bench.json,
                                  &predict.deck,
                                  &predict.cluster,
                                  &predict.ranks,
                                  &predict.strategies,
                                  &predict.mode,
                                  &predict.scaling,
                                  &predict.json,
                                  &deck.deck,
                                  &deck.cluster,
                                  &deck.output,
                                  &deck.json,
                                  &arguments.schedule.input,
                                  &arguments.schedule.engine,
                                  &arguments.schedule.cache,
                                  &arguments.schedule.json,
                                  &arguments.place.input,
                                  &arguments.place.json,
                                  &arguments.place.cluster,
                                  &arguments.place.output,
                                  &arguments.search.spec,
                                  &arguments.search.state,
                                  &arguments.search.json,
                                  &arguments.calibrate.output})
    words.push_back(*word);
  for (const bool flag :
       {train.dry_run, train.overwrite, arguments.info.deck_reference, arguments.info.manual,
        arguments.bench.quick, arguments.place.brute_force, arguments.calibrate.quick, deck.allow_local})
    words.emplace_back(flag ? "yes" : "no");
  words.push_back(std::to_string(arguments.calibrate.noise));
  for (const std::int64_t number :
       {train.time_limit_seconds, std::int64_t{train.ranks}, std::int64_t{arguments.evaluate.stages},
        std::int64_t{arguments.exports.stages}, predict.stages, arguments.schedule.time_limit_seconds,
        arguments.place.ranks})
    words.push_back(std::to_string(number));
  for (const auto* overrides :
       {&train.overrides, &arguments.evaluate.overrides, &arguments.bench.overrides, &predict.overrides,
        &deck.overrides, &arguments.place.overrides, &arguments.calibrate.decks, &arguments.calibrate.runs})
    words.insert(words.end(), overrides->begin(), overrides->end());
  std::string text;
  for (const std::string& word : words) text += word + '\n';
  return text;
}

bool showPage(const CLI::App& app, const InfoArguments& arguments) {
  const ProgramPages pages = programPages(app);
  std::string page;
  if (arguments.deck_reference) page = deckReference();
  if (arguments.manual) page = manPage(pages);
  if (arguments.completion == "bash") page = bashCompletion(pages);
  if (page.empty()) return false;
  page.pop_back(); // Log ends the line
  Log::info(page);
  return true;
}

} // namespace partita
