#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace partita {

/// A file that appears whole or not at all. It is written under a temporary name next to `path`,
/// and `commit` renames it; an uncommitted file is removed. If `path` is a link, its target is
/// replaced. If `path` is not a regular file (a device, a pipe), it is kept and `commit` writes to
/// it. The same holds if `path` names an open descriptor of this process, such as /dev/stdout or
/// /dev/fd/3, whatever it leads to. All functions throw UserError, or SystemError if the disk is
/// full, with the path and the system's message.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(const std::string& bytes) { write(bytes.data(), bytes.size()); }
  /// Replaces bytes that are already written; `write` continues at the end.
  void replace(std::uint64_t offset, const std::string& bytes);
  std::uint64_t size() const { return _size; }
  void commit();

  /// Removes the uncommitted files of all objects, for a process that ends without running destructors.
  /// Async-signal-safe.
  static void removeUnfinished();

 private:
  void openPath();
  void openPartial();
  void openDirect();
  void openDescriptor(int number);
  void openScratch();
  void copyToTarget();
  [[noreturn]] void fail() const;

  std::string _path, _target, _partial; ///< as given, with links resolved, and the temporary name
  int _direct = -1;                     ///< descriptor of a path that `commit` writes to
  std::FILE* _file = nullptr;
  std::uint64_t _size = 0;
};

/// Throws UserError if `output` is one of the files `inputs`, even under another name: writing it
/// would destroy what is being read. Also throws if `output` is the name of an input that does not
/// exist yet.
void refuseInput(const std::string& output, const std::vector<std::string>& inputs);

/// Throws UserError if both names lead to the same file, which need not exist yet. An empty name
/// stands for no file.
void refuseSameOutput(const std::string& one, const std::string& other);

/// Would an output of this name replace a file that says something? Neither an empty file nor what is no
/// regular file, such as an open descriptor, loses anything.
bool replacesContent(const std::string& path);

/// Do both names lead to the same file, which need not exist yet?
bool isSameFile(const std::string& one, const std::string& other);

/// The folder of the file to which a name leads, which need not exist yet.
std::string outputFolder(const std::string& path);

/// The folder for files that nobody keeps: TMPDIR, or /tmp if that is unset or empty.
std::string temporaryFolder();

/// A lock that processes hold in turn while each replaces the same file. It is a lock of the folder, because
/// the file itself need not exist and is another one afterwards. Gives up after ten seconds, or if the file
/// system has no locks: without a lock, the worst is that what another process adds has to be computed again.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  /// Takes the lock if it is free. Returns whether another process holds it.
  bool mustWait() const;

  int _folder = -1;
};

/// Makes the system start writing a file to disk while the file is still being filled. Otherwise disk writes
/// begin only at synchronisation, and both times add up. Does nothing on systems without such a call.
class WriteBehind {
 public:
  explicit WriteBehind(const std::string& path);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  void start() const; ///< for everything written so far

 private:
  int _file;
};

/// For files that must survive a crash of the machine; NFS and Lustre may notice a quota only now.

/// Puts all that was written to an open file on disk. If that fails, returns false and sets `errno`.
bool synchronise(int file);

/// The same by name. Throws UserError with the path and the system's message.
void syncFile(const std::string& path);

/// Renames a finished file atomically: there is always the old file or the new one. The new name is
/// on disk, too, if the system can synchronise the folder. Throws UserError with the path and the system's
/// message.
void publishFile(const std::string& from, const std::string& to);

} // namespace partita
