#include "partita/core/control_group.hpp"

#include "partita/config/text.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <sys/stat.h>
#include <vector>

namespace partita {

namespace {

constexpr double no_bound = std::numeric_limits<double>::infinity();

/// The limit that the files of a group set.
using LimitOf = std::function<double(const std::string& group)>;

/// The first number in a file; infinite if there is none ("max") or it is negative.
double numberIn(const std::string& path) {
  double value = no_bound;
  std::ifstream file(path);
  return file >> value && value >= 0.0 ? value : no_bound;
}

/// A limit, and the folder of the group that sets it.
struct Limit {
  double value = no_bound;
  std::string group;
};

/// Keeps the smaller limit; if they are equal, the new one: callers go upwards, and more processes share a
/// group further up.
void keepLeast(Limit& least, const std::string& group, const LimitOf& limit) {
  const double value = limit(group);
  if (value < no_bound && value <= least.value) least = {value, group};
}

/// The smallest limit on the path from a group to the root of `mount`.
void keepLeastUpFrom(Limit& least, const std::string& mount, std::string group, const LimitOf& limit) {
  for (; group.size() > 1; group.resize(group.rfind('/'))) keepLeast(least, mount + group, limit);
  keepLeast(least, mount, limit);
}

/// Looks at the groups of `controller` if it has a hierarchy of its own (version 1), whose folder may have
/// the names of all its controllers, and at the common ones (version 2). In a container the groups may be
/// those of the host, whose files are not there; then the topmost files are those of the container.
Limit leastLimit(const std::string& root, const std::string& controller, const LimitOf& version1,
                 const LimitOf& version2) {
  const std::string mounts = root + "/sys/fs/cgroup";
  Limit least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // "0::/a/b", or "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    const std::vector<std::string> controllers = split(names, ',');
    if (names.empty()) keepLeastUpFrom(least, mounts, group, version2);
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) continue;
    for (const std::string& name : {names, controller})
      keepLeastUpFrom(least, mounts + "/" + name, group, version1);
  }
  keepLeast(least, mounts + "/" + controller, version1);
  keepLeast(least, mounts, version2);
  return least;
}

} // namespace

double memoryOfGroup(const std::string& root) {
  return leastLimit(
             root, "memory",
             [](const std::string& group) { return numberIn(group + "/memory.limit_in_bytes"); },
             [](const std::string& group) { return numberIn(group + "/memory.max"); })
      .value;
}

CoreQuota coresOfGroup(const std::string& root) {
  const auto version1 = [](const std::string& group) { // a quota of -1: none
    const double quota = numberIn(group + "/cpu.cfs_quota_us"),
                 period = numberIn(group + "/cpu.cfs_period_us");
    return quota < no_bound && period > 0.0 ? quota / period : no_bound;
  };
  const auto version2 = [](const std::string& group) { // "max 100000", or "150000 100000"
    double quota = 0.0, period = 0.0;
    std::ifstream file(group + "/cpu.max");
    return file >> quota >> period && period > 0.0 ? quota / period : no_bound;
  };
  const Limit least = leastLimit(root, "cpu", version1, version2);
  CoreQuota quota;
  quota.cores = least.value;
  struct stat folder {};
  if (least.value < no_bound && stat(least.group.c_str(), &folder) == 0)
    quota.device = folder.st_dev, quota.file = folder.st_ino;
  return quota;
}

} // namespace partita
