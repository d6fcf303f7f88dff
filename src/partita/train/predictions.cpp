#include "partita/train/predictions.hpp"

#include "partita/comm/agree.hpp"
#include "partita/data/order.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr std::size_t values_a_piece = std::size_t{1} << 22; // of a message, and of a write
constexpr int predictions_tag = 8;

/// Calls `take(first, count)` for consecutive pieces of 0 .. size - 1.
template <class Take>
void byPieces(std::size_t size, std::size_t piece, const Take& take) {
  for (std::size_t first = 0; first < size; first += piece) take(first, std::min(piece, size - first));
}

void sendTo(const Communicator& comm, int rank, const std::vector<float>& values) {
  byPieces(values.size(), values_a_piece, [&](std::size_t first, std::size_t count) {
    PARTITA_MPI(MPI_Send(values.data() + first, static_cast<int>(count), MPI_FLOAT, rank, predictions_tag,
                         comm.get()));
  });
}

void receiveFrom(const Communicator& comm, int rank, std::size_t size, NpzWriter& file) {
  std::vector<float> piece(std::min(size, values_a_piece));
  byPieces(size, values_a_piece, [&](std::size_t, std::size_t count) {
    PARTITA_MPI(MPI_Recv(piece.data(), static_cast<int>(count), MPI_FLOAT, rank, predictions_tag, comm.get(),
                         MPI_STATUS_IGNORE));
    file.write(piece.data(), count * sizeof(float));
  });
}

} // namespace

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
  const std::size_t width = features.width(), rows_a_piece = std::max<std::size_t>(1, values_a_piece / width);
  std::vector<float> rows(rows_a_piece * width);
  byPieces(features.rows(), rows_a_piece, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      features.copyRow(first + i, {0.0F}, {1.0F}, rows.data() + i * width);
    _file->write(rows.data(), count * width * sizeof(float));
  });
}

void Predictions::write(const Grid& grid, const DataSets& sets, const Dataset& set) {
  const GridPlan& plan = grid.plan();
  const bool last = grid.group() + 1 == plan.groups;
  if (last && grid.world().rank() != 0) sendTo(grid.world(), 0, _logits);
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
      receiveFrom(grid.world(), rank, static_cast<std::size_t>(part.end - part.begin) * values, *_file);
    }
  }
  _file->commit();
}

} // namespace partita
