#include "partita/core/device.hpp"

#include "partita/core/error.hpp"
#include "partita/core/types.hpp"

#include <array>
#include <cstdio>
#include <unistd.h>

namespace partita {

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

#if defined(KOKKOS_ENABLE_CUDA)
#define PARTITA_GPU(name) cuda##name
using GpuProperties = cudaDeviceProp;
#else
#define PARTITA_GPU(name) hip##name
using GpuProperties = hipDeviceProp_t;
#endif

namespace {

void check(PARTITA_GPU(Error_t) status) {
  if (status != PARTITA_GPU(Success)) PARTITA_FAIL(PARTITA_GPU(GetErrorString)(status));
}

/// Not the index, which counts what each process may see: CUDA_VISIBLE_DEVICES renumbers.
std::string identityOf(int index, const GpuProperties& properties) {
  std::array<char, 64> text{};
  check(PARTITA_GPU(DeviceGetPCIBusId)(text.data(), static_cast<int>(text.size()), index));
  std::string identity = text.data();
#if defined(KOKKOS_ENABLE_CUDA) // parts of one device (MIG) have its place on the bus, but their own number
  for (const char byte : properties.uuid.bytes) {
    std::snprintf(text.data(), text.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    identity += text.data();
  }
#else
  (void)properties;
#endif
  return identity;
}

} // namespace

Device ownDevice() {
  Device device;
  check(PARTITA_GPU(GetDevice)(&device.index));
  check(PARTITA_GPU(GetDeviceCount)(&device.visible));
  GpuProperties properties;
  check(PARTITA_GPU(GetDeviceProperties)(&properties, device.index));
  device.name = properties.name;
  device.identity = identityOf(device.index, properties);
  return device;
}

#else

Device ownDevice() {
  Device device;
  device.threads = ExecSpace().concurrency();
  return device;
}

#endif

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

} // namespace partita
