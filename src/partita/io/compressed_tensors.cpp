#include "partita/io/compressed_tensors.hpp"

#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/new_run_file.hpp"
#include "partita/io/tensor_parts.hpp"
#include "partita/io/value_check.hpp"
#include "partita/io/write_progress.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace partita {

namespace {

constexpr std::int64_t bytes_per_chunk = 4 << 20;

using Bytes = std::vector<unsigned char>;

/// Precedes the bytes of a chunk in a message.
struct ChunkHead {
  std::int64_t tensor; ///< -1: no chunk, the rank has no more
  std::int64_t row;    ///< the first one of the chunk
};

struct Chunk {
  ChunkHead head;
  const unsigned char* data;
  std::size_t bytes;
};

std::int64_t rowSize(const TensorRecord& tensor) {
  return tensor.size() / tensor.extents[0];
}

std::size_t chunkBytes(const TensorRecord& tensor) {
  return rowsOfChunk(tensor) * rowSize(tensor) * sizeof(Real);
}

/// Upper bound in bytes for a message with any chunk of these tensors, even if deflate cannot compress it.
std::size_t longestMessage(const RunFileContent& content) {
  std::size_t longest = 0;
  for (const TensorRecord& tensor : content.tensors) longest = std::max(longest, chunkBytes(tensor));
  return sizeof(ChunkHead) + compressBound(longest);
}

/// HDF5's filter `shuffle`: the first bytes of all values, then the second bytes, and so on. A chunk at the
/// edge of a tensor has full length and is padded with zeros.
void shuffle(const Real* values, std::int64_t count, Bytes& to) {
  std::fill(to.begin(), to.end(), static_cast<unsigned char>(0));
  const auto* from = reinterpret_cast<const unsigned char*>(values);
  const std::size_t places = to.size() / sizeof(Real), used = count;
  for (std::size_t byte = 0; byte < sizeof(Real); ++byte) {
    for (std::size_t i = 0; i < used; ++i) to[byte * places + i] = from[i * sizeof(Real) + byte];
  }
}

/// The side of rank 0: stores its own chunks and those it receives. After a failure to store one it still
/// receives the others, and drops them, so that no rank waits.
class ChunkStore {
 public:
  ChunkStore(const Communicator& comm, const NewRunFile& file, const RunFileContent& content)
      : _comm(comm), _file(file), _content(content), _message(longestMessage(content)),
        _sending(comm.size() - 1) {
    receive();
  }

  void store(const Chunk& chunk) {
    if (!_failure.empty()) return;
    const TensorRecord& tensor = _content.tensors[chunk.head.tensor];
    std::vector<hsize_t> offset(tensor.extents.size(), 0);
    offset[0] = chunk.head.row;
    if (H5Dwrite_chunk(_file.tensor(chunk.head.tensor), H5P_DEFAULT, 0, offset.data(), chunk.bytes,
                       chunk.data) < 0)
      _failure = notWritten(_file.path(), tensor).what();
    bytes_written += static_cast<std::int64_t>(chunk.bytes);
  }

  void takeArrived() {
    MPI_Status status;
    while (_sending > 0 && _request.test(&status)) take(status);
  }

  /// Stores all chunks that the other ranks still have.
  void finish() {
    while (_sending > 0) {
      MPI_Status status;
      _request.wait(&status);
      take(status);
    }
    if (!_failure.empty()) throw UserError(_failure);
  }

 private:
  void receive() {
    if (_sending == 0) return;
    PARTITA_MPI(MPI_Irecv(_message.data(), mpiCount(_message.size()), MPI_BYTE, MPI_ANY_SOURCE,
                          static_cast<int>(Tag::chunk), _comm.get(),
                          _request.start({WaitedFor::Kind::all, "compressed chunks"})));
  }

  void take(const MPI_Status& status) {
    int bytes = 0;
    PARTITA_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
    ChunkHead head{};
    std::memcpy(&head, _message.data(), sizeof head);
    if (head.tensor < 0) {
      --_sending;
    } else {
      store({head, _message.data() + sizeof head, bytes - sizeof head});
    }
    receive();
  }

  const Communicator& _comm;
  const NewRunFile& _file;
  const RunFileContent& _content;
  Bytes _message;
  Request _request;
  int _sending; ///< ranks that have more chunks
  std::string _failure;
};

/// The side of the other ranks: sends a chunk while the next one is compressed.
class ChunkSender {
 public:
  explicit ChunkSender(const Communicator& comm) : _comm(comm) {}

  void send(const Chunk& chunk) {
    const std::size_t turn = _sent++ % 2;
    Request& request = _requests[turn];
    if (request.underWay()) request.wait();
    Bytes& message = _messages[turn];
    message.resize(sizeof chunk.head + chunk.bytes);
    std::memcpy(message.data(), &chunk.head, sizeof chunk.head);
    std::copy_n(chunk.data, chunk.bytes, message.data() + sizeof chunk.head);
    request.send(message.data(), message.size(), MPI_BYTE, 0, Tag::chunk, _comm, "compressed chunk");
    bytes_written += static_cast<std::int64_t>(chunk.bytes);
  }

  void finish() {
    send({{-1, 0}, nullptr, 0});
    for (Request& request : _requests) {
      if (request.underWay()) request.wait();
    }
  }

 private:
  const Communicator& _comm;
  std::array<Bytes, 2> _messages;
  std::array<Request, 2> _requests;
  std::size_t _sent = 0;
};

/// Makes the chunks of tensors one after another: of those this rank has whole, and on rank 0 of the divided
/// ones.
class Compressor {
 public:
  Compressor(const Communicator& comm, const RunFileContent& content, int level)
      : _comm(comm), _content(content), _level(level) {}

  template <class Take>
  ValueCheck compress(std::size_t number, bool divided, const Take& take) {
    const TensorRecord& tensor = _content.tensors[number];
    const std::vector<TensorPart>& own = _content.parts[number];
    const std::int64_t step = rowsOfChunk(tensor), rows = tensor.extents[0], row_size = rowSize(tensor);
    _shuffled.resize(chunkBytes(tensor));
    _packed.resize(compressBound(_shuffled.size()));
    ValueCheck check(wholeOf(tensor.extents));
    const auto pack = [&](std::int64_t row, std::int64_t count, const Real* values) {
      check.add(values, count * row_size);
      shuffle(values, count * row_size, _shuffled);
      uLongf bytes = _packed.size();
      const int result = compress2(_packed.data(), &bytes, _shuffled.data(), _shuffled.size(), _level);
      PARTITA_REQUIRE(result == Z_OK, "zlib has no memory left");
      take(Chunk{{static_cast<std::int64_t>(number), row}, _packed.data(), bytes});
    };
    if (divided) {
      gatherTensor(_comm, tensor.extents, own, step, pack);
    } else if (!own.empty()) {
      for (std::int64_t row = 0; row < rows; row += step)
        pack(row, std::min(step, rows - row), own.front().values + row * row_size);
    }
    return check;
  }

 private:
  const Communicator& _comm;
  const RunFileContent& _content;
  int _level;
  Bytes _shuffled, _packed;
};

/// Divided tensors come first, because gathering them is collective. `failure` gets the message for the first
/// tensor with a value that is not finite.
template <class Take>
std::vector<std::uint32_t> compressAll(const std::string& path, const RunFileContent& content,
                                       const std::vector<bool>& divided, Compressor& compressor,
                                       std::string& failure, const Take& take) {
  std::vector<std::uint32_t> checksums(content.tensors.size(), 0);
  for (const bool now : {true, false}) {
    for (std::size_t t = 0; t < checksums.size(); ++t) {
      if (divided[t] != now) continue;
      const ValueCheck check = compressor.compress(t, now, take);
      checksums[t] = check.checksum();
      if (!check.finite() && failure.empty()) failure = notFinite(path, content.tensors[t]).what();
    }
  }
  return checksums;
}

} // namespace

std::int64_t rowsOfChunk(const TensorRecord& tensor) {
  const std::int64_t row = rowSize(tensor) * sizeof(Real);
  return std::clamp<std::int64_t>(bytes_per_chunk / row, 1, tensor.extents[0]);
}

std::vector<std::uint32_t> writeCompressed(const Communicator& comm, const std::string& path,
                                           const NewRunFile* file, const RunFileContent& content,
                                           const std::vector<bool>& divided, int level) {
  std::string failure;
  std::vector<std::uint32_t> checksums;
  Compressor compressor(comm, content, level);
  if (file != nullptr) {
    ChunkStore store(comm, *file, content);
    checksums = compressAll(path, content, divided, compressor, failure, [&](const Chunk& chunk) {
      store.store(chunk);
      store.takeArrived();
    });
    store.finish();
  } else {
    ChunkSender sender(comm);
    checksums = compressAll(path, content, divided, compressor, failure,
                            [&](const Chunk& chunk) { sender.send(chunk); });
    sender.finish();
  }
  if (!failure.empty()) throw UserError(failure);
  return checksums;
}

} // namespace partita
