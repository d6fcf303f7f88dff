#include "partita/comm/leaks.hpp"

namespace partita {

namespace {

std::string counted(int count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace

MpiObjects& mpiObjects() {
  static MpiObjects objects;
  return objects;
}

std::string describeLeaks() {
  const MpiObjects& objects = mpiObjects();
  std::string text;
  if (objects.communicators > 0) text = counted(objects.communicators, "communicator") + " not freed";
  if (objects.requests > 0) {
    text += (text.empty() ? "" : ", ") + counted(objects.requests, "request") + " not completed (" +
            objects.last_request + ")";
  }
  return text;
}

} // namespace partita
