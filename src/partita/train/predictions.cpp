#include "partita/train/predictions.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/pieces.hpp"
#include "partita/data/order.hpp"

#include <algorithm>

namespace partita {

Predictions::Predictions(const Communicator& world, const std::string& path) : _wanted(!path.empty()) {
  collectively(world, [&] {
    if (_wanted && world.rank() == 0) _file = std::make_unique<NpzWriter>(path);
  });
}

void Predictions::add(const ExecSpace& space, const Matrix& logits) {
  const auto host = Kokkos::create_mirror_view(logits);
  Kokkos::deep_copy(space, host, logits);
  fence(space, "partita::Predictions::add");
  _logits.insert(_logits.end(), host.data(), host.data() + host.size());
}

void Predictions::writeFeatures(const Samples& features) {
  const std::size_t width = features.width();
  const std::size_t rows_a_piece = std::max<std::size_t>(1, piece_bytes / (width * sizeof(float)));
  std::vector<float> rows;
  for (std::size_t first = 0; first < features.rows(); first += rows_a_piece) {
    const std::size_t count = std::min(rows_a_piece, features.rows() - first);
    rows.resize(count * width);
    for (std::size_t i = 0; i < count; ++i)
      features.copyRow(first + i, {0.0F}, {1.0F}, rows.data() + i * width);
    _file->write(rows.data(), rows.size() * sizeof(float));
  }
}

void Predictions::write(const Grid& grid, const DataSets& sets, const Dataset& set) {
  const GridPlan& plan = grid.plan();
  const bool last = grid.group() + 1 == plan.groups;
  if (last && grid.world().rank() != 0)
    sendPieces(grid.world(), Tag::predictions, _logits.data(), _logits.size() * sizeof(float));
  if (_file == nullptr) return;
  const auto samples = static_cast<std::int64_t>(set.size());
  const auto classes = static_cast<std::size_t>(sets.classes), values = classes * set.labels_a_sample;
  _file->begin("features", "<f4", {samples, sets.width()}, set.size() * set.features.width() * sizeof(float));
  writeFeatures(set.features);
  const bool tokens = set.labels_a_sample > 1;
  std::vector<std::int64_t> extents{samples};
  if (tokens) extents.push_back(static_cast<std::int64_t>(set.labels_a_sample));
  _file->begin("labels", "<i4", extents, set.labels.size() * sizeof(std::int32_t));
  _file->write(set.labels.data(), set.labels.size() * sizeof(std::int32_t));
  extents.push_back(sets.classes);
  _file->begin("logits", "<f4", extents, set.labels.size() * classes * sizeof(float));
  for (int replica = 0; replica < plan.replicas; ++replica) {
    const int rank = (replica + 1) * plan.groups - 1; // the replica's last group
    const Slice part = replicaSlice(samples, replica, plan.replicas);
    if (rank == 0) {
      _file->write(_logits.data(), _logits.size() * sizeof(float));
    } else {
      const std::size_t bytes = static_cast<std::size_t>(part.end - part.begin) * values * sizeof(float);
      receivePieces(grid.world(), rank, Tag::predictions, bytes,
                    [&](const char* piece, std::size_t count) { _file->write(piece, count); });
    }
  }
  _file->commit();
}

} // namespace partita
