#pragma once

#if defined(PARTITA_HAVE_ONEDNN) && !defined(PARTITA_DOUBLE)

#include "partita/config/run_config.hpp"
#include "partita/kernels/bounded_cache.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

/// What differs between versions 2 and 3 of oneDNN, and what all primitives share.
namespace partita::onednn {

using Memory = dnnl::memory;
using Type = dnnl::memory::data_type;

/// The engine of the host.
const dnnl::engine& engine();

/// Does the processor have these instructions, and does DNNL_MAX_CPU_ISA permit them?
bool supports(dnnl::cpu_isa wanted);

Type typeOf(Precision precision);

/// Held while primitives are made or run: they share scratch.
std::mutex& mutex();

/// Attributes of a primitive: `Step` gives it scratch.
dnnl::primitive_attr attributes();

/// Multiplies the result by a factor.
void appendFactor(dnnl::post_ops& operations, float factor);

/// Replaces negative results by 0.
void appendRelu(dnnl::post_ops& operations);

/// How windows lie over the places; `dilation` 0: neighbours.
struct Windows {
  Memory::dims stride, dilation, before, after;
};

/// Formats of operands and result of a convolution, or of its gradients in their place.
struct ConvolveFormats {
  Memory::desc in, weight, out;
};

/// `bias`: [channels out], or zero for none. With `relu` negative results become 0.
dnnl::convolution_forward::primitive_desc
describeForward(const ConvolveFormats& formats, const Memory::desc& bias, const Windows& windows, bool relu);
dnnl::convolution_backward_data::primitive_desc
describeInputGradient(const ConvolveFormats& formats, const Windows& windows,
                      const dnnl::convolution_forward::primitive_desc& forward);
dnnl::convolution_backward_weights::primitive_desc
describeWeightGradient(const ConvolveFormats& formats, const Windows& windows,
                       const dnnl::convolution_forward::primitive_desc& forward);

/// A compiled primitive with the formats of its operands; addresses are set at each call.
class Step {
 public:
  using Operand = std::pair<int, Memory::desc>; ///< DNNL_ARG_..., and its format
  using Address = std::pair<int, const void*>;

  Step() = default;
  Step(dnnl::primitive primitive, const Memory::desc& scratch, const std::vector<Operand>& operands);

  /// Returns when the result is there. Allocates nothing.
  void run(std::initializer_list<Address> addresses);

 private:
  void add(int argument, const Memory::desc& format);

  dnnl::primitive _primitive;
  std::vector<Memory> _operands; ///< and the scratch, if there is any, at the end
  std::vector<dnnl_exec_arg_t> _arguments;
  bool _has_scratch = false;
};

/// C = A B, and then `operations`. `bias`: [1, columns of c], or zero for none.
Step productStep(const Memory::desc& a, const Memory::desc& b, const Memory::desc& bias,
                 const Memory::desc& c, const dnnl::post_ops& operations);

/// Entries that were made so far, in all caches.
extern std::int64_t compiled_count;

/// What was compiled; used while mutex() is held.
template <class Key, class Compiled>
class CountedCache {
 public:
  explicit CountedCache(std::size_t most) : _cache(most) {}

  template <class Compile>
  Compiled& get(const Key& key, const Compile& compile) {
    return _cache.get(key, [&] {
      ++compiled_count;
      return compile();
    });
  }

 private:
  BoundedCache<Key, Compiled> _cache;
};

/// Copies from one format to another; with `add`, it adds to what is there.
Step reorderStep(const Memory::desc& from, const Memory::desc& to, bool add = false);
void runReorder(Step& step, const void* from, void* to);

} // namespace partita::onednn

#endif
