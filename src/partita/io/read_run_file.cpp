#include "partita/io/read_run_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/finite.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/hdf5_contents.hpp"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace partita {

namespace {

/// The N of "layerN.dense" or "headN.0.dense"; negative for other names. Heads are listed after layers.
long placeOf(const std::string& layer) {
  constexpr long first_head = 1L << 32; // a file that is not ours may have longer numbers
  const auto number_after = [&](const std::string& prefix) {
    const bool fits = layer.compare(0, prefix.size(), prefix) == 0 && layer.size() > prefix.size() &&
                      std::isdigit(static_cast<unsigned char>(layer[prefix.size()])) != 0;
    return fits ? std::min(std::strtol(layer.c_str() + prefix.size(), nullptr, 10), first_head - 1) : -1L;
  };
  const long head = number_after("head");
  return head >= 0 ? first_head + head : number_after("layer");
}

bool before(const TensorRecord& a, const TensorRecord& b) {
  const auto rank = [](const TensorRecord& t) { return t.kind == parameters_kind ? 0 : 1; };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (a.kind != b.kind) return a.kind < b.kind;
  const long place_a = placeOf(a.layer), place_b = placeOf(b.layer);
  if (place_a != place_b) return place_a < place_b;
  return a.extents.size() > b.extents.size();
}

/// The names of the last HDF5 files beside one that is not there, since a run removes old checkpoints; empty
/// if there are none.
std::string othersInFolder(const std::string& path) {
  constexpr std::size_t most = 3;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  std::vector<std::string> names;
  for (const std::filesystem::path& entry : entriesOf(folder.string(), error))
    if (entry.extension() == ".h5") names.push_back(entry.filename().string());
  std::sort(names.rbegin(), names.rend());
  const std::size_t count = names.size();
  names.resize(std::min(count, most));
  return quotedList(names) + (count > most ? " and " + std::to_string(count - most) + " more" : "");
}

Hdf5File openFile(const std::string& path) {
  if (!regularFileExists(path, ", not a file")) {
    const std::string others = othersInFolder(path);
    if (others.empty()) throw UserError(path + ": no such file" + nearestInFolder(path));
    throw UserError(path + ": no such file; its folder has " + others);
  }
  Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (file) return file;
  if (const int reason = readFailure(path); reason != 0) failFile(path, "cannot be read", reason);
  throw DamagedFile(path + ": cannot be read as HDF5");
}

} // namespace

/// Any error in a file that the system can read counts as damage.
template <class Work>
auto RunFile::orDamaged(const Work& work) const {
  try {
    return work();
  } catch (const DamagedFile&) {
    throw;
  } catch (const UserError& error) {
    if (const int reason = readFailure(_path); reason != 0) failFile(_path, "cannot be read", reason);
    throw DamagedFile(error.what());
  }
}

RunFile::RunFile(std::string path) : StoredTensors(std::move(path)), _file(openFile(_path)) {
  loadStructure();
}

void RunFile::loadStructure() {
  const hid_t root = _file.get();
  const bool ours = orDamaged([&] {
    const htri_t found = H5Aexists(root, "format");
    if (found < 0) throw DamagedFile(_path + ": cannot be read as HDF5");
    return found > 0 && readText(root, "format", _path) == "Partita";
  });
  if (!ours) throw ForeignFile(_path + ": is not a parameter file or checkpoint of Partita");
  const std::int64_t version = orDamaged([&] { return readInteger(root, "format_version", _path); });
  if (version != run_file_version)
    throw UserError(_path + ": has format version " + std::to_string(version) + ", but this program reads " +
                    std::to_string(run_file_version));
  orDamaged([&] {
    if (readInteger(root, "complete", _path) != 1)
      throw UserError(_path + ": is incomplete, because writing it was interrupted");
    const std::string content = readText(root, "content", _path);
    if (content != "checkpoint" && content != "parameters")
      throw UserError(_path + ": has unknown content '" + content + "'");
    _checkpoint = content == "checkpoint";
    listTensors();
  });
}

void RunFile::listTensors() {
  for (const std::string& name : datasetNames(_file.get(), _path)) {
    const std::size_t first = name.find('/'), last = name.rfind('/');
    if (first == std::string::npos || first == last) continue; // deck, input/..., state/...
    const Hdf5Dataset dataset = open(name);
    TensorRecord tensor{name.substr(0, first), name.substr(first + 1, last - first - 1),
                        name.substr(last + 1), extentsOf(dataset.get())};
    const bool numbers = !tensor.extents.empty() && hasSensibleSize(dataset.get(), tensor.extents);
    if (placeOf(tensor.layer) < 0 || !numbers)
      throw UserError(_path + ": '" + tensor.path() + "' is not a tensor of a layer");
    _tensors.push_back(std::move(tensor));
  }
  std::sort(_tensors.begin(), _tensors.end(), before);
}

Hdf5Dataset RunFile::open(const std::string& dataset) const {
  return checkedId<Hdf5Dataset>(H5Dopen2(_file.get(), dataset.c_str(), H5P_DEFAULT),
                                _path + ": has no '" + dataset + "'");
}

void RunFile::read(const TensorRecord& tensor, const TensorSlice& slice, Real* values) const {
  PARTITA_REQUIRE(slice.whole == tensor.extents, "a slice of another tensor");
  const Hdf5Dataset dataset = open(tensor.path());
  refuseMissingFilter(dataset.get());
  orDamaged([&] {
    forEachBlock(dataset.get(), slice, [&](hid_t memory, hid_t source, std::int64_t first, std::int64_t) {
      checkHdf5(H5Dread(dataset.get(), realType(), memory, source, H5P_DEFAULT, values + first),
                _path + ": '" + tensor.path() + "' cannot be read; the file is damaged");
    });
  });
}

std::string RunFile::readDeck() const {
  const Hdf5Dataset dataset = open("/deck");
  const Hdf5Type type = checkedId<Hdf5Type>(H5Dget_type(dataset.get()), _path + ": HDF5 cannot read a type");
  if (H5Tget_class(type.get()) != H5T_STRING || !hasSensibleSize(dataset.get(), extentsOf(dataset.get())))
    throw UserError(_path + ": '/deck' is not text");
  std::string text(H5Tget_size(type.get()), '\0');
  checkHdf5(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
            _path + ": '/deck' cannot be read; the file is damaged");
  return text;
}

template <class T>
std::vector<T> RunFile::readAll(const std::string& name, hid_t type) const {
  const Hdf5Dataset dataset = open(name);
  std::int64_t size = 1;
  const std::vector<std::int64_t> extents = extentsOf(dataset.get());
  if (!hasSensibleSize(dataset.get(), extents) || extents.empty())
    throw UserError(_path + ": '" + name + "' has an invalid size");
  for (const std::int64_t extent : extents) size *= extent;
  std::vector<T> values(size);
  checkHdf5(H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
            _path + ": '" + name + "' cannot be read; the file is damaged");
  return values;
}

/// For structs that consist of numbers only. Returns no rows if the numbers do not fill the last one.
template <class Row>
std::vector<Row> RunFile::readRows(const std::string& name) const {
  constexpr std::size_t width = sizeof(Row) / sizeof(double);
  const std::vector<double> values = readAll<double>(name, H5T_NATIVE_DOUBLE);
  std::vector<Row> rows(values.size() % width == 0 ? values.size() / width : 0);
  if (!rows.empty())
    std::memcpy(static_cast<void*>(rows.data()), values.data(), values.size() * sizeof(double));
  return rows;
}

RunFacts RunFile::facts() const {
  return orDamaged([&] { return readFacts(); });
}

namespace {

/// Can an optimiser be in this state?
bool isPossible(const UpdateState& state) {
  const auto counts = [](double number) { return number >= 0.0 && number < 1e18; };
  return counts(state.steps) && counts(state.clean_steps) && state.loss_scale >= 0.0 &&
         std::isfinite(state.loss_scale);
}

/// Can a run be in this state, while it trains `stage`?
bool isConsistent(const RunProgress& progress, std::int64_t stage) {
  const std::int64_t scores = progress.scores.size(), updates = progress.updates.size();
  const bool fits = progress.stages > 0 && progress.replicas > 0 &&
                    scores / progress.stages == progress.replicas && scores % progress.stages == 0 &&
                    updates == progress.stages;
  const auto is_step = [](std::int64_t step) { return step >= 0 && step <= most_run_steps; };
  const auto is_time = [](double seconds) { return seconds >= 0.0 && seconds < 1e12; };
  std::int64_t least = std::min(progress.samples, stage);
  for (const TrafficCounter& counter : traffic_counters)
    least = std::min(least, progress.traffic.*counter.value);
  return fits && progress.per_epoch >= 1 && is_step(progress.position.step) && is_step(progress.run_step) &&
         least >= 0 && stage < progress.stages && is_time(progress.elapsed_seconds) &&
         is_time(progress.training_seconds) && is_time(progress.evaluation_seconds) &&
         std::all_of(progress.updates.begin(), progress.updates.end(), isPossible);
}

} // namespace

/// Other programs may have written or changed the file.
void RunFile::checkInput(const RunFacts& facts) const {
  constexpr std::int64_t most = std::int64_t{1} << 31; // values per sample
  std::int64_t values = 1;
  for (const std::int64_t extent : facts.shape)
    values = extent < 1 || extent > most / values ? most + 1 : values * extent;
  const std::int64_t shifts = facts.shift.size();
  if (facts.classes < 1 || facts.shape.empty() || values > most || facts.scale.size() != facts.shift.size() ||
      (shifts != 1 && shifts != values) || !allFinite(facts.shift.data(), shifts) ||
      !allFinite(facts.scale.data(), shifts))
    throw UserError(_path + ": '/input' is inconsistent");
}

/// The deck is checked against its checksum before it is parsed.
RunFacts RunFile::readFacts() const {
  RunFacts facts;
  try {
    verifyDataset("/deck");
  } catch (const UserError&) {
    throw UserError(_path + ": the deck in this file is damaged");
  }
  facts.deck = readDeck();
  facts.classes = readInteger(_file.get(), "classes", _path);
  facts.shape = readAll<std::int64_t>("/input/shape", H5T_NATIVE_INT64);
  facts.shift = readAll<float>("/input/shift", H5T_NATIVE_FLOAT);
  facts.scale = readAll<float>("/input/scale", H5T_NATIVE_FLOAT);
  if (H5Lexists(_file.get(), "/input/labels", H5P_DEFAULT) > 0)
    facts.label_values = readAll<std::int64_t>("/input/labels", H5T_NATIVE_INT64);
  if (H5Lexists(_file.get(), "/exit_weights", H5P_DEFAULT) > 0)
    facts.exit_weights = readAll<double>("/exit_weights", H5T_NATIVE_DOUBLE);
  checkInput(facts);
  const Hdf5Group group = checkedId<Hdf5Group>(H5Gopen2(_file.get(), "/provenance", H5P_DEFAULT),
                                               _path + ": has no '/provenance'");
  const auto visit = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    return calledByHdf5([&] {
      static_cast<Provenance*>(data)->emplace_back(name, "");
      return asLine(name) == name ? 0 : -1;
    });
  };
  checkHdf5(H5Aiterate2(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &facts.provenance),
            _path + ": '/provenance' is damaged");
  for (auto& [name, value] : facts.provenance) value = readText(group.get(), name, _path);
  return facts;
}

RunProgress RunFile::progress() const {
  return orDamaged([&] { return readProgress(); });
}

RunProgress RunFile::readProgress() const {
  const Hdf5Group group = checkedId<Hdf5Group>(H5Gopen2(_file.get(), "/state", H5P_DEFAULT),
                                               _path + ": has no '/state'; is it a checkpoint?");
  const auto integer = [&](const char* name) { return readInteger(group.get(), name, _path); };
  const auto number = [&](const char* name) { return readNumber(group.get(), name, _path); };
  RunProgress progress;
  const bool recovers = readText(group.get(), "phase", _path) == "recovery";
  progress.position.phase = recovers ? RunPhase::recovery : RunPhase::training;
  const std::int64_t stage = integer("stage");
  progress.position.step = integer("step");
  progress.run_step = integer("run_step");
  progress.samples = integer("training_samples");
  progress.per_epoch = integer("steps_per_epoch");
  progress.seed = integer("seed");
  progress.elapsed_seconds = number("elapsed_seconds");
  progress.training_seconds = number("training_seconds");
  progress.evaluation_seconds = number("evaluation_seconds");
  const bool parts = H5Aexists(group.get(), "messages_between_parts") > 0;
  for (const TrafficCounter& counter : traffic_counters)
    if (parts || !counter.of_parts) progress.traffic.*counter.value = integer(counter.name);
  progress.stages = integer("stages");
  progress.replicas = integer("replicas");
  progress.ranks = integer("ranks");
  progress.scores = readRows<LossSums>("/state/scores");
  progress.updates = readRows<UpdateState>("/state/updates");
  if (H5Lexists(group.get(), "workers", H5P_DEFAULT) > 0)
    progress.numbers = readAll<double>("/state/workers", H5T_NATIVE_DOUBLE);
  if (!isConsistent(progress, stage)) throw UserError(_path + ": '/state' is inconsistent");
  progress.position.stage = static_cast<int>(stage);
  return progress;
}

void RunFile::verifyDataset(const std::string& name) const {
  const Hdf5Dataset dataset = open(name);
  const std::string wrong = _path + ": '" + name + "' is damaged";
  const std::vector<std::int64_t> extents = extentsOf(dataset.get());
  if (!hasSensibleSize(dataset.get(), extents)) throw UserError(wrong);
  const Hdf5Type stored = checkedId<Hdf5Type>(H5Dget_type(dataset.get()), wrong);
  const Hdf5Type type = checkedId<Hdf5Type>(H5Tget_native_type(stored.get(), H5T_DIR_ASCEND), wrong);
  const std::size_t size = H5Tget_size(type.get());
  auto sum = static_cast<std::uint32_t>(crc32_z(0, nullptr, 0));
  std::vector<unsigned char> bytes;
  const auto take = [&](hid_t memory, hid_t source, std::int64_t, std::int64_t values) {
    bytes.resize(values * size);
    checkHdf5(H5Dread(dataset.get(), type.get(), memory, source, H5P_DEFAULT, bytes.data()), wrong);
    sum = static_cast<std::uint32_t>(crc32_z(sum, bytes.data(), bytes.size()));
  };
  if (extents.empty()) {
    take(H5S_ALL, H5S_ALL, 0, 1);
  } else {
    forEachBlock(dataset.get(), wholeOf(extents), take);
  }
  if (readInteger(dataset.get(), "crc32", _path + ": '" + name + "'") != sum)
    throw UserError(wrong + ": its checksum does not match its values");
}

/// A missing filter is not damage: another build of HDF5 can read the file.
void RunFile::refuseMissingFilter(hid_t dataset) const {
  const std::string filter = missingFilter(dataset);
  if (!filter.empty())
    throw UserError(_path + ": needs the HDF5 filter '" + filter + "', which is not installed");
}

void RunFile::verify(std::size_t part, std::size_t parts) const {
  for (const TensorRecord& tensor : _tensors) refuseMissingFilter(open(tensor.path()).get());
  orDamaged([&] {
    const std::vector<std::string> names = datasetNames(_file.get(), _path);
    for (std::size_t i = part; i < names.size(); i += parts) verifyDataset("/" + names[i]);
  });
}

} // namespace partita
