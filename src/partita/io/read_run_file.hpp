#pragma once

#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/run_file.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// A file of Partita whose checksums or structure prove that its content is not what was written.
class DamagedFile : public UserError {
 public:
  using UserError::UserError;
};

/// An HDF5 file written by another program.
class ForeignFile : public UserError {
 public:
  using UserError::UserError;
};

class RunFile;

/// The tensors in a run file, for ranks that have opened it and for others that get the values from them.
class StoredTensors {
 public:
  virtual ~StoredTensors() = default;

  const std::string& path() const { return _path; }
  bool isCheckpoint() const { return _checkpoint; }
  /// Kind by kind, each in layer order.
  const std::vector<TensorRecord>& tensors() const { return _tensors; }
  const TensorRecord* find(const std::string& kind, const std::string& layer, const std::string& name) const {
    return findRecord(_tensors, kind, layer, name);
  }

  /// Fills `values` by `read`, which is called only on ranks that have opened the file and must not
  /// communicate; the other ranks get the same values. Collective over the ranks that share them.
  virtual void fill(std::vector<Real>& values, const std::function<void(const RunFile&)>& read) const = 0;

 protected:
  explicit StoredTensors(std::string path) : _path(std::move(path)) {}

  std::string _path;
  bool _checkpoint = false;
  std::vector<TensorRecord> _tensors;
};

/// `parameters.h5` or a checkpoint, opened by this rank alone. Every function throws a one-line
/// UserError that begins with the path: DamagedFile if the system can read the file but it is damaged or
/// incomplete, ForeignFile if another program wrote it, any other UserError if it cannot be read.
class RunFile final : public StoredTensors {
 public:
  explicit RunFile(std::string path);

  RunFacts facts() const;
  RunProgress progress() const; ///< checkpoints only
  void fill(std::vector<Real>&, const std::function<void(const RunFile&)>& read) const override {
    read(*this);
  }

  /// Reads the values of a slice, row-major, converted to `Real` from the type in the file.
  void read(const TensorRecord& tensor, const TensorSlice& slice, Real* values) const;
  void read(const TensorRecord& tensor, Real* values) const { read(tensor, wholeOf(tensor.extents), values); }
  /// Compares values with their checksums, for every `parts`-th data set starting at `part`, so that ranks
  /// can share the work.
  void verify(std::size_t part = 0, std::size_t parts = 1) const;

 private:
  void listTensors();
  Hdf5Dataset open(const std::string& dataset) const;
  std::string readDeck() const;
  RunFacts readFacts() const;
  void checkInput(const RunFacts& facts) const;
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

  Hdf5Silence _silence;
  Hdf5File _file;
};

} // namespace partita
