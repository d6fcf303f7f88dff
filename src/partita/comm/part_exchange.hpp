#pragma once

#include "partita/comm/arrival_times.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/traffic.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/layer_part.hpp"

namespace partita {

/// Which part of an exchange a call performs. Between `depart`, which sends the first message of a
/// ring or all messages of a halo, and `arrive`, this rank may compute but must not begin another
/// exchange. Both calls take the same arguments, except that the result of `depart` may be empty.
enum class Travel { whole, depart, arrive };

/// Values that the parts of a stage gather and add up in the middle of a pass, by ring algorithms with one
/// message per step (Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005). Sums are formed in the same order in
/// every run, and all ranks get the same bits. Every function is collective over the ring.
class PartExchange {
 public:
  /// The ranks of `parts` are in the order of the parts.
  PartExchange(const Communicator& parts, MessagePath path, Traffic& traffic);

  /// values [n] += those of all other parts. `work`: n / parts + 1 values.
  void sum(const ExecSpace& space, const Vector& values, const Vector& work, Travel travel = Travel::whole);
  /// This rank's range or block of what every rank has: all [rows, sum of widths] -> own [rows, own width].
  void slice(const ExecSpace& space, const ExchangePlan& plan, const Matrix& all, const Matrix& own);
  /// Gathers the ranges or blocks of all ranks of the ring: own [rows, own width] -> all [rows, sum of
  /// widths], where a row is an item of the plan. `work`: for two of the widest ranges.
  void gather(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own, const Matrix& all,
              const Vector& work, Travel travel = Travel::whole);
  /// Gathers the values of all parts, of which each has equally many, in place: values [parts, n].
  void gather(const ExecSpace& space, const Vector& values);
  /// Adds up `all` of the ring's ranks, and keeps this rank's range: all [rows, sum of widths] -> own [rows,
  /// own width]. `work`: for two of the widest ranges.
  void reduce(const ExecSpace& space, const ExchangePlan& plan, const Matrix& all, const Matrix& own,
              const Vector& work, Travel travel = Travel::whole);

  /// Adds up a few values, such as sums of statistics.
  void sum(const ExecSpace& space, const Vector& values);
  /// Gets the places that windows need from the parts that have them: own [rows, places x channels] ->
  /// needed, likewise. `work`: for all that is sent and received. This rank's places are in `needed` after
  /// `depart`.
  void haloForward(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own, const Matrix& needed,
                   const Vector& work, Travel travel = Travel::whole);
  /// Returns the gradients of these places; each part adds to those of its own places what
  /// others return, in the order of parts.
  void haloBackward(const ExecSpace& space, const ExchangePlan& plan, const Matrix& needed, const Matrix& own,
                    const Vector& work, Travel travel = Travel::whole);
  /// Lets messages make progress, for ranks that compute between `depart` and `arrive`: MPI moves
  /// large messages only while it is called.
  void letMove();

  const Communicator& ranks() const { return _parts; }

  /// Does what is sent from now on belong to training? Only that is counted.
  void countTraffic(bool counts) { _counts = counts; }

 private:
  /// Consecutive values of a buffer, one range per rank of the ring; the last one is followed by its end.
  using Bounds = std::vector<std::int64_t>;
  struct Ring {
    int next, last, place, count; ///< neighbours, as ranks of the parts
  };
  Ring ringOf(const PartRing& ring) const;
  void gatherChunks(const ExecSpace& space, const char* what, const Ring& ring, Real* values,
                    const Bounds& bounds);
  void addUp(const ExecSpace& space, const char* what, const Vector& values, const Vector& work,
             Travel travel = Travel::whole);
  /// A message to or from another part.
  struct Piece {
    int peer;
    Real* values;
    std::int64_t count;
  };
  struct Messages {
    std::vector<Piece> out, in;
  };
  Messages haloMessages(const ExchangePlan& plan, std::int64_t rows, bool forward, const Vector& work) const;
  /// Copies what is sent to where MPI reads it, and makes room for what is received.
  void stage(const ExecSpace& space, const std::vector<Piece>& out, const std::vector<Piece>& in);
  /// Begins to send and receive messages; empty ones are not sent. `what` names them in reports on waits.
  /// Until `complete`, nothing may change what is sent, nor touch what is received.
  void post(const ExecSpace& space, const char* what, const std::vector<Piece>& out, std::vector<Piece> in);
  void complete(const ExecSpace& space);

  const Communicator& _parts;
  MessagePath _path;
  Traffic& _traffic;
  bool _counts = true;
  PinnedVector _out, _in; ///< where messages are staged; they grow to the largest messages
  std::vector<Request> _requests;
  ArrivalTimes _arrivals;
  std::vector<Piece> _arriving;
  Vector _few; ///< for sums of a few values
};

/// from [rows, from_columns] -> to [rows, to_columns]: the first `columns` of each row.
void copyColumns(const ExecSpace& space, const Real* from, std::int64_t from_columns, Real* to,
                 std::int64_t to_columns, std::int64_t rows, std::int64_t columns);

} // namespace partita
