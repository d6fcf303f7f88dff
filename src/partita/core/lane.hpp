#pragma once

#include "partita/core/background.hpp"
#include "partita/core/stored_vector.hpp"

#include <memory>

namespace partita {

/// Copies beside the work of an execution space: on a GPU a stream of its own, which does not wait for the
/// default one (those of Kokkos do). On a host a thread, where copies may wait for a disk (`from_disk`); else
/// they are done where they are handed in.
class Lane {
 public:
  explicit Lane(bool from_disk);

  void load(const StoredVector& from, std::int64_t begin, const Vector& to);
  void save(const Vector& from, const StoredVector& to, std::int64_t begin);

 private:
  friend class Mark;
  std::shared_ptr<void> _stream; ///< goes behind the instance
  ExecSpace _space;
  BackgroundThread _thread; ///< of a host
};

/// A point in the work of a lane or an execution space that another one waits for: on a GPU without the
/// host waiting, on a host with the calling thread. A mark that was never set holds nobody back.
class Mark {
 public:
  Mark();
  void set(const ExecSpace& space) const; ///< behind all that `space` has got so far
  void set(Lane& lane) const;
  void holdBack(const ExecSpace& space) const; ///< what `space` gets from now on waits for the mark
  void holdBack(Lane& lane) const;

 private:
  struct Point;
  std::shared_ptr<Point> _point;
};

} // namespace partita
