#pragma once

#include "partita/data/hdf5_id.hpp"
#include "partita/io/run_file.hpp"

namespace partita {

/// A run file under construction, with all its groups, attributes and data sets; the values of tensors are
/// written into it (write_tensors.hpp, compressed_tensors.hpp), then it is closed. Where something fails, a
/// UserError is thrown; then the file stays open, and is of no use.
///
/// Either all ranks of a communicator have it open together, and every function is collective, or one process
/// has it for itself: HDF5 takes compressed chunks from several ranks only in collective calls.
class NewRunFile {
 public:
  NewRunFile(const Communicator& comm, std::string path, const RunFileContent& content);
  NewRunFile(std::string path, const RunFileContent& content, int compression); ///< 0 to 9: level of deflate

  /// Deck, scaling, scores and their like; one rank does it, and it is not collective.
  void writeSmall();
  hid_t tensor(std::size_t number) const { return _datasets[_small.size() + number].get(); }
  const std::string& path() const { return _path; }
  /// With the checksums of all tensors, one after the other.
  void close(const std::vector<double>& tensors);

 private:
  /// A small data set that every rank knows.
  struct SmallDataset {
    std::string path;
    hid_t type;
    std::vector<std::int64_t> extents; // none: one value
    const void* data;
    std::size_t bytes;
  };

  NewRunFile(const Communicator* comm, std::string path, const RunFileContent& content, int compression);
  Hdf5Id create() const;
  void listSmallDatasets();
  void writeFacts();
  void writeProgress(const RunProgress& progress);
  void createSmall(const SmallDataset& small);
  void createTensor(const TensorRecord& tensor);
  Hdf5Id creationList(const TensorRecord* tensor) const;
  void setChecksums(const std::vector<double>& tensors);
  void keepDataset(hid_t id, const std::string& name);
  Hdf5Id group(const std::string& name) const;
  std::string failure(const std::string& what) const { return _path + ": " + what; }

  const Communicator* _comm; ///< none: this process alone
  std::string _path;
  const RunFileContent& _content;
  int _compression;
  Hdf5Id _file, _deck_type;
  std::vector<SmallDataset> _small;
  std::vector<Hdf5Id> _datasets; ///< the small ones, then the tensors
};

} // namespace partita
