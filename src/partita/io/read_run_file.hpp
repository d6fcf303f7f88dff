#pragma once

#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/run_file.hpp"

namespace partita {

/// A file of ours whose content is not what was written, proved by its checksums or its structure.
class DamagedFile : public UserError {
 public:
  using UserError::UserError;
};

/// A file of HDF5 that another program has written.
class ForeignFile : public UserError {
 public:
  using UserError::UserError;
};

/// `parameters.h5` or a checkpoint, opened by one rank for itself. Every function throws a UserError of one
/// line that begins with the path: DamagedFile where the system can read the file and it is damaged or
/// incomplete, ForeignFile where it is another program's, any other where it cannot be read.
class RunFile {
 public:
  explicit RunFile(std::string path);

  const std::string& path() const { return _path; }
  bool isCheckpoint() const { return _checkpoint; }
  RunFacts facts() const;
  RunProgress progress() const; ///< of a checkpoint

  /// In layer order, kind by kind.
  const std::vector<TensorRecord>& tensors() const { return _tensors; }
  const TensorRecord* find(const std::string& kind, const std::string& layer, const std::string& name) const;

  /// The values of a slice, row-major; as `Real`, whatever the file has.
  void read(const TensorRecord& tensor, const TensorSlice& slice, Real* values) const;
  void read(const TensorRecord& tensor, Real* values) const { read(tensor, wholeOf(tensor.extents), values); }
  /// Compares values with their checksums: every `parts`-th data set from `part` on, so that ranks can share
  /// the work.
  void verify(std::size_t part = 0, std::size_t parts = 1) const;

 private:
  void listTensors();
  Hdf5Dataset open(const std::string& dataset) const;
  std::string readDeck() const;
  RunFacts readFacts() const;
  RunProgress readProgress() const;
  void refuseMissingFilter(hid_t dataset) const;
  template <class T>
  std::vector<T> readAll(const std::string& dataset, hid_t type) const;
  template <class Row>
  std::vector<Row> readRows(const std::string& dataset) const;
  void verifyDataset(const std::string& dataset) const;
  void loadStructure();
  template <class Work>
  auto orDamaged(const Work& work) const;

  std::string _path;
  Hdf5Silence _silence;
  Hdf5File _file;
  bool _checkpoint = false;
  std::vector<TensorRecord> _tensors;
};

} // namespace partita
