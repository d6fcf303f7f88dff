#include "partita/comm/leaks.hpp"

#include <mutex>

namespace partita {

namespace {

std::mutex mutex;
MpiObjects objects;

std::string counted(int count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace

MpiObjects mpiObjects() {
  const std::lock_guard<std::mutex> lock(mutex);
  return objects;
}

void countCommunicators(int change) {
  const std::lock_guard<std::mutex> lock(mutex);
  objects.communicators += change;
}

void countLeftRequests(int change, const char* what) {
  const std::lock_guard<std::mutex> lock(mutex);
  objects.requests += change;
  objects.last_request = what;
}

std::string describeLeaks() {
  const MpiObjects now = mpiObjects();
  std::string text;
  if (now.communicators > 0) text = counted(now.communicators, "communicator") + " not freed";
  if (now.requests > 0) {
    text += (text.empty() ? "" : ", ") + counted(now.requests, "request") + " not completed (" +
            now.last_request + ")";
  }
  return text;
}

} // namespace partita
