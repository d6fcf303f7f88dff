#pragma once

#include "partita/comm/agree.hpp"

#include <filesystem>
#include <unistd.h>

#include "small_run.hpp"

namespace partita::test {

/// A folder visible to all ranks during the life of the object. Collective.
class SharedFolder {
 public:
  SharedFolder()
      : _path(broadcast(everyone(),
                        (std::filesystem::temp_directory_path() / ("partita-mpi-" + std::to_string(getpid())))
                            .string())) {
    if (everyone().rank() == 0) std::filesystem::create_directories(_path);
    everyone().barrier();
  }
  ~SharedFolder() {
    std::error_code ignored;
    if (everyone().rank() == 0) std::filesystem::remove_all(_path, ignored);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  std::string file(const std::string& name) const { return _path + "/" + name; }

 private:
  std::string _path;
};

} // namespace partita::test
