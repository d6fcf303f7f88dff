#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace partita {

/// A file that appears whole or not at all. It is written under a name of its own beside `path`, which
/// `commit` replaces; what is not committed is removed. Where `path` is a link, the file it leads to is
/// replaced. Where it is no regular file (a device, a pipe), that stays what it is, and `commit` writes to
/// it. All functions throw UserError, or SystemError where the disk is full, with the path and what the
/// system says.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(const std::string& bytes) { write(bytes.data(), bytes.size()); }
  /// Replaces bytes that are already written; `write` goes on at the end.
  void replace(std::uint64_t offset, const std::string& bytes);
  std::uint64_t size() const { return _size; }
  void commit();

  /// Removes what is not committed of all objects: for the end of a process that destroys nothing. Safe to
  /// call in a signal handler.
  static void removeUnfinished();

 private:
  void openPartial();
  void openDirect();
  void copyToTarget();
  [[noreturn]] void fail() const;

  std::string _path, _target, _partial; ///< as named, what links lead to, and while it is written
  int _direct = -1;                     ///< of what is no regular file
  std::FILE* _file = nullptr;
  std::uint64_t _size = 0;
};

/// Throws UserError where `output` is one of the files `inputs`, also under another name: writing it would
/// destroy what is being read.
void refuseInput(const std::string& output, const std::vector<std::string>& inputs);

/// Makes the system write a file to the disk while somebody is still writing into it: without that it begins
/// when it is asked to synchronise, and both times add up. Where a system has no such call, nothing happens.
class WriteBehind {
 public:
  explicit WriteBehind(const std::string& path);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  void start() const; ///< for all that has been written so far

 private:
  int _file;
};

/// What has to survive a crash of the machine. Both throw UserError with the path and what the system says.

/// What was written to a file is on the disk when this returns.
void syncFile(const std::string& path);

/// Gives a finished file its name, in one step: there is always the old one or the new one.
void publishFile(const std::string& from, const std::string& to);

} // namespace partita
