#include "partita/kernels/cublaslt.hpp"

#if defined(PARTITA_HAVE_CUBLASLT)

#include "partita/core/error.hpp"
#include "partita/core/gpu.hpp"
#include "partita/core/provenance.hpp"
#include "partita/kernels/bounded_cache.hpp"

#include <algorithm>
#include <array>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <map>
#include <memory>
#include <mutex>

namespace partita::cublaslt {

namespace {

/// Matrices of the library are stored column by column. Read like this, a row-major matrix is its transpose,
/// and C^T = op(B)^T op(A)^T: the operands change places, and their operations stay.
struct ProductCase {
  TypedMatrix a, b, c;
  Op op_a, op_b;
  bool beta, tf32;
  ProductEpilogue epilogue;

  /// Kernels differ by alignment up to 16 bytes. That of the result is also that of the bias or its gradient.
  static std::int64_t alignmentOf(const TypedMatrix& matrix, const void* vector = nullptr) {
    const auto row = static_cast<std::uintptr_t>(matrix.stride * bytesOf(matrix.precision)),
               bits = reinterpret_cast<std::uintptr_t>(matrix.data) | row |
                      reinterpret_cast<std::uintptr_t>(vector) | std::uintptr_t{16};
    return static_cast<std::int64_t>(bits & (~bits + 1));
  }
  bool sums() const { return epilogue.sums.size > 0; }
  /// The library has one pointer for what it reads and for what it writes.
  const void* vector() const {
    if (sums()) return epilogue.sums.data;
    return c.half() ? epilogue.stored_bias : epilogue.bias;
  }
  std::int64_t alignmentOfResult() const { return alignmentOf(c, vector()); }
  std::int64_t depth() const { return op_a == Op::none ? a.columns : a.rows; }

  /// All that an algorithm depends on.
  std::array<std::int64_t, 16> key() const {
    return {c.rows,
            c.columns,
            depth(),
            a.stride,
            b.stride,
            c.stride,
            alignmentOf(a),
            alignmentOf(b),
            alignmentOfResult(),
            static_cast<std::int64_t>(a.precision),
            static_cast<std::int64_t>(c.precision),
            op_a == Op::none ? 0 : 1,
            op_b == Op::none ? 0 : 1,
            beta ? 1 : 0,
            tf32 ? 1 : 0,
            (sums() ? 4 : 0) + (vector() != nullptr ? 2 : 0) + (epilogue.relu ? 1 : 0)};
  }
  std::string text() const {
    const auto size = [](const TypedMatrix& matrix) {
      return std::to_string(matrix.rows) + "x" + std::to_string(matrix.columns) + " (stride " +
             std::to_string(matrix.stride) + ", " + std::to_string(bytesOf(matrix.precision)) + " bytes)";
    };
    return size(a) + (op_a == Op::none ? "" : "^T") + " times " + size(b) + (op_b == Op::none ? "" : "^T") +
           " to " + size(c);
  }
};

void checkCublas(cublasStatus_t status, const char* call, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    PARTITA_FAIL(std::string(call) + ": " + cublasLtGetStatusString(status) + " for " + what);
}

cudaDataType_t typeOf(Precision precision) {
  if (precision == Precision::bf16) return CUDA_R_16BF;
  if (precision == Precision::fp16) return CUDA_R_16F;
  return sizeof(Real) == sizeof(double) ? CUDA_R_64F : CUDA_R_32F;
}

constexpr std::size_t workspace_bytes = std::size_t{32} << 20; // what NVIDIA recommends for Hopper

/// What the library needs to know of one product, and the algorithm that it computes it with.
struct CompiledProduct {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  bool found = false;

  CompiledProduct(cublasLtHandle_t library, const ProductCase& product) {
    const std::string text = product.text();
    const cudaDataType_t real = typeOf(Precision::single);
    const cublasComputeType_t compute = real == CUDA_R_64F ? CUBLAS_COMPUTE_64F
                                        : product.tf32     ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                           : CUBLAS_COMPUTE_32F;
    checkCublas(cublasLtMatmulDescInit(&operation, compute, real), "cublasLtMatmulDescInit", text);
    setOperation(CUBLASLT_MATMUL_DESC_TRANSA, transposed(product.op_b), text);
    setOperation(CUBLASLT_MATMUL_DESC_TRANSB, transposed(product.op_a), text);
    setOperation(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogueOf(product), text);
    if (product.vector() != nullptr) setOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.vector(), text);
    describe(a, product.b, text);
    describe(b, product.a, text);
    describe(c, product.c, text);
    choose(library, product, text);
  }

  void run(cublasLtHandle_t library, const ProductCase& product, Real alpha, Real old, void* workspace,
           cudaStream_t stream) {
    if (const void* const vector = product.vector(); vector != nullptr)
      checkCase(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector,
                                               sizeof vector),
                "cublasLtMatmulDescSetAttribute", product);
    checkCase(cublasLtMatmul(library, &operation, &alpha, product.b.data, &a, product.a.data, &b, &old,
                             product.c.data, &c, product.c.data, &c, &algorithm, workspace, workspace_bytes,
                             stream),
              "cublasLtMatmul", product);
  }

 private:
  /// Makes no text if all is well: it is called in each step.
  static void checkCase(cublasStatus_t status, const char* call, const ProductCase& product) {
    if (status != CUBLAS_STATUS_SUCCESS) checkCublas(status, call, product.text());
  }
  template <class Value>
  void setOperation(cublasLtMatmulDescAttributes_t attribute, const Value& value, const std::string& text) {
    checkCublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
                "cublasLtMatmulDescSetAttribute", text);
  }
  static std::int32_t transposed(Op op) { return op == Op::none ? CUBLAS_OP_N : CUBLAS_OP_T; }
  /// The library's B is our A: its sums over the depth are those of our columns.
  static std::uint32_t epilogueOf(const ProductCase& product) {
    const bool relu = product.epilogue.relu;
    if (product.sums()) return CUBLASLT_EPILOGUE_BGRADB;
    if (product.vector() == nullptr) return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
    return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  }
  static void describe(cublasLtMatrixLayoutOpaque_t& layout, const TypedMatrix& matrix,
                       const std::string& text) {
    checkCublas(cublasLtMatrixLayoutInit(&layout, typeOf(matrix.precision),
                                         static_cast<std::uint64_t>(matrix.columns),
                                         static_cast<std::uint64_t>(matrix.rows), matrix.stride),
                "cublasLtMatrixLayoutInit", text);
  }

  /// Takes the library's first proposal whose sums have a fixed order: those of parts of the depth are added
  /// up in the workspace, by a kernel of their own.
  void choose(cublasLtHandle_t library, const ProductCase& product, const std::string& text) {
    cublasLtMatmulPreferenceOpaque_t wishes;
    checkCublas(cublasLtMatmulPreferenceInit(&wishes), "cublasLtMatmulPreferenceInit", text);
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      checkCublas(cublasLtMatmulPreferenceSetAttribute(&wishes, attribute, &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute", text);
    };
    const auto aligned = [](const TypedMatrix& matrix) {
      return static_cast<std::uint32_t>(ProductCase::alignmentOf(matrix));
    };
    const auto result = static_cast<std::uint32_t>(product.alignmentOfResult());
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
    wish(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned(product.b));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned(product.a));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
    cublasLtMatmulHeuristicResult_t proposal{};
    int proposals = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library, &operation, &a, &b, &c, &c, &wishes,
                                                                 1, &proposal, &proposals);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
      return; // this epilogue for these types, or this shape
    checkCublas(status, "cublasLtMatmulAlgoGetHeuristic", text);
    found = proposals > 0 && proposal.state == CUBLAS_STATUS_SUCCESS;
    algorithm = proposal.algo;
  }
};

/// The library on this device, the products seen so far, and one workspace per stream, because products on
/// different streams run at the same time.
class Library {
 public:
  Library() { checkCublas(cublasLtCreate(&_handle), "cublasLtCreate", "this device"); }
  ~Library() {
    for (const auto& [stream, memory] : _workspaces) cudaFree(memory);
    cublasLtDestroy(_handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// The one of this process; Kokkos frees it before the device.
  static Library& get() {
    static std::unique_ptr<Library> library;
    if (library == nullptr) {
      library = std::make_unique<Library>();
      Kokkos::push_finalize_hook([] { library.reset(); });
    }
    return *library;
  }

  CompiledProduct& compiled(const ProductCase& product) {
    return *_products.get(product.key(), [&] { return std::make_unique<CompiledProduct>(_handle, product); });
  }
  /// Like the buffers of other libraries, it is no memory of Kokkos.
  void* workspace(cudaStream_t stream) {
    void*& own = _workspaces[stream];
    if (own == nullptr && cudaMalloc(&own, workspace_bytes) != cudaSuccess)
      PARTITA_FAIL("cudaMalloc: no memory for the workspace of cuBLASLt");
    return own;
  }
  cublasLtHandle_t handle() const { return _handle; }

 private:
  cublasLtHandle_t _handle = nullptr;
  BoundedCache<std::array<std::int64_t, 16>, std::unique_ptr<CompiledProduct>> _products{4096};
  std::map<cudaStream_t, void*> _workspaces;
};

bool isEmpty(const TypedMatrix& matrix) {
  return matrix.rows == 0 || matrix.columns == 0;
}

} // namespace

std::string version() {
  return versionText(cublasLtGetVersion());
}

bool multiplies(Precision precision) {
  return precision == Precision::single || sizeof(Real) == sizeof(float);
}

bool product(const ExecSpace& space, Op op_a, Op op_b, Real alpha, const TypedMatrix& a, const TypedMatrix& b,
             Real beta, const TypedMatrix& c, const ProductEpilogue& epilogue, Precision exact_in) {
  if (!multiplies(a.precision) || isEmpty(a) || isEmpty(b)) return false;
  // A vector has the precision of the result.
  if (c.half() && epilogue.bias != nullptr && epilogue.stored_bias == nullptr) return false;
  const bool sums = epilogue.sums.size > 0;
  if (sums && (epilogue.sums.precision != c.precision || !epilogue.empty())) return false;
  const bool tf32 = a.precision == Precision::single && exact_in != Precision::single;
  const ProductCase wanted{a, b, c, op_a, op_b, beta != Real(0), tf32, epilogue};
  static std::mutex mutex; // a compiled product is given its bias, and then started
  const std::lock_guard<std::mutex> lock(mutex);
  Library& library = Library::get();
  CompiledProduct& compiled = library.compiled(wanted);
  if (!compiled.found) return false;
  const cudaStream_t stream = streamOf(space);
  compiled.run(library.handle(), wanted, alpha, beta, library.workspace(stream), stream);
  return true;
}

} // namespace partita::cublaslt

#else

namespace partita::cublaslt {

std::string version() {
  return "";
}

bool multiplies(Precision) {
  return false;
}

bool product(const ExecSpace&, Op, Op, Real, const TypedMatrix&, const TypedMatrix&, Real, const TypedMatrix&,
             const ProductEpilogue&, Precision) {
  return false;
}

} // namespace partita::cublaslt

#endif
