#include "command_line.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/core/provenance.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>

#include "command_options.hpp"
#include "command_pages.hpp"
#include "kokkos_environment.hpp"
#include "plan_command_line.hpp"

namespace partita {

namespace {

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

std::string checkExportName(std::string& text) {
  if (endsWith(text, ".onnx") || endsWith(text, ".npz")) return {};
  return "'" + text + "' must end in .onnx or .npz";
}

void defineTrain(CLI::App& train, TrainArguments& arguments) {
  train.add_option("DECK", arguments.deck,
                   "input deck (TOML), see `partita info --deck`; optional with -r, which then uses the deck "
                   "stored in the checkpoint");
  train.add_option("section/key=value", arguments.overrides, override_help);
  fileOption(train, "-d,--directory", arguments.run_directory,
             "run directory for deck, history, summary, checkpoints and parameters (default: no files "
             "are written)",
             "DIR");
  fileOption(train, "-r,--restart", arguments.restart,
             "continue from the newest complete checkpoint of the run directory, or from this file; "
             "`latest` starts from the beginning if there is none",
             "latest|FILE");
  fileOption(train, "--replay", arguments.replay,
             "on one rank: repeat a run with strategy/kind 'hogbatch' bit for bit from the decisions.csv "
             "that it wrote with run/decisions = true");
  train
      .add_flag("--overwrite", arguments.overwrite,
                "replace the results of an earlier run in the run directory")
      ->needs("-d");
  train
      .add_option(
          "-t,--time-limit", arguments.time_limit_seconds,
          "write a checkpoint and stop with exit code 75 within this wall time; also MM:SS or seconds")
      ->transform(timeTransform())
      ->type_name("HH:MM:SS");
  train.add_flag("-n,--dry-run", arguments.dry_run,
                 "check deck and data, print the effective deck and the partition, and exit");
  countOption(train, "--ranks", arguments.ranks, "with -n: plan for this number of ranks")->needs("-n");
}

void defineStages(CLI::App& app, int& stages) {
  countOption(app, "--stages", stages,
              "end the network after this number of stages, with the prediction made there");
}

void defineEvaluate(CLI::App& evaluate, EvaluateArguments& arguments) {
  fileOption(evaluate, "RUN", arguments.path, "run directory, checkpoint or parameters.h5")->required();
  evaluate.add_option("section/key=value", arguments.overrides, override_help);
  fileOption(evaluate, "--predictions", arguments.predictions,
             "write features, labels and logits of the test samples to this .npz file");
  overwriteFlag(evaluate, arguments.overwrite)->needs("--predictions");
  defineStages(evaluate, arguments.stages);
}

void defineExport(CLI::App& app, ExportArguments& arguments) {
  fileOption(app, "RUN", arguments.path, "run directory, checkpoint or parameters.h5")->required();
  fileOption(app, "-o,--output", arguments.output,
             "file to write; the suffix, .onnx or .npz, selects the format")
      ->required()
      ->check(CLI::Validator(checkExportName, ""));
  overwriteFlag(app, arguments.overwrite);
  defineStages(app, arguments.stages);
}

void defineInfo(CLI::App& info, InfoArguments& arguments) {
  CLI::Option* run = fileOption(info, "RUN", arguments.path, "run directory, checkpoint or parameters.h5");
  CLI::Option* deck = info.add_flag("--deck", arguments.deck_reference,
                                    "print the reference of all deck parameters (Markdown)");
  CLI::Option* manual = info.add_flag("--man", arguments.manual, "print the man page (roff)");
  CLI::Option* completion = choiceOption(info, "--completion", arguments.completion,
                                         "print the completion script for this shell", {"bash"});
  run->excludes(deck)->excludes(manual)->excludes(completion);
  deck->excludes(manual)->excludes(completion);
  manual->excludes(completion);
}

void defineBench(CLI::App& bench, BenchArguments& arguments) {
  bench.add_option("section/key=value", arguments.overrides,
                   "changes to the decks of the models, e.g. run/precision=bf16 optimiser/offload=host");
  fileOption(bench, "--json", arguments.json, "write the results as a list of {name, value, unit}");
  overwriteFlag(bench, arguments.overwrite)->needs("--json");
  bench
      .add_option("--only", arguments.only,
                  "measure only models and layers whose names begin with this, such as mlp")
      ->type_name("NAME");
  bench.add_flag("--quick", arguments.quick,
                 "run fewer repetitions; checks that the benchmarks work, but times are inaccurate");
}

/// Tells an override from a deck with '=' in its name.
bool isOverride(const std::string& word) {
  std::error_code ignored;
  const bool file = std::filesystem::is_regular_file(word, ignored);
  if (file && setsParameter(word))
    throw UserError("'" + word + "' is an override and also a file; write ./" + word + " for the file");
  return !file && word.find('=') != std::string::npos;
}

/// With a deck from the checkpoint no deck is named: the first word may then be an override.
void placeDeck(TrainArguments& train) {
  if (!train.restart.empty() && isOverride(train.deck)) {
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
  definePlan(*app.add_subcommand("plan", "Plan training without running it"), arguments);
  defineBench(*app.add_subcommand("bench", "Measure products, memory and training steps on this machine"),
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
  const EvaluateArguments& evaluate = arguments.evaluate;
  const ExportArguments& exports = arguments.exports;
  const InfoArguments& info = arguments.info;
  const BenchArguments& bench = arguments.bench;
  std::vector<std::string> words = commandWords(app);
  for (const std::string* word : {&train.deck, &train.run_directory, &train.restart, &train.replay,
                                  &evaluate.path, &evaluate.predictions, &exports.path, &exports.output,
                                  &info.path, &info.completion, &bench.json, &bench.only})
    words.push_back(*word);
  for (const bool flag : {train.dry_run, train.overwrite, evaluate.overwrite, exports.overwrite,
                          info.deck_reference, info.manual, bench.quick, bench.overwrite})
    words.emplace_back(flag ? "yes" : "no");
  for (const std::int64_t number : {train.time_limit_seconds, std::int64_t{train.ranks},
                                    std::int64_t{evaluate.stages}, std::int64_t{exports.stages}})
    words.push_back(std::to_string(number));
  for (const auto* overrides : {&train.overrides, &evaluate.overrides, &bench.overrides})
    words.insert(words.end(), overrides->begin(), overrides->end());
  for (const std::string& word : planWords(arguments)) words.push_back(word);
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
