#include "partita/kernels/cudnn_frontend.hpp"

#if defined(PARTITA_HAVE_CUDNN_FRONTEND)

#include <cmath>
#define CUDNN_FRONTEND_SKIP_JSON_LIB // it would bring its own copy of the library that we use
#include <cudnn_frontend.h>
#include <unordered_map>
#include <vector>

namespace partita::cudnn {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Names of the tensors of a graph.
enum TensorId : std::int64_t {
  query_id = 1,
  key_id,
  value_id,
  out_id,
  sums_id,
  grad_out_id,
  grad_query_id,
  grad_key_id,
  grad_value_id
};

class FrontendGraph final : public AttentionGraph {
 public:
  explicit FrontendGraph(const AttentionBlock& block)
      : _block(block), _width(block.head_width * block.all_heads) {
    _graph.set_io_data_type(block.bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF);
    _graph.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
    if (block.back)
      describeBackward();
    else
      describeForward();
  }

  bool compile(cudnnHandle_t handle) {
    if (_graph.validate().is_bad() || _graph.build_operation_graph(handle).is_bad() ||
        _graph.create_execution_plans({fe::HeurMode_t::A}).is_bad())
      return false;
    _graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
    return _graph.check_support(handle).is_good() && _graph.build_plans(handle).is_good();
  }

  std::int64_t scratchBytes() const override { return _graph.get_workspace_size(); }

  std::string start(cudnnContext* handle, const AttentionAddresses& at, void* scratch) const override {
    std::unordered_map<std::int64_t, void*> tensors{
        {query_id, at.query}, {key_id, at.key}, {value_id, at.value}, {out_id, at.out}, {sums_id, at.sums}};
    if (_block.back)
      tensors.insert({{grad_out_id, at.grad_out},
                      {grad_query_id, at.grad_query},
                      {grad_key_id, at.grad_key},
                      {grad_value_id, at.grad_value}});
    fe::error_t error = _graph.execute(handle, tensors, scratch);
    return error.is_good() ? "" : error.get_message();
  }

 private:
  void describeForward() {
    auto options = fe::graph::SDPA_attributes().set_name("attend").set_attn_scale(scale());
    options.set_causal_mask(true);
#if CUDNN_FRONTEND_VERSION >= 11300
    options.set_generate_stats(true);
#else
    options.set_is_inference(false);
#endif
    const auto results = _graph.sdpa(operand(query_id, 3 * _width), operand(key_id, 3 * _width),
                                     operand(value_id, 3 * _width), options);
    write(results[0], out_id, _width);
    results[1]->set_output(true).set_uid(sums_id).set_data_type(fe::DataType_t::FLOAT);
    results[1]->set_dim(sumSizes()).set_stride(sumStrides());
  }

  void describeBackward() {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attend_back").set_attn_scale(scale());
    options.set_causal_mask(true).set_deterministic_algorithm(true);
    const Tensor sums = _graph.tensor(fe::graph::Tensor_attributes()
                                          .set_uid(sums_id)
                                          .set_dim(sumSizes())
                                          .set_stride(sumStrides())
                                          .set_data_type(fe::DataType_t::FLOAT));
    const auto results = _graph.sdpa_backward(operand(query_id, 3 * _width), operand(key_id, 3 * _width),
                                              operand(value_id, 3 * _width), operand(out_id, _width),
                                              operand(grad_out_id, _width), sums, options);
    write(results[0], grad_query_id, 3 * _width);
    write(results[1], grad_key_id, 3 * _width);
    write(results[2], grad_value_id, 3 * _width);
  }

  /// {samples, heads, positions, head width}; the rows of a position have `row` values.
  std::vector<std::int64_t> sizes() const {
    return {_block.samples, _block.heads, _block.positions, _block.head_width};
  }
  std::vector<std::int64_t> strides(std::int64_t row) const {
    return {_block.positions * row, _block.head_width, row, 1};
  }
  std::vector<std::int64_t> sumSizes() const {
    return {_block.samples, _block.heads, _block.positions, 1};
  }
  /// Without gaps, as the library wants it: a block with some of the heads has one sample.
  std::vector<std::int64_t> sumStrides() const {
    return {_block.heads * _block.positions, _block.positions, 1, 1};
  }
  float scale() const {
    return 1.0F / std::sqrt(static_cast<float>(_block.head_width));
  }

  Tensor operand(TensorId id, std::int64_t row) {
    return _graph.tensor(
        fe::graph::Tensor_attributes().set_uid(id).set_dim(sizes()).set_stride(strides(row)));
  }
  void write(const Tensor& result, TensorId id, std::int64_t row) const {
    result->set_output(true).set_uid(id).set_dim(sizes()).set_stride(strides(row));
  }

  AttentionBlock _block;
  std::int64_t _width; ///< of all heads
  fe::graph::Graph _graph;
};

} // namespace

std::unique_ptr<AttentionGraph> compileAttention(cudnnContext* handle, const AttentionBlock& block) {
  auto graph = std::make_unique<FrontendGraph>(block);
  if (!graph->compile(handle)) return nullptr;
  return graph;
}

bool hasFrontend() {
  return true;
}

} // namespace partita::cudnn

#else

namespace partita::cudnn {

std::unique_ptr<AttentionGraph> compileAttention(cudnnContext*, const AttentionBlock&) {
  return nullptr;
}

bool hasFrontend() {
  return false;
}

} // namespace partita::cudnn

#endif
