#pragma once

#include "partita/data/hdf5_id.hpp"
#include "partita/io/durable.hpp"
#include "partita/io/run_file.hpp"

#include <memory>

namespace partita {

/// A run file that all ranks of a communicator write together: made with all its data sets, then filled, each
/// rank with what it has, then closed. Every function is collective, and throws UserError on the rank where
/// it failed; then the file is left open, and of no use. Ends the job where HDF5 would keep other ranks
/// waiting.
class ParallelFile {
 public:
  ParallelFile(const Communicator& comm, std::string path, const RunFileContent& content, int compression);

  void writeValues();    ///< of this rank
  void writeChecksums(); ///< of all ranks
  void close();

 private:
  /// A small data set that every rank knows and rank 0 writes.
  struct SmallDataset {
    std::string path;
    hid_t type;
    std::vector<std::int64_t> extents; // none: one value
    const void* data;
    std::size_t bytes;
  };

  Hdf5Id create() const;
  void listSmallDatasets();
  void writeFacts();
  void writeProgress(const RunProgress& progress);
  void createSmall(const SmallDataset& small);
  void createTensor(const TensorRecord& tensor);
  Hdf5Id creationList(const TensorRecord* tensor) const;
  void keepDataset(hid_t id, const std::string& name);
  Hdf5Id group(const std::string& name) const;
  std::uint32_t writeTensor(const Hdf5Id& dataset, const TensorRecord& tensor, const Real* values) const;
  [[noreturn]] void fail(const std::string& message, bool together) const;
  std::string failure(const std::string& what) const { return _path + ": " + what; }

  const Communicator& _comm;
  std::string _path;
  const RunFileContent& _content;
  int _compression;
  Hdf5Id _file, _deck_type;
  std::vector<SmallDataset> _small;
  std::vector<Hdf5Id> _datasets; ///< the small ones, then the tensors
  std::vector<double> _checksums;
  std::unique_ptr<WriteBehind> _behind;
};

} // namespace partita
