#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/data/batch_reader.hpp"
#include "partita/strategy/sil/activation_file.hpp"

#include <memory>

namespace partita {

/// The outputs of a finished stage for every training sample, in a file: they are sent once and never all in
/// memory. The file has them as they are stored. Rows are written in any order and read by the prefetch
/// thread.
class ActivationCache : public RowSource {
 public:
  /// Uses `file` from its first byte on. It may have been used before, since rows are written before they are
  /// read.
  ActivationCache(std::shared_ptr<const ActivationFile> file, Precision precision, std::int64_t width)
      : _file(std::move(file)), _precision(precision), _width(width) {}

  /// Stores `values` [rows.size(), width], in the precision of the cache, as the rows of the samples `rows`.
  /// Throws RunError if the disk fails.
  void put(const ExecSpace& space, const TypedMatrix& values, const std::vector<std::uint32_t>& rows);

  Precision precision() const { return _precision; }
  std::int64_t width() const override { return _width; }
  void copyRow(std::size_t row, std::uint32_t epoch, Real* out) const override;

 private:
  std::int64_t rowBytes() const { return _width * bytesOf(_precision); }
  const char* onHost(const ExecSpace& space, const TypedMatrix& values);

  std::shared_ptr<const ActivationFile> _file;
  Precision _precision;
  std::int64_t _width;
  Kokkos::View<char*, PinnedSpace> _staging; ///< used only if the device is not the host
};

} // namespace partita
