#include "partita/core/provenance.hpp"

#include "partita/config/text.hpp"
#include "partita/core/gpu.hpp"
#include "partita/core/types.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <dlfcn.h>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <unistd.h>

namespace partita {

std::string versionText(std::size_t number) {
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)

#if defined(KOKKOS_ENABLE_CUDA)
using GpuProperties = cudaDeviceProp;
#else
using GpuProperties = hipDeviceProp_t;
#endif

namespace {

std::string addressOf(int index) {
  std::array<char, 64> text{};
  checkGpu(PARTITA_GPU(DeviceGetPCIBusId)(text.data(), static_cast<int>(text.size()), index));
  return text.data();
}

/// The index is not used, since CUDA_VISIBLE_DEVICES renumbers the devices of each process.
std::string identityOf(const std::string& address, const GpuProperties& properties) {
  std::string identity = address;
#if defined(KOKKOS_ENABLE_CUDA) // MIG instances of one device share its bus address, but have their own UUID
  for (const char byte : properties.uuid.bytes)
    identity += formatted("%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
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
  device.address = addressOf(device.index);
  device.identity = identityOf(device.address, properties);
  return device;
}

int useDevice(int local_rank) {
  int visible = 0;
  if (PARTITA_GPU(GetDeviceCount)(&visible) != PARTITA_GPU(Success) || visible == 0) return -1;
  checkGpu(PARTITA_GPU(SetDevice)(local_rank % visible));
  return local_rank % visible;
}

#else

Device ownDevice() {
  Device device;
  device.threads = ExecSpace().concurrency();
  return device;
}

int useDevice(int) {
  return -1;
}

#endif

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

namespace {

/// A function of the BLAS library, or null if it has none of that name: which library is linked is known only
/// at run time.
template <class Function>
Function* lookUp(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// The value after "name :" of the first processor.
std::string processorField(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.compare(0, name.size(), name) == 0 && colon != std::string::npos && colon + 2 < line.size() &&
        line.find_first_not_of(" \t", name.size()) == colon)
      return line.substr(colon + 2);
  }
  return "";
}

bool hasFlag(const std::string& flags, const std::string& flag) {
  return (" " + flags + " ").find(" " + flag + " ") != std::string::npos;
}

bool processorHasAvx512() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
  return false;
#endif
}

std::string openblasAdvice(const std::string& kernel) {
  // OpenBLAS uses AVX2 kernels on processors that are newer than the library.
  static const std::array<const char*, 6> without{"Haswell",     "Zen",     "Excavator",
                                                  "Sandybridge", "Nehalem", "Prescott"};
  const bool slow = std::find(without.begin(), without.end(), kernel) != without.end();
  if (!slow || !processorHasAvx512()) return "";
  return "OpenBLAS uses its " + kernel +
         " kernels, although this processor has AVX-512; set OPENBLAS_CORETYPE=SkylakeX, which may nearly "
         "double the speed";
}

std::string kokkosVersion() {
  return versionText(KOKKOS_VERSION) + " (" + ExecSpace::name() + "), Kokkos Kernels " +
         kokkosKernelsVersion();
}

/// Now in UTC by ISO 8601: "2026-01-31T23:59:59Z".
std::string timeStamp() {
  const std::time_t now = std::time(nullptr);
  std::ostringstream text;
  text << std::put_time(std::gmtime(&now), "%FT%TZ");
  return text.str();
}

} // namespace

std::string processorName() {
  std::string name = processorField("model name");
  if (name.empty()) return "unknown";
  const std::string flags = processorField("flags");
  std::string found;
  for (const char* flag : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"})
    if (hasFlag(flags, flag)) found += std::string(found.empty() ? "" : ", ") + flag;
  return found.empty() ? name : name + " (" + found + ")";
}

bool multipliesBf16Fast(const std::string& vendor, const std::string& flags) {
  const bool half_rate = vendor == "GenuineIntel" && hasFlag(flags, "avx512_fp16");
  return hasFlag(flags, "amx_bf16") || (hasFlag(flags, "avx512_bf16") && !half_rate);
}

bool multipliesBf16Fast() {
  static const bool fast = multipliesBf16Fast(processorField("vendor_id"), processorField("flags"));
  return fast;
}

std::string compilerAdvice() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__)
  if (__builtin_cpu_supports("avx2") != 0)
    return "the program was compiled without AVX2, which this processor has; build Kokkos for the processor "
           "(-DKokkos_ARCH_...=ON), and Partita with this Kokkos";
#endif
  return "";
}

BlasInfo blasInfo() {
  if (auto* config = lookUp<char*()>("openblas_get_config")) {
    const std::string text = config();
    BlasInfo info{text.substr(0, text.find(' ', text.find(' ') + 1)), "", ""};
    if (auto* core = lookUp<char*()>("openblas_get_corename")) info.kernel = core();
    info.advice = openblasAdvice(info.kernel);
    return info;
  }
  if (lookUp<void()>("mkl_get_version_string") != nullptr) return {"MKL", "", ""};
  if (lookUp<void()>("bli_info_get_version_str") != nullptr) return {"BLIS", "", ""};
  return {"unknown", "", ""};
}

Provenance makeProvenance(const std::string& mpi_library, const std::string& hdf5, const std::string& gemm,
                          const std::string& command_line) {
  const BlasInfo blas = blasInfo();
  return {
      {"version", versionString()},
      {"git", gitHash()},
      {"compiler", compilerString()},
      {"build_type", buildType()},
      {"precision", sizeof(Real) == 4 ? "float" : "double"},
      {"kokkos", kokkosVersion()},
      {"blas", blas.library + (blas.kernel.empty() ? "" : ", " + blas.kernel + " kernels")},
      {"gemm", gemm},
      {"mpi", mpi_library},
      {"hdf5", hdf5},
      {"host", hostName()},
      {"processor", processorName()},
      {"threads", std::to_string(ExecSpace().concurrency())},
      {"started", timeStamp()},
      {"command_line", command_line},
  };
}

} // namespace partita
