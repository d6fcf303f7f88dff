#pragma once

#include "partita/data/batch_reader.hpp"

#include <string>

namespace partita {

/// The outputs of a finished stage for every training sample, in a file that disappears with the process:
/// they are sent once and never all in memory. Rows are written in any order and read by the prefetch thread.
class ActivationCache : public RowSource {
 public:
  /// Creates an unnamed file in `folder`. Throws UserError, naming the folder, if it cannot be created; `put`
  /// throws RunError if the disk is full.
  ActivationCache(std::string folder, std::int64_t width);
  ~ActivationCache() override;
  ActivationCache(const ActivationCache&) = delete;
  ActivationCache& operator=(const ActivationCache&) = delete;

  /// Stores `values` [rows.size(), width] as the rows of the samples `rows`.
  void put(const ExecSpace& space, const Matrix& values, const std::vector<std::uint32_t>& rows);

  std::int64_t width() const override { return _width; }
  void copyRow(std::size_t row, std::uint32_t epoch, Real* out) const override;

 private:
  std::string failure(const std::string& what) const;
  const Real* onHost(const ExecSpace& space, const Matrix& values);

  std::string _folder;
  std::int64_t _width;
  int _file = -1;
  PinnedMatrix _staging; ///< used only if the device is not the host
};

} // namespace partita
