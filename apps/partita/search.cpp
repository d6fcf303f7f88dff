#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/number_words.hpp"
#include "partita/config/row_reader.hpp"
#include "partita/config/text.hpp"
#include "partita/config/toml_tree.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/core/provenance.hpp"
#include "partita/core/sha256.hpp"
#include "partita/data/load_data.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/search/network_graph.hpp"
#include "partita/plan/search/search_spec.hpp"
#include "partita/plan/search/transformer.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>

#include "commands.hpp"
#include "plan_task.hpp"
#include "result_file.hpp"
#include "search_results.hpp"

namespace partita {

namespace {

const RowFormat state_format{"partita search", 2, "is not the state of a search", "is not a row of a search"};

constexpr std::uint64_t most_model_bytes = 1 << 20;

/// Does a file describe a transformer, not a deck?
bool describesTransformer(const std::string& text) {
  try {
    const std::vector<TomlNode> sections = parseToml(text).children;
    return std::any_of(sections.begin(), sections.end(),
                       [](const TomlNode& node) { return node.key == "model"; });
  } catch (const TomlError&) {
    return false; // the reader of decks reports what is wrong
  }
}

SearchModel transformerModel(const std::string& path) {
  const Transformer model = loadTransformer(path);
  SearchModel search;
  search.name = model.name;
  search.chains = [model](std::int64_t microbatch) {
    std::vector<ModelChain> chains;
    for (std::int64_t parts = model.least_parts; parts <= model.most_parts; parts *= 2)
      if (divides(model, parts)) chains.push_back(chainOf(model, static_cast<int>(parts), microbatch));
    return chains;
  };
  if (model.expert_stages > 0)
    search.expert = FixedPlan{model.expert_stages, model.expert_parts, model.expert_replicas, model.layers,
                              1}; // the embedding
  return search;
}

/// Passes to `add` whatever the layers depend on besides the deck.
SearchModel deckModel(const std::string& path, const std::function<void(const std::string&)>& add) {
  const RunConfig config = effective(loadDeck(path, {}));
  const DataSets sets = loadData(config.data, config.run.seed, Need::labels_only);
  add(joined(sets.shape, "x") + " " + std::to_string(sets.classes));
  SearchModel search;
  search.name = deckName(path);
  search.chains = [layers = planNetwork(config.network, sets.shape, sets.classes)](std::int64_t microbatch) {
    return std::vector<ModelChain>{chainOf(layers, microbatch)};
  };
  return search;
}

/// The task of a specification, and a hash of all files that it follows from.
struct Assignment {
  SearchTask task;
  std::string hash;
  std::vector<std::string> files;
};

Assignment assignmentOf(const std::string& path) {
  const SearchSpec spec = loadSearchSpec(path);
  Assignment assignment{spec.task, {}, {path}};
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.update(text.data(), text.size()); };
  add(versionString() + gitHash()); // of the estimators
  add(engineVersion(spec.task.schedule.engine));
  add(readTextFile(path, most_model_bytes));
  for (const SearchSpec::Model& model : spec.models) {
    const std::string file = (std::filesystem::path(path).parent_path() / model.file).string();
    if (!regularFileExists(file, ", not a model"))
      throw UserError(path + ": model/file: there is no file " + file);
    const std::string text = readTextFile(file, most_model_bytes);
    add(text);
    const bool transformer = describesTransformer(text);
    for (const std::string& read : transformer ? std::vector<std::string>{file} : filesRead(file, {}, ""))
      assignment.files.push_back(read);
    SearchModel one = transformer ? transformerModel(file) : deckModel(file, add);
    for (const SearchModel& other : assignment.task.models)
      if (other.name == one.name) throw UserError(path + ": two models have the name '" + one.name + "'");
    assignment.task.models.push_back(std::move(one));
  }
  assignment.hash = hash.hex();
  return assignment;
}

/// The rows that are known, in a file that a later call continues from.
class StateFile {
 public:
  StateFile(std::string path, const std::vector<std::string>& inputs, const std::string& hash,
            std::size_t rows, std::size_t width)
      : _path(std::move(path)), _first(state_format.mark() + " " + hash), _rows(rows), _width(width) {
    if (_path.empty()) return;
    refuseOutput(_path, inputs);
    readStored();
  }

  const std::vector<double>& row(std::size_t i) const { return _rows[i]; }
  bool has(std::size_t i) const { return !_rows[i].empty(); }
  void set(std::size_t i, std::vector<double> values) { _rows[i] = std::move(values); }

  /// Keeps the rows that others have added to the file meanwhile.
  void write() {
    if (_path.empty()) return;
    const FolderLock lock(_path);
    readStored();
    OutputFile file(_path);
    file.write(_first + "\n");
    for (std::size_t i = 0; i < _rows.size(); ++i) {
      if (!has(i)) continue;
      std::string line = std::to_string(i);
      for (const double value : _rows[i]) line += formatted(" %a", value);
      file.write(withCheckWord(line) + "\n");
    }
    file.commit();
  }
  /// The same for a search that goes on if it fails: the results do not depend on the file. Warns at the
  /// first failure, except after the last row, when `requireWritten` follows soon.
  void tryToWrite(bool is_last) {
    const bool first = _failure == nullptr;
    _failure = nullptr;
    try {
      write();
    } catch (const UserError& error) {
      _failure = std::current_exception();
      if (first && !is_last) Log::warning(error.what());
    }
  }
  /// Throws what the last call of `tryToWrite` met.
  void requireWritten() const {
    if (_failure != nullptr) std::rethrow_exception(_failure);
  }

 private:
  void readStored() {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 32;
    if (regularFileExists(_path)) read(readTextFile(_path, most_bytes));
  }

  void read(const std::string& text) {
    RowReader reader(text, _path, state_format);
    if (reader.first() != _first)
      throw UserError(_path + ": is the state of another search; the specification, a model, the shape of "
                              "its data or the program has changed since");
    reader.readRows([&](const std::string& row) { return readRow(row); });
  }

  /// Returns whether a line is a row: an index, finite numbers, as many as the answers need, and a check
  /// word.
  bool readRow(const std::string& line) {
    NumberWords words(line);
    const std::int64_t index = words.integer(0, static_cast<std::int64_t>(_rows.size()) - 1);
    std::vector<double> values(_width);
    for (double& value : values) value = words.real();
    if (!words.checked()) return false;
    _rows[static_cast<std::size_t>(index)] = std::move(values);
    return true;
  }

  std::string _path, _first;
  std::vector<std::vector<double>> _rows;
  std::size_t _width;
  std::exception_ptr _failure;
};

/// Prints the progress of the search, about every ten seconds, unless the result goes to standard output.
class ProgressLine {
 public:
  ProgressLine(std::size_t all, std::size_t known, bool prints) : _all(all), _known(known), _prints(prints) {}

  /// Returns whether it is time to save.
  bool show(std::size_t done) {
    constexpr double interval = 10.0;
    if (secondsSince(_last) < interval) return false;
    _last = Clock::now();
    const double elapsed = secondsSince(_start);
    const double left = elapsed / static_cast<double>(done - _known) * static_cast<double>(_all - done);
    if (!_prints) return true;
    Log::progress("  " + std::to_string(done) + " of " + std::to_string(_all) + " accelerators, " +
                  formatSeconds(elapsed) + ", about " + formatSeconds(left) + " left");
    return true;
  }

 private:
  std::size_t _all, _known;
  bool _prints;
  Clock::time_point _start = Clock::now(), _last = _start;
};

/// Computes all rows that are not known yet. Each rank takes its share of a round; every row is computed by
/// one rank alone, so that the ranks do not change any number. On rank 0 `state` has all rows afterwards.
void priceAll(const Communicator& world, const SearchTask& task, ArchitectureSearch& search, StateFile& state,
              bool prints) {
  constexpr std::size_t rows_per_rank = 16;
  const std::size_t ranks = world.size(), width = search.answersPerRow() * SearchAnswer::numbers;
  std::vector<double> known(task.accelerators.size(), 0.0);
  for (std::size_t i = 0; world.rank() == 0 && i < known.size(); ++i) known[i] = state.has(i) ? 1.0 : 0.0;
  world.sum(known);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] == 0.0) open.push_back(i);
  ProgressLine progress(known.size(), known.size() - open.size(), prints);
  for (std::size_t begin = 0; begin < open.size(); begin += ranks * rows_per_rank) {
    const std::size_t end = std::min(open.size(), begin + ranks * rows_per_rank);
    std::vector<double> values((end - begin) * width, 0.0);
    collectively(world, [&] {
      for (std::size_t i = begin + world.rank(); i < end; i += ranks) {
        const SearchRow row = search.price(open[i]);
        for (std::size_t answer = 0; answer < row.size(); ++answer)
          row[answer].write(&values[(i - begin) * width + answer * SearchAnswer::numbers]);
      }
    });
    world.sum(values); // only one rank has nonzero numbers for a row
    if (world.rank() != 0) continue;
    for (std::size_t i = begin; i < end; ++i)
      state.set(open[i], {values.begin() + static_cast<std::ptrdiff_t>((i - begin) * width),
                          values.begin() + static_cast<std::ptrdiff_t>((i + 1 - begin) * width)});
    if (progress.show(known.size() - open.size() + end)) state.tryToWrite(false);
  }
  if (world.rank() == 0 && !open.empty()) state.tryToWrite(true);
}

SearchResults resultsOf(const SearchTask& task, const StateFile& state, std::size_t answers) {
  std::vector<SearchRow> rows(task.accelerators.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t answer = 0; answer < answers; ++answer)
      rows[i].push_back(SearchAnswer::read(&state.row(i)[answer * SearchAnswer::numbers]));
  return {task, std::move(rows)};
}

} // namespace

void runSearch(const Communicator& world, const SearchArguments& arguments) {
  Assignment assignment;
  std::optional<ResultFile> file;
  std::optional<ArchitectureSearch> search;
  std::optional<StateFile> state;
  collectively(world, [&] {
    assignment = assignmentOf(arguments.spec);
    refuseSameOutput(arguments.state, arguments.json);
    if (world.rank() == 0)
      file.emplace(arguments.json, assignment.files, jsonObject("reference"), arguments.overwrite);
    search.emplace(assignment.task);
    state.emplace(world.rank() == 0 ? arguments.state : "", assignment.files, assignment.hash,
                  assignment.task.accelerators.size(), search->answersPerRow() * SearchAnswer::numbers);
    state->write(); // so that a bad path is reported before the work
  });
  requireSame(world, assignment.hash, "search");
  priceAll(world, assignment.task, *search, *state, file && !file->isStandardOutput());
  collectively(world, [&] {
    if (world.rank() != 0) return;
    const SearchResults results = resultsOf(assignment.task, *state, search->answersPerRow());
    constexpr std::size_t shown = 10;
    if (!arguments.json.empty()) file->write(jsonOf(results, *search).text());
    if (!file->isStandardOutput()) showBest(results, *search, shown);
    state->requireWritten();
  });
}

} // namespace partita
