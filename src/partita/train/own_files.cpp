#include "partita/train/own_files.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/read_run_file.hpp"

#include <filesystem>
#include <functional>
#include <numeric>

namespace partita {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool saysSomething(const std::string& path) {
  constexpr std::size_t enough = 4096;
  const std::string start = firstBytes(path, enough);
  return start.size() == enough || start.find('\n') + 1 < start.size();
}

bool begins(const std::string& path, std::string_view mark) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  const std::string start = firstBytes(path, mark.size());
  return start.empty() || start == mark;
}

namespace {

/// Returns whether the file begins like HDF5, apart from some damage: a crash may leave zeros in place of the
/// first bytes.
bool looksLikeHdf5(const std::string& path) {
  constexpr std::ptrdiff_t enough = 4; // of the eight bytes
  std::string start = firstBytes(path, hdf5_mark.size());
  start.resize(hdf5_mark.size(), '\0');
  const auto equal = std::inner_product(hdf5_mark.begin(), hdf5_mark.end(), start.begin(), std::ptrdiff_t{0},
                                        std::plus<>{}, std::equal_to<>{});
  return equal >= enough || start == std::string(hdf5_mark.size(), '\0');
}

} // namespace

Origin originOf(const std::string& path) {
  try {
    const RunFile opened(path);
  } catch (const DamagedFile&) {
    return looksLikeHdf5(path) ? Origin::damaged : Origin::foreign;
  } catch (const ForeignFile&) {
    return Origin::foreign;
  }
  return Origin::ours;
}

bool isOurs(const std::string& folder, const OwnFile& file) {
  const std::string path = folder + "/" + file.name;
  if (file.mark == hdf5_mark) return regularFileExists(path) && originOf(path) != Origin::foreign;
  return begins(path, file.mark);
}

bool isForeignHdf5(const std::string& path) {
  const Hdf5Silence silence;
  const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!file) return false;
  const htri_t found = H5Aexists(file.get(), "format");
  if (found <= 0) return found == 0; // negative: damaged
  try {
    return readText(file.get(), "format", path) != "Partita";
  } catch (const UserError&) { // not a text
    return true;
  }
}

} // namespace partita
