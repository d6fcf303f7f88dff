#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/io/read_run_file.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace partita {

/// A run file that many ranks use and few open, since the servers of a cluster open files one after another.
/// Rank 0 reads the facts and lists the tensors for all ranks. Of ranks that need the same values, one reads
/// them and sends them to the others.
class SharedRunFile final : public StoredTensors {
 public:
  /// Collective; throws AgreedError with the messages of RunFile.
  SharedRunFile(const Communicator& world, std::string path);

  const RunFacts& facts() const { return _facts; }
  const std::optional<RunProgress>& progress() const { return _progress; } ///< checkpoints only

  /// Opens the file on the first rank of `alike`, or on this rank if that is null, unless the rank `needs`
  /// no values; closes it elsewhere. The ranks of `alike`, which must outlive the object, will ask for the
  /// same values in the same order. To be agreed by all ranks before any of them reads.
  void open(const Communicator* alike, bool needs);
  /// What the reading rank throws is thrown by all of `alike`, as a UserError that other ranks do not know.
  void fill(std::vector<Real>& values, const std::function<void(const RunFile&)>& read) const override;

 private:
  std::vector<char> packed();
  void unpack(std::vector<char> bytes);
  template <class Bytes>
  void carry(Bytes& bytes);
  void openLater(); ///< after rank 0; throws UserError if the file has been replaced

  RunFacts _facts;
  std::optional<RunProgress> _progress;
  std::unique_ptr<const RunFile> _opened; ///< null where this rank does not read
  const Communicator* _alike = nullptr;
};

/// How many ranks verify the file: as many as get enough bytes to be worth the opening. Collective.
int verifiersOf(const Communicator& world, const std::string& path);
/// Verifies the share of this rank, if it has one. Throws like RunFile.
void verifyShare(const Communicator& world, int verifiers, const std::string& path);
/// Both; an error found by one rank is thrown by all. Collective.
void verifyTogether(const Communicator& world, const std::string& path);

} // namespace partita
