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

/// POSIX shared memory that this process has opened or made.
class SharedFile {
 public:
  SharedFile(std::string name, bool made_here)
      : _name(std::move(name)), _made_here(made_here),
        _file(shm_open(_name.c_str(), made_here ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY, S_IRUSR | S_IWUSR)),
        _error(_file < 0 ? errno : 0) {}
  ~SharedFile() {
    removeName();
    if (_file >= 0) close(_file);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  int error() const { return _error; } ///< an errno value, 0 without an error

  /// The memory stays until the last process has closed it.
  void removeName() {
    if (_made_here && _file >= 0) shm_unlink(_name.c_str());
    _made_here = false;
  }
  void allocate(std::uint64_t bytes) { _error = allocateBlocks(_file, 0, bytes); }
  /// Null after an error.
  std::shared_ptr<void> map(std::uint64_t bytes, int protection) {
    if (_error != 0) return nullptr;
    void* const memory = mmap(nullptr, bytes, protection, MAP_SHARED, _file, 0);
    if (memory != MAP_FAILED) return {memory, [bytes](void* mapped) { munmap(mapped, bytes); }};
    _error = errno;
    return nullptr;
  }

 private:
  std::string _name;
  bool _made_here;
  int _file, _error;
};

/// A name that no other process has, even if processes of several containers have the same number.
std::string newName() {
  std::random_device random;
  return "/partita-" + std::to_string(getpid()) + "-" + std::to_string(random()) + std::to_string(random());
}

} // namespace

NodeMemory shareOnNode(const Communicator& node, std::uint64_t bytes,
                       const std::function<void(void*)>& fill) {
  const bool first = node.rank() == 0;
  std::unique_ptr<SharedFile> file;
  std::string name = first ? newName() : "";
  if (first) file = std::make_unique<SharedFile>(name, true);
  name = broadcast(node, std::move(name));
  if (!first) file = std::make_unique<SharedFile>(name, false);
  NodeMemory shared;
  const auto failed = [&] {
    // The error of the first rank comes first: it causes those of the others.
    std::int64_t error = node.maximum(std::int64_t{first ? file->error() : 0});
    if (error == 0) error = node.maximum(std::int64_t{file->error()});
    if (error != 0) shared = {nullptr, std::strerror(static_cast<int>(error))};
    return error != 0;
  };

  if (failed()) return shared;
  file->removeName(); // all ranks have it open
  if (first) {
    file->allocate(bytes);
    if (const std::shared_ptr<void> memory = file->map(bytes, PROT_READ | PROT_WRITE)) {
      fill(memory.get());
      mprotect(memory.get(), bytes, PROT_READ);
      shared.values = memory;
    }
  }
  if (failed()) return shared;
  if (!first) shared.values = file->map(bytes, PROT_READ);
  failed();
  return shared;
}

} // namespace partita
