#include "partita/train/run_directory.hpp"

#include "partita/comm/agree.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace partita {

namespace fs = std::filesystem;

RunDirectory::RunDirectory(const Communicator& world, std::string path, const std::string& deck)
    : _path(std::move(path)) {
  if (_path.empty()) return;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    std::error_code error;
    fs::create_directories(_path, error);
    if (error) throw UserError("run directory '" + _path + "': " + error.message());
    // Results of an earlier run in this folder must not stand beside this deck.
    for (const char* name : {"history.csv", "summary.json", "parameters.h5"}) fs::remove(file(name), error);
    if (!(std::ofstream(file("deck.toml")) << deck))
      throw UserError("run directory '" + _path + "' cannot be written to");
  });
}

std::string RunDirectory::scratch() const {
  if (exists()) return _path;
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr ? temporary : "/tmp";
}

std::string parameterFileOf(const std::string& path) {
  std::string file = fs::is_directory(path) ? path + "/parameters.h5" : path;
  if (fs::exists(file)) return file;
  throw UserError(fs::is_directory(path)
                      ? "'" + path + "' has no parameters.h5: is it the directory of a finished run?"
                      : "there is no file or run directory '" + path + "'");
}

} // namespace partita
