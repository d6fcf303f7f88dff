#include "partita/core/device.hpp"

#include "partita/core/gpu.hpp"

#include <array>
#include <cstdio>
#include <unistd.h>

namespace partita {

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

#if defined(KOKKOS_ENABLE_CUDA)
using GpuProperties = cudaDeviceProp;
#else
using GpuProperties = hipDeviceProp_t;
#endif

namespace {

/// Not the index, which counts what each process may see: CUDA_VISIBLE_DEVICES renumbers.
std::string identityOf(int index, const GpuProperties& properties) {
  std::array<char, 64> text{};
  checkGpu(PARTITA_GPU(DeviceGetPCIBusId)(text.data(), static_cast<int>(text.size()), index));
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
  checkGpu(PARTITA_GPU(GetDevice)(&device.index));
  checkGpu(PARTITA_GPU(GetDeviceCount)(&device.visible));
  GpuProperties properties;
  checkGpu(PARTITA_GPU(GetDeviceProperties)(&properties, device.index));
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
