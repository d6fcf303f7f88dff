#pragma once

#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/run_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// Errors for a tensor that cannot be written to the file at `path`.
UserError notFinite(const std::string& path, const TensorRecord& tensor);
UserError notWritten(const std::string& path, const TensorRecord& tensor);

/// A run file under construction, with all its groups, attributes and data sets. The values of tensors are
/// written into it (write_run_file.cpp, compressed_tensors.hpp), then it is closed. Every failure throws
/// UserError; the file then stays open and is unusable.
///
/// Either all ranks of a communicator open the file together, and every function is collective, or one
/// process opens it alone: HDF5 accepts compressed chunks from several ranks only in collective calls.
class NewRunFile {
 public:
  NewRunFile(const Communicator& comm, std::string path, const RunFileContent& content);
  NewRunFile(std::string path, const RunFileContent& content, int compression); ///< 0 to 9: level of deflate

  /// Writes deck, scaling, scores and the like. Not collective: one rank calls it.
  void writeSmall();
  hid_t tensor(std::size_t number) const { return _datasets[_small.size() + number].get(); }
  const std::string& path() const { return _path; }
  /// Writes the checksums of all tensors, in order, and closes the file.
  void close(const std::vector<std::uint32_t>& tensors);

 private:
  /// A small data set whose values every rank has.
  struct SmallDataset {
    std::string path;
    hid_t type;
    std::vector<std::int64_t> extents; // empty: one value
    const void* data;
    std::size_t bytes;
  };

  NewRunFile(const Communicator* comm, std::string path, const RunFileContent& content, int compression);
  Hdf5Unclosed create() const;
  void listSmallDatasets();
  void writeFacts();
  void writeProgress(const RunProgress& progress);
  void createSmall(const SmallDataset& small);
  void createTensor(const TensorRecord& tensor);
  Hdf5List creationList(const TensorRecord* tensor) const;
  void setChecksums(const std::vector<std::uint32_t>& tensors);
  void keepDataset(hid_t id, const std::string& name);
  Hdf5Group group(const std::string& name) const;
  std::string failure(const std::string& what) const { return _path + ": " + what; }

  const Communicator* _comm; ///< null: this process alone
  std::string _path;
  const RunFileContent& _content;
  int _compression;
  Hdf5Unclosed _file; ///< closed only by `close`
  Hdf5Type _deck_type;
  std::vector<SmallDataset> _small;
  std::vector<Hdf5Unclosed> _datasets; ///< the small ones, then the tensors
};

} // namespace partita
