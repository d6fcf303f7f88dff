#include "partita/io/shared_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/core/error.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <utility>

namespace partita {

namespace {

/// Values as bytes, one after another, for ranks of the same program. Packs values, or sets the same ones in
/// the same order, so that one list of them serves both.
class Archive {
 public:
  Archive() = default;
  explicit Archive(std::vector<char> bytes) : _bytes(std::move(bytes)), _packs(false) {}

  template <class T>
  void operator()(T& value) {
    static_assert(std::is_trivially_copyable<T>::value, "values travel as bytes");
    copy(&value, sizeof value);
  }
  void operator()(std::string& text) {
    text.resize(count(text.size()));
    copy(text.data(), text.size());
  }
  void operator()(std::pair<std::string, std::string>& texts) {
    (*this)(texts.first);
    (*this)(texts.second);
  }
  void operator()(TensorRecord& tensor) {
    for (std::string* text : {&tensor.kind, &tensor.layer, &tensor.name}) (*this)(*text);
    (*this)(tensor.extents);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.resize(count(values.size()));
    for (T& value : values) (*this)(value);
  }
  std::vector<char> take() { return std::move(_bytes); }

 private:
  std::size_t count(std::size_t own) {
    (*this)(own);
    return own;
  }
  void copy(void* data, std::size_t size) {
    char* const begin = static_cast<char*>(data);
    if (_packs) {
      _bytes.insert(_bytes.end(), begin, begin + size);
      return;
    }
    PARTITA_REQUIRE(size <= _bytes.size() - _next, "ranks pack different values");
    std::copy_n(_bytes.data() + _next, size, begin);
    _next += size;
  }

  std::vector<char> _bytes;
  std::size_t _next = 0;
  bool _packs = true;
};

void carryFacts(Archive& archive, RunFacts& facts) {
  archive(facts.deck);
  archive(facts.classes);
  archive(facts.shape);
  archive(facts.shift);
  archive(facts.scale);
  archive(facts.label_values);
  archive(facts.provenance);
  archive(facts.exit_weights);
}

void carryProgress(Archive& archive, RunProgress& progress) {
  archive(progress.position);
  for (std::int64_t* number : {&progress.run_step, &progress.samples, &progress.per_epoch, &progress.seed,
                               &progress.stages, &progress.replicas, &progress.ranks})
    archive(*number);
  for (double* seconds :
       {&progress.elapsed_seconds, &progress.training_seconds, &progress.evaluation_seconds})
    archive(*seconds);
  archive(progress.traffic);
  archive(progress.scores);
  archive(progress.updates);
  archive(progress.numbers);
}

} // namespace

SharedRunFile::SharedRunFile(const Communicator& world, std::string path) : StoredTensors(std::move(path)) {
  std::vector<char> bytes;
  collectively(world, [&] {
    if (world.rank() == 0) bytes = packed();
  });
  broadcast(world, bytes);
  if (world.rank() != 0) unpack(std::move(bytes));
}

std::vector<char> SharedRunFile::packed() {
  _opened = std::make_unique<const RunFile>(_path);
  _tensors = _opened->tensors();
  _checkpoint = _opened->isCheckpoint();
  _facts = _opened->facts();
  if (_checkpoint) _progress = _opened->progress();
  Archive archive;
  carry(archive);
  return archive.take();
}

void SharedRunFile::unpack(std::vector<char> bytes) {
  Archive archive(std::move(bytes));
  carry(archive);
}

template <class Bytes>
void SharedRunFile::carry(Bytes& bytes) {
  bytes(_tensors);
  bytes(_checkpoint);
  carryFacts(bytes, _facts);
  if (!_checkpoint) return;
  if (!_progress) _progress.emplace();
  carryProgress(bytes, *_progress);
}

void SharedRunFile::open(const Communicator* alike, bool needs) {
  _alike = alike;
  if (!needs || (alike != nullptr && alike->rank() > 0))
    _opened.reset();
  else if (_opened == nullptr)
    openLater();
}

void SharedRunFile::openLater() {
  _opened = std::make_unique<const RunFile>(_path);
  const RunFacts facts = _opened->facts();
  bool same = facts.deck == _facts.deck && facts.provenance == _facts.provenance &&
              _opened->isCheckpoint() == _checkpoint;
  if (same && _checkpoint) {
    const RunProgress progress = _opened->progress();
    same = progress.run_step == _progress->run_step && progress.elapsed_seconds == _progress->elapsed_seconds;
  }
  if (!same) throw UserError(_path + ": was replaced while ranks opened it");
}

void SharedRunFile::fill(std::vector<Real>& values, const std::function<void(const RunFile&)>& read) const {
  if (_alike == nullptr) {
    PARTITA_REQUIRE(_opened != nullptr, "values of a file that this rank has not opened");
    return read(*_opened);
  }
  const std::size_t own = values.size();
  try {
    collectively(*_alike, [&] {
      if (_opened != nullptr) read(*_opened);
    });
  } catch (const AgreedError& error) {
    if (error.bySystem()) throw SystemError(error.messages().front());
    throw UserError(error.messages());
  }
  broadcast(*_alike, values);
  PARTITA_REQUIRE(values.size() == own, "ranks read different tensors of a file together");
}

int verifiersOf(const Communicator& world, const std::string& path) {
  constexpr std::int64_t enough = 64 << 20; // bytes: reading them takes longer than opening a file
  std::int64_t ranks = 1;
  std::error_code failure; // which verifying the file reports
  if (world.rank() == 0)
    if (const auto size = std::filesystem::file_size(path, failure); !failure)
      ranks = std::clamp<std::int64_t>(static_cast<std::int64_t>(size) / enough, 1, world.size());
  return static_cast<int>(world.maximum(ranks));
}

void verifyShare(const Communicator& world, int verifiers, const std::string& path) {
  const auto share_of = [&](std::int64_t rank) { return rank * verifiers / world.size(); };
  const std::int64_t share = share_of(world.rank()); // neighbours have the same, so verifiers are far apart
  if (world.rank() == 0 || share_of(world.rank() - 1) != share)
    RunFile(path).verify(static_cast<std::size_t>(share), static_cast<std::size_t>(verifiers));
}

void verifyTogether(const Communicator& world, const std::string& path) {
  const int verifiers = verifiersOf(world, path);
  collectively(world, [&] { verifyShare(world, verifiers, path); });
}

} // namespace partita
