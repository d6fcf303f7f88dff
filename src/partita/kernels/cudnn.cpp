#include "partita/kernels/cudnn.hpp"

#if defined(PARTITA_HAVE_CUDNN)

#include "partita/core/error.hpp"
#include "partita/core/gpu.hpp"
#include "partita/kernels/cudnn_attend.hpp"
#include "partita/kernels/cudnn_convolve.hpp"

#include <utility>

namespace partita::cudnn {

void checkCudnn(cudnnStatus_t status, const char* call, const std::string& what) {
  if (status != CUDNN_STATUS_SUCCESS)
    PARTITA_FAIL(std::string(call) + ": " + cudnnGetErrorString(status) + " for " + what);
}

std::mutex& mutex() {
  static std::mutex mutex;
  return mutex;
}

cudnnHandle_t library() {
  static cudnnHandle_t handle = nullptr;
  if (handle == nullptr) {
    checkCudnn(cudnnCreate(&handle), "cudnnCreate", "this device");
    Kokkos::push_finalize_hook([] {
      forgetConvolutions();
      forgetAttention();
      cudnnDestroy(handle);
      handle = nullptr;
    });
  }
  return handle;
}

cudnnHandle_t handleOn(const ExecSpace& space) {
  const cudnnHandle_t handle = library();
  checkCudnn(cudnnSetStream(handle, streamOf(space)), "cudnnSetStream", "an execution space");
  return handle;
}

namespace {
std::string attributeText(cudnnBackendAttributeName_t name) {
  return "attribute " + std::to_string(static_cast<int>(name));
}
} // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  checkCudnn(cudnnBackendCreateDescriptor(type, &_raw), "cudnnBackendCreateDescriptor",
             "type " + std::to_string(static_cast<int>(type)));
}

Descriptor::~Descriptor() {
  if (_raw != nullptr) cudnnBackendDestroyDescriptor(_raw);
}

Descriptor::Descriptor(Descriptor&& other) noexcept : _raw(std::exchange(other._raw, nullptr)) {}

void Descriptor::setArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::size_t count, const void* values) {
  const cudnnStatus_t status =
      cudnnBackendSetAttribute(_raw, name, type, static_cast<std::int64_t>(count), values);
  if (status != CUDNN_STATUS_SUCCESS) checkCudnn(status, "cudnnBackendSetAttribute", attributeText(name));
}

std::int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             std::int64_t count, void* values) const {
  std::int64_t found = 0;
  checkCudnn(cudnnBackendGetAttribute(_raw, name, type, count, &found, values), "cudnnBackendGetAttribute",
             attributeText(name));
  return found;
}

void Descriptor::finalise() {
  checkCudnn(cudnnBackendFinalize(_raw), "cudnnBackendFinalize", "a descriptor");
}

bool Descriptor::tryToFinalise() {
  return cudnnBackendFinalize(_raw) == CUDNN_STATUS_SUCCESS;
}

} // namespace partita::cudnn

#endif
