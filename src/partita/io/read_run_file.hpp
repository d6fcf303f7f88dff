#pragma once

#include "partita/data/hdf5_id.hpp"
#include "partita/io/run_file.hpp"

namespace partita {

/// `parameters.h5` or a checkpoint, opened by one rank for itself. Every function throws a UserError of one
/// line that begins with the path where the file is damaged, incomplete or something else.
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

  /// All values, row-major; as `Real`, whatever the file has.
  void read(const TensorRecord& tensor, Real* values) const;
  /// Compares values with their checksums: every `parts`-th data set from `part` on, so that ranks can share
  /// the work.
  void verify(std::size_t part = 0, std::size_t parts = 1) const;

 private:
  void listTensors();
  Hdf5Id open(const std::string& dataset) const;
  std::string readDeck() const;
  template <class T>
  std::vector<T> readAll(const std::string& dataset, hid_t type) const;
  void verifyDataset(const std::string& dataset) const;

  std::string _path;
  Hdf5Silence _silence;
  Hdf5Id _file;
  bool _checkpoint = false;
  std::vector<TensorRecord> _tensors;
};

/// The parameters of `stages`, from the layers of those names. Throws UserError where one is missing or of
/// another shape.
void readParameters(const RunFile& file, const std::vector<Stage*>& stages);

/// Values of one kind for every tensor of a stage, into a flat buffer like its parameters. Returns false,
/// with nothing read, where the file has not all of them.
bool readStageTensors(const RunFile& file, const std::string& kind, const Stage& stage, const Vector& values);

/// Throws UserError where the file lacks a parameter of the network or has one of another shape.
void checkParameters(const RunFile& file, const Partition& partition);

} // namespace partita
