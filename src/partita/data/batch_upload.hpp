#pragma once

#include "partita/core/asynchronous.hpp"

#include <memory>
#include <vector>

namespace partita {

/// Standardises bytes: x becomes (x - shift) scale.
struct ByteMap {
  Real shift = 0, scale = 1;
};

/// Bytes of a batch on the host, row after row, from which a device reads four at a time.
using PinnedBytes = Kokkos::View<std::uint32_t*, Kokkos::LayoutRight, PinnedSpace>;

/// A batch that is made on the host: [rows, width] features, or the bytes that they are made of, and labels.
struct HostBatch {
  PinnedMatrix features;
  PinnedBytes bytes;
  PinnedLabels labels;
};

/// Brings batches to the device, on a stream of its own, while kernels use the previous ones. Bytes
/// become features there, so that only a quarter of the data is transferred.
class BatchUpload {
 public:
  /// Batches of at most `capacity` rows, of `width` features each, and `labels` labels. A batch
  /// stays valid until `held` more have been taken. `map`: how bytes become features; null if
  /// batches are `Real`.
  BatchUpload(std::int64_t capacity, std::int64_t width, std::int64_t labels, std::int64_t held,
              const ByteMap* map);

  /// What kernels on `space` may read from now on.
  struct Uploaded {
    Matrix features;
    Labels labels;
  };
  /// The next batch: `rows` rows, `labels` labels. `from` must stay as it is until `arrived` is reached.
  Uploaded next(const ExecSpace& space, const HostBatch& from, std::int64_t rows, std::int64_t labels,
                const Event& arrived);

 private:
  struct Place {
    Matrix features;
    Labels labels;
    Event free; ///< no kernel reads it any more
  };
  void copyFeatures(const HostBatch& from, const Matrix& to);

  const ByteMap* _map;
  std::int64_t _taken = 0;
  std::vector<Place> _places;          ///< one more than are held: the next batch arrives there
  std::shared_ptr<CopyStream> _stream; ///< one for all uploads of the process
};

} // namespace partita
