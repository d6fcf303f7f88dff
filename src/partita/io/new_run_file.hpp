#pragma once

#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/run_file.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace partita {

/// Errors for a tensor that cannot be written to the file at `path`.
UserError notFinite(const std::string& path, const TensorRecord& tensor);
UserError notWritten(const std::string& path, const TensorRecord& tensor);

/// The file at a path that this process has created, which another program may move, or replace by a file of
/// its own. `path` must outlive it.
class CreatedFile {
 public:
  explicit CreatedFile(const std::string& path) : _path(path) {}
  ~CreatedFile();
  CreatedFile(const CreatedFile&) = delete;
  CreatedFile& operator=(const CreatedFile&) = delete;

  void exists(); ///< call immediately after its creation
  /// Throws SystemError if the path no longer leads to it.
  void requireHere() const;
  /// Removes it if it is still there. Truncates it first, which frees its disk space at once even if it is
  /// open somewhere.
  void remove() const;

 private:
  const std::string& _path;
  int _file = -1;
};

/// A run file under construction, with all its groups, attributes and data sets. The values of tensors are
/// written into it (write_run_file.cpp, compressed_tensors.hpp), then it is closed. A failure throws
/// UserError, after which the file is unusable.
///
/// Either all ranks of a communicator open the file together, and construction and `close` are collective, or
/// one process opens it alone: HDF5 accepts compressed chunks from several ranks only in collective calls. A
/// rank that fails in such calls once the file exists ends the job, since others may wait for it in HDF5
/// forever. After any other failure the file stays open. Rank 0 notes in `created` that the file exists.
class NewRunFile {
 public:
  NewRunFile(const Communicator& comm, std::string path, const RunFileContent& content, CreatedFile& created);
  /// `compression`: 0 to 9, the level of deflate
  NewRunFile(std::string path, const RunFileContent& content, int compression, CreatedFile& created);

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

  NewRunFile(const Communicator* comm, std::string path, const RunFileContent& content, int compression,
             CreatedFile& created);
  Hdf5Unclosed create(CreatedFile& created) const;
  /// Does a part of the work that may be collective; if it fails on this rank of several, ends the job.
  void together(const std::function<void()>& work) const;
  void fill();
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
  Hdf5Type _deck_type;
  Hdf5Unclosed _file; ///< closed only by `close`: HDF5 cannot close a file in which a write has failed
  std::vector<SmallDataset> _small;
  std::vector<Hdf5Unclosed> _datasets; ///< the small ones, then the tensors
};

} // namespace partita
