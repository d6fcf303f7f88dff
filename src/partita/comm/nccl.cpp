#include "partita/comm/nccl.hpp"

#include "partita/comm/rank_places.hpp"

#if defined(PARTITA_HAVE_NCCL)

#include "partita/core/asynchronous.hpp"
#include "partita/core/gpu.hpp"
#include "partita/core/provenance.hpp"

#include <cstdlib>
#include <exception>
#include <nccl.h>
#include <utility>

namespace partita::nccl {

namespace {

void checkNccl(ncclResult_t status, const char* call, ncclComm_t comm = nullptr) {
  if (status != ncclSuccess)
    PARTITA_FAIL(std::string(call) + ": " + ncclGetErrorString(status) + " (" + ncclGetLastError(comm) + ")");
}

ncclDataType_t typeOf(Precision precision) {
  if (precision == Precision::bf16) return ncclBfloat16;
  if (precision == Precision::fp16) return ncclFloat16;
  return sizeof(Real) == sizeof(double) ? ncclDouble : ncclFloat;
}

/// Keeps NCCL from letting network switches add up values, which they may do in any order. A
/// setting of the user takes precedence.
void keepOrder() {
  setenv("NCCL_NVLS_ENABLE", "0", 0);
}

/// NCCL's communicator. Its sums take place one after another on a stream of their own.
class Ranks {
 public:
  explicit Ranks(const Communicator& ranks) {
    keepOrder();
    ncclUniqueId meeting{};
    if (ranks.rank() == 0) checkNccl(ncclGetUniqueId(&meeting), "ncclGetUniqueId");
    ranks.barrier(); // the next two calls block: wait for missing ranks here, where the watchdog sees it
    PARTITA_MPI(MPI_Bcast(&meeting, sizeof meeting, MPI_BYTE, 0, ranks.get()));
    checkNccl(ncclCommInitRank(&_comm, ranks.size(), meeting, ranks.rank()), "ncclCommInitRank");
  }
  ~Ranks() {
    if (std::uncaught_exceptions() > 0) abort(); // the other ranks may not end theirs
    if (_comm != nullptr) ncclCommDestroy(_comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void start(const TypedSpan& values) {
    PARTITA_REQUIRE(_comm != nullptr, "a sum after NCCL was aborted");
    checkNccl(ncclAllReduce(values.data, values.data, static_cast<std::size_t>(values.size),
                            typeOf(values.precision), ncclSum, _comm, streamOf(_stream.space())),
              "ncclAllReduce", _comm);
  }
  /// Errors of connections and other ranks appear while sums are under way.
  void check() const {
    ncclResult_t status = ncclSuccess;
    checkNccl(ncclCommGetAsyncError(_comm, &status), "ncclCommGetAsyncError", _comm);
    checkNccl(status, "ncclAllReduce", _comm);
  }
  /// Ends sums that wait for ranks that will not come: device memory cannot be freed before.
  void abort() {
    if (_comm != nullptr) ncclCommAbort(_comm);
    _comm = nullptr;
  }
  CopyStream& stream() { return _stream; }

 private:
  CopyStream _stream{false};
  ncclComm_t _comm = nullptr;
};

class Sum final : public RankSum {
 public:
  explicit Sum(std::shared_ptr<Ranks> ranks) : _ranks(std::move(ranks)) {}
  ~Sum() override {
    if (_under_way && std::uncaught_exceptions() > 0) _ranks->abort();
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;

  void start(const ExecSpace& space, const TypedSpan& values) override {
    _ready.set(space);
    _ready.holdBack(_ranks->stream());
    _ranks->start(values);
    _complete.set(_ranks->stream());
    _under_way = true;
  }
  bool ready() const override { return _ready.reached(); } // for whoever asks; its stream waits by itself
  void begin(void*) override {}
  bool advance() override {
    if (_under_way) _ranks->check();
    if (_under_way && _complete.reached()) _under_way = false;
    return !_under_way;
  }

 private:
  std::shared_ptr<Ranks> _ranks;
  Event _ready, _complete;
  bool _under_way = false;
};

class Sums final : public DeviceSums {
 public:
  explicit Sums(const Communicator& ranks) : _ranks(std::make_shared<Ranks>(ranks)) {}
  std::unique_ptr<RankSum> make() override { return std::make_unique<Sum>(_ranks); }

 private:
  std::shared_ptr<Ranks> _ranks;
};

} // namespace

std::string version() {
  int number = 0;
  checkNccl(ncclGetVersion(&number), "ncclGetVersion");
  return versionText(number);
}

std::shared_ptr<DeviceSums> join(const Communicator& ranks) {
  return std::make_shared<Sums>(ranks);
}

} // namespace partita::nccl

#else

namespace partita::nccl {

std::string version() {
  return "";
}

std::shared_ptr<DeviceSums> join(const Communicator&) {
  return nullptr;
}

} // namespace partita::nccl

#endif

namespace partita::nccl {

bool serves(const Communicator& ranks) {
  if (ranks.size() == 1 || ranks.minimum(std::int64_t{version().empty() ? 0 : 1}) == 0) return false;
  return ranks.minimum(std::int64_t{devicesDiffer(gatherPlaces(ranks)) ? 1 : 0}) > 0;
}

} // namespace partita::nccl
