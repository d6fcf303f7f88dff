#include "partita/comm/node_memory.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/files.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace partita {

namespace {

/// A descriptor of POSIX shared memory.
class SharedFile {
 public:
  /// Makes the memory if `flags` has O_CREAT.
  SharedFile(const std::string& name, int flags)
      : _file(shm_open(name.c_str(), flags, S_IRUSR | S_IWUSR)), _error(_file < 0 ? errno : 0) {}
  ~SharedFile() {
    if (_file >= 0) close(_file);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  int get() const { return _file; }
  int error() const { return _error; } ///< an errno value, 0 without an error

  void allocate(std::uint64_t bytes) {
    if (_error == 0) _error = allocateBlocks(_file, 0, bytes);
  }
  /// Null after an error.
  void* map(std::uint64_t bytes, int protection) {
    if (_error != 0) return nullptr;
    void* const memory = mmap(nullptr, bytes, protection, MAP_SHARED, _file, 0);
    if (memory != MAP_FAILED) return memory;
    _error = errno;
    return nullptr;
  }

 private:
  int _file, _error;
};

/// A name that no other process has, also if processes of several containers have the same number.
std::string newName() {
  std::random_device random;
  return "/partita-" + std::to_string(getpid()) + "-" + std::to_string(random()) + std::to_string(random());
}

} // namespace

NodeMemory shareOnNode(const Communicator& node, std::uint64_t bytes,
                       const std::function<void(void*)>& fill) {
  std::string name = node.rank() == 0 ? newName() : "";
  void* memory = nullptr;
  int error = 0;
  if (node.rank() == 0) {
    SharedFile file(name, O_RDWR | O_CREAT | O_EXCL);
    file.allocate(bytes);
    memory = file.map(bytes, PROT_READ | PROT_WRITE);
    error = file.error();
    if (memory != nullptr) {
      fill(memory);
      mprotect(memory, bytes, PROT_READ);
    }
  }
  name = broadcast(node, std::move(name)); // arrives after the memory is filled
  if (node.rank() > 0) {
    SharedFile file(name, O_RDONLY);
    memory = file.map(bytes, PROT_READ);
    error = file.error();
  }
  const std::int64_t failed = node.maximum(std::int64_t{error});
  if (node.rank() == 0) shm_unlink(name.c_str());
  NodeMemory shared;
  if (memory != nullptr)
    shared.values = {memory, [bytes](const void* mapped) { munmap(const_cast<void*>(mapped), bytes); }};
  if (failed == 0) return shared;
  return {nullptr, std::strerror(static_cast<int>(failed))};
}

} // namespace partita
