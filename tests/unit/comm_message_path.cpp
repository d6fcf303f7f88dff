#include "partita/comm/message_path.hpp"

#include <map>

#include "support/catch.hpp"

namespace partita::test::comm_message_path {

namespace {

DeviceAwareness judge(const std::string& library, std::optional<bool> answer,
                      const std::map<std::string, std::string>& environment = {}) {
  return judgeDeviceAwareness(library, answer, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

} // namespace

TEST_CASE("What MPI says of itself decides", "[comm]") {
  CHECK(judge("Open MPI v5.0.3", true).aware);
  CHECK(!judge("Open MPI v4.1.4", false).aware);
  CHECK(judge("Open MPI v4.1.4", false).reason == "Open MPI v4.1.4 does not accept device buffers");
}

TEST_CASE("Variables switch other MPI libraries", "[comm]") {
  CHECK(judge("MPI VERSION    : CRAY MPICH version 8.1.28", {}, {{"MPICH_GPU_SUPPORT_ENABLED", "1"}}).aware);
  CHECK(!judge("MPI VERSION    : CRAY MPICH version 8.1.28", {}, {{"MPICH_GPU_SUPPORT_ENABLED", "0"}}).aware);
  CHECK(judge("MPI VERSION    : CRAY MPICH version 8.1.28", {}).reason ==
        "MPICH_GPU_SUPPORT_ENABLED is not set");
  CHECK(judge("MVAPICH2 Version: 2.3.7", {}, {{"MV2_USE_CUDA", "1"}}).reason == "MV2_USE_CUDA is set");
  CHECK(judge("MVAPICH2 Version: 2.3.7", {}, {{"MV2_USE_ROCM", "1"}}).aware);
  CHECK(judge("Intel(R) MPI Library 2021.11", {}, {{"I_MPI_OFFLOAD", "1"}}).aware);
  CHECK(!judge("Intel(R) MPI Library 2021.11", {}, {{"MPICH_GPU_SUPPORT_ENABLED", "1"}}).aware);
}

TEST_CASE("An MPI library that does not say gets no device buffers", "[comm]") {
  CHECK(!judge("MPICH Version: 4.0.2", {}).aware);
}

TEST_CASE("The deck forces a path; off is staged on every back end", "[comm]") {
  const auto choose = [](Switch device_aware_mpi) {
    RunConfig config;
    config.run.device_aware_mpi = device_aware_mpi;
    return chooseMessagePaths(config);
  };
  const MessagePaths off = choose(Switch::off);
  CHECK(off.messages == MessagePath::staged);
  CHECK(off.reductions == MessagePath::staged);
  CHECK(choose(Switch::on).messages == MessagePath::direct);
  if (device_is_host) CHECK(choose(Switch::automatic).reductions == MessagePath::direct);
}

} // namespace partita::test::comm_message_path
