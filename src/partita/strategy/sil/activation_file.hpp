#pragma once

#include <cstdint>
#include <string>

namespace partita {

/// A file without a name for the outputs of finished stages. It disappears with the process. Its space is
/// allocated on construction: stages that run out of it would fail after hours.
class ActivationFile {
 public:
  /// Throws UserError, naming the folder, if no file can be created there; SystemError if there is no room.
  ActivationFile(std::string folder, std::int64_t bytes);
  ~ActivationFile();
  ActivationFile(const ActivationFile&) = delete;
  ActivationFile& operator=(const ActivationFile&) = delete;

  /// Copies `bytes` bytes to or from the file, at byte `at` of it. Throws RunError if the disk fails.
  void write(const char* from, std::int64_t bytes, std::int64_t at) const;
  void read(char* to, std::int64_t bytes, std::int64_t at) const;
  void release() const; ///< gives the space back: the activations are no longer needed

 private:
  std::string failure(const std::string& what, int reason) const;

  std::string _folder;
  int _file = -1;
};

} // namespace partita
