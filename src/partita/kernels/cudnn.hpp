#pragma once

#if defined(PARTITA_HAVE_CUDNN)

#include "partita/core/types.hpp"

#include <cudnn_graph.h>
#include <mutex>
#include <string>
#include <vector>

/// What files of this room need of the graph interface of cuDNN. Descriptors are objects that are given
/// attributes one after another and then finalised; they are described in NVIDIA's "cuDNN graph library".
namespace partita::cudnn {

/// Throws if a call failed, with the name of the call, the reason given by the library, and what
/// was wanted (`what`).
void checkCudnn(cudnnStatus_t status, const char* call, const std::string& what);

/// The library handle of this process, on the stream that was set last or, with `handleOn`, on that
/// of `space`. Hold `mutex` while the handle is used.
cudnnHandle_t library();
cudnnHandle_t handleOn(const ExecSpace& space);
std::mutex& mutex();

/// A descriptor of the library. It must not outlive the handle.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cudnnBackendDescriptor_t raw() const { return _raw; }

  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    setArray(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    setArray(name, CUDNN_TYPE_INT64, values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other._raw);
  }
  void setArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                const void* values);
  /// Up to `count` values, and how many there are.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                   void* values) const;
  void finalise();
  bool tryToFinalise(); ///< false if the library does not support what the attributes ask for

 private:
  cudnnBackendDescriptor_t _raw = nullptr;
};

} // namespace partita::cudnn

#endif
