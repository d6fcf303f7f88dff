#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/data/batch_reader.hpp"

#include <string>

namespace partita {

/// The folder for such files: the one that the deck names, or else `scratch`.
std::string cacheFolder(const SilSection& section, const std::string& scratch);

/// The outputs of a finished stage for every training sample, in a file that disappears with the process:
/// they are sent once and never all in memory. The file has them as they are stored. Rows are written in any
/// order and read by the prefetch thread.
class ActivationCache : public RowSource {
 public:
  /// Creates an unnamed file in `folder`. Throws UserError, naming the folder, if it cannot be created; `put`
  /// throws RunError if the disk is full.
  ActivationCache(std::string folder, Precision precision, std::int64_t width);
  ~ActivationCache() override;
  ActivationCache(const ActivationCache&) = delete;
  ActivationCache& operator=(const ActivationCache&) = delete;

  /// Stores `values` [rows.size(), width], in the precision of the cache, as the rows of the samples `rows`.
  void put(const ExecSpace& space, const TypedMatrix& values, const std::vector<std::uint32_t>& rows);

  Precision precision() const { return _precision; }
  std::int64_t width() const override { return _width; }
  void copyRow(std::size_t row, std::uint32_t epoch, Real* out) const override;

 private:
  std::string failure(const std::string& what) const;
  std::int64_t rowBytes() const { return _width * bytesOf(_precision); }
  const char* onHost(const ExecSpace& space, const TypedMatrix& values);

  std::string _folder;
  Precision _precision;
  std::int64_t _width;
  int _file = -1;
  Kokkos::View<char*, PinnedSpace> _staging; ///< used only if the device is not the host
};

} // namespace partita
