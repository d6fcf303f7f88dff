#pragma once

#include "partita/io/joined_network.hpp"
#include "partita/io/protobuf.hpp"

#include <deque>
#include <set>

namespace partita {

/// A graph of ONNX nodes, most of which take the output of the node before them, the current value. Source:
/// onnx/onnx.proto of ONNX 1.8.
class OnnxGraph {
 public:
  static constexpr std::int64_t float_type = 1, int64_type = 7; ///< TensorProto.DataType

  using Names = std::vector<std::string>;
  using Attributes = std::vector<ProtobufMessage>;

  OnnxGraph();

  static ProtobufMessage real(const std::string& name, float value); ///< an attribute
  static ProtobufMessage integer(const std::string& name, std::int64_t value);
  static ProtobufMessage integers(const std::string& name, const std::vector<std::int64_t>& values);

  /// A node on `inputs`; its output becomes the current value.
  void add(const std::string& type, const std::string& output, const Names& inputs,
           const Attributes& attributes = {});
  /// A node on the current value followed by `others`.
  void then(const std::string& type, const std::string& output, const Names& others = {},
            const Attributes& attributes = {});
  /// The current value as [-1, shape...]: any number of samples, or of their positions.
  void reshape(const std::string& output, std::vector<std::int64_t> shape);

  const std::string& current() const { return _current; }
  void setCurrent(const std::string& name) { _current = name; }

  void tensor(const NamedTensor& tensor); ///< `tensor` must live as long as the graph
  /// Makes a tensor owned by the graph, once per name. Returns the name.
  std::string constant(const std::string& name, const std::vector<std::int64_t>& extents,
                       std::vector<float> values);
  std::string constant(const std::string& name, const std::vector<std::int64_t>& extents,
                       const std::vector<std::int64_t>& values);

  void input(const std::string& name, const std::vector<std::int64_t>& extents); ///< of a sample
  void output(const std::string& name, const std::vector<std::int64_t>& extents);

  const ProtobufMessage& message() const { return _graph; }

 private:
  ProtobufMessage _graph;
  std::string _current;
  std::deque<std::vector<float>> _values; ///< of constants
  std::set<std::string> _constants;
};

} // namespace partita
