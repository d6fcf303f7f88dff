#include "partita/core/control_group.hpp"

#include <cmath>
#include <filesystem>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::core_control_group {

namespace {

/// The files of /proc and /sys that name the groups of a process and their limits.
class Machine {
 public:
  explicit Machine(const std::string& groups) { write("proc/self/cgroup", groups); }

  void write(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(_folder.path(name)).parent_path());
    _folder.write(name, content);
  }
  void limit(const std::string& name, const std::string& content) {
    write("sys/fs/cgroup/" + name, content + "\n");
  }
  /// Version 1: microseconds in each 0.1 s.
  void limitTime(const std::string& group, const std::string& microseconds) {
    limit(group + "/cpu.cfs_quota_us", microseconds);
    limit(group + "/cpu.cfs_period_us", "100000");
  }

  double memory() const { return memoryOfGroup(_folder.path()); }
  double cores() const { return quota().cores; }
  CoreQuota quota() const { return coresOfGroup(_folder.path()); }

 private:
  ScratchFolder _folder;
};

} // namespace

TEST_CASE("Without limits there are none", "[core]") {
  Machine bare("");
  CHECK(std::isinf(bare.memory()));
  CHECK(std::isinf(bare.cores()));
  Machine second("0::/a\n");
  second.limit("a/memory.max", "max");
  second.limit("a/cpu.max", "max 100000");
  CHECK(std::isinf(second.memory()));
  CHECK(std::isinf(second.cores()));
  Machine first("4:memory:/a\n1:cpu:/a\n0::/\n");
  first.limitTime("cpu/a", "-1");
  CHECK(std::isinf(first.memory()));
  CHECK(std::isinf(first.cores()));
}

TEST_CASE("The least limit on the way to the topmost group counts", "[core]") {
  Machine second("0::/job/step\n");
  second.limit("job/step/memory.max", "max");
  second.limit("job/memory.max", "4000");
  second.limit("memory.max", "5000");
  second.limit("job/step/cpu.max", "650000 100000");
  second.limit("job/cpu.max", "250000 50000");
  second.limit("other/cpu.max", "100000 100000");
  CHECK(second.memory() == 4000.0);
  CHECK(second.cores() == 5.0);
  Machine first("9:cpu,cpuacct:/job/step\n4:memory:/job\n3:cpuset:/other\n");
  first.limit("memory/job/memory.limit_in_bytes", "3000");
  first.limit("memory/memory.limit_in_bytes", "9223372036854771712");
  first.limitTime("cpu/job", "150000");
  first.limitTime("cpu/other", "100000");
  CHECK(first.memory() == 3000.0);
  CHECK(first.cores() == 1.5);
}

TEST_CASE("Limits are found in a container that sees only the host's names of its groups", "[core]") {
  Machine second("0::/kubepods/pod1/container2\n");
  second.limit("cpu.max", "200000 100000");
  second.limit("memory.max", "7000");
  CHECK(second.cores() == 2.0);
  CHECK(second.memory() == 7000.0);
  Machine first("2:cpu,cpuacct:/docker/1\n1:memory:/docker/1\n");
  first.limitTime("cpu", "300000");
  first.limit("memory/memory.limit_in_bytes", "6000");
  CHECK(first.cores() == 3.0);
  CHECK(first.memory() == 6000.0);
}

TEST_CASE("A folder with the names of all controllers needs no link", "[core]") {
  Machine first("2:cpu,cpuacct:/job\n");
  first.limitTime("cpu,cpuacct/job", "250000");
  CHECK(first.cores() == 2.5);
}

TEST_CASE("The processor time belongs to the topmost group with the least limit", "[core]") {
  Machine machine("0::/job/a\n");
  CHECK_FALSE(machine.quota().limits());
  machine.limit("job/cpu.max", "400000 100000");
  machine.limit("job/a/cpu.max", "max 100000");
  machine.limit("job/b/cpu.max", "400000 100000");
  const CoreQuota of_job = machine.quota();
  REQUIRE(of_job.limits());
  machine.write("proc/self/cgroup", "0::/job/b\n");
  CHECK(machine.quota().isOf(of_job));
  machine.limit("job/b/cpu.max", "300000 100000");
  CHECK_FALSE(machine.quota().isOf(of_job));
}

} // namespace partita::test::core_control_group
