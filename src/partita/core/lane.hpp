#pragma once

#include "partita/core/types.hpp"

#include <memory>

namespace partita {

/// An execution space instance whose work runs beside that of others: on a GPU a stream of its own, which
/// does not wait for the default one (those of Kokkos do); on a host the default instance, whose work is done
/// where it is handed in.
class Lane {
 public:
  Lane();
  const ExecSpace& space() const { return _space; }

 private:
  std::shared_ptr<void> _stream; ///< goes behind the instance
  ExecSpace _space;
};

/// A point in the work of one instance that others wait for, without the host waiting.
class Mark {
 public:
  Mark();
  void set(const ExecSpace& space) const;      ///< behind all that `space` has got so far
  void holdBack(const ExecSpace& space) const; ///< what `space` gets from now on waits for the mark

 private:
  std::shared_ptr<void> _event;
};

} // namespace partita
