#pragma once

#include <string>

namespace partita {

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
