#include "partita/train/layer_operations.hpp"

#include "partita/config/names.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/window_plan.hpp"

#include <algorithm>
#include <map>

namespace partita {

namespace {

using Kind = Operation::Kind;

const std::map<std::string, Kind>& kindsOfLayers() {
  static const std::map<std::string, Kind> kinds{{"dense", Kind::dense},
                                                 {"activation", Kind::activation},
                                                 {"conv2d", Kind::convolution},
                                                 {"conv3d", Kind::convolution},
                                                 {"max-pool", Kind::max_pool},
                                                 {"average-pool", Kind::average_pool},
                                                 {"global-average-pool", Kind::global_average_pool},
                                                 {"flatten", Kind::reshape},
                                                 {"embedding", Kind::embedding},
                                                 {"layer-norm", Kind::layer_norm},
                                                 {"rms-norm", Kind::rms_norm},
                                                 {"attention", Kind::attention},
                                                 {"batch-norm", Kind::batch_norm}};
  return kinds;
}

/// The windows of a layer with as many axes as its input has.
std::vector<Operation::Setting> settingsOf(const WindowPlan& w, const Shape& in) {
  std::vector<std::int64_t> kernel, stride, dilation, before, after;
  for (std::size_t a = isVolume(in) ? 0 : 1; a < 3; ++a) {
    kernel.push_back(w.kernel[a]);
    stride.push_back(w.stride[a]);
    dilation.push_back(w.dilation[a]);
    before.push_back(w.before[a]);
    const std::int64_t reach = w.dilation[a] * (w.kernel[a] - 1) + 1;
    after.push_back(std::max<std::int64_t>(0, (w.out[a] - 1) * w.stride[a] + reach - w.in[a] - w.before[a]));
  }
  before.insert(before.end(), after.begin(), after.end());
  return {{"kernel_shape", kernel}, {"strides", stride}, {"dilations", dilation}, {"pads", before}};
}

} // namespace

/// A layer's tensors go into the hash in their order as well.
Operation LayerOperations::operationOf(Kind kind, const LayerPlan& layer) {
  Operation operation;
  operation.kind = kind;
  operation.name = layer.name();
  const auto read = [&](const char* tensors, const std::vector<ParameterShape>& shapes) {
    for (const ParameterShape& shape : shapes) {
      const TensorRecord& tensor = *_file.find(tensors, operation.name, shape.name);
      std::vector<Real> values(static_cast<std::size_t>(tensor.size()));
      _file.read(tensor, values.data());
      _hash.update(values.data(), values.size() * sizeof(Real));
      operation.tensors.push_back(
          {operation.name + "/" + shape.name, tensor.extents, {values.begin(), values.end()}});
    }
  };
  read(parameters_kind, layer.parameterShapes());
  read(statistics_kind, layer.statisticsShapes());
  operation.epsilon = kind == Kind::batch_norm ? layer.spec.batch_norm.epsilon : layer.spec.norm.epsilon;
  return operation;
}

void LayerOperations::reshape(const Shape& shape, const std::string& name) {
  if (shape == _shape) return;
  Operation operation;
  operation.kind = Kind::reshape;
  operation.name = name;
  operation.shape = shape;
  _operations.push_back(operation);
  _shape = shape;
}

void LayerOperations::addRows(Operation operation, std::int64_t width) {
  reshape({width}, operation.name + ".rows");
  _operations.push_back(std::move(operation));
}

void LayerOperations::addActivation(const LayerPlan& layer) {
  if (layer.spec.activation == Activation::identity) return;
  Operation operation;
  operation.kind = Kind::activation;
  operation.name = layer.place + "." + nameOf(layer.spec.activation);
  operation.activation = layer.spec.activation;
  operation.slope = layer.spec.slope;
  _operations.push_back(operation);
}

void LayerOperations::addGroup(const LayerPlan& layer) {
  const auto mark = [&](Kind kind, const char* what) {
    Operation operation;
    operation.kind = kind;
    operation.name = layer.name() + "." + what;
    _operations.push_back(operation);
  };
  const bool residual = layer.spec.type == "residual";
  reshape(layer.in, layer.name() + ".input");
  if (residual) mark(Kind::branch, "branch");
  for (const LayerPlan& inside : layer.body) add(inside);
  reshape(layer.out, layer.name() + ".body");
  if (!residual) return;
  if (!layer.shortcut.empty()) {
    mark(Kind::swap, "swap");
    _shape = layer.in;
    for (const LayerPlan& inside : layer.shortcut) add(inside);
    reshape(layer.out, layer.name() + ".shortcut");
  }
  mark(Kind::add, "add");
  addActivation(layer);
}

void LayerOperations::add(const LayerPlan& layer) {
  const std::string& type = layer.spec.type;
  if (type == "dropout") return; // what is learnt by it is in the other layers
  if (layer.group()) return addGroup(layer);
  const auto found = kindsOfLayers().find(type);
  if (found == kindsOfLayers().end()) throw UserError("a layer of type '" + type + "' cannot be exported");
  const Kind kind = found->second;
  if (kind == Kind::reshape) return reshape(layer.out, layer.name());
  if (kind == Kind::dense) {
    addDense(layer);
  } else if (kind != Kind::activation) {
    reshape(layer.in, layer.name() + ".input");
    Operation operation = operationOf(kind, layer);
    addSettings(layer, operation);
    _operations.push_back(std::move(operation));
    _shape = layer.out;
    if (kind == Kind::global_average_pool) // other programs leave places of extent one
      _shape = Shape(layer.in.size(), 1), _shape.front() = layer.out.front();
  }
  addActivation(layer);
}

/// Of a sequence: each position is a row, and stays one until something wants to know of the others.
void LayerOperations::addDense(const LayerPlan& layer) {
  Operation operation = operationOf(Kind::dense, layer);
  if (layer.spec.dense.tied) operation.tied = _table;
  const bool sequence = isSequence(layer.in);
  addRows(std::move(operation), sequence ? layer.in[1] : layer.inputs());
  _shape = {layer.out.back()};
}

void LayerOperations::addSettings(const LayerPlan& layer, Operation& operation) {
  switch (operation.kind) {
  case Kind::convolution:
    operation.settings = settingsOf(convolutionWindows(layer), layer.in);
    operation.settings.push_back({"group", {layer.spec.convolution.groups}});
    return;
  case Kind::max_pool:
  case Kind::average_pool:
    operation.settings = settingsOf(poolingWindows(layer), layer.in);
    return;
  case Kind::embedding:
    _table = operation.tensors.front().name;
    return;
  case Kind::attention:
    operation.shape = layer.in;
    operation.settings.push_back({"heads", {layer.spec.attention.heads}});
    return;
  default:
    return;
  }
}

} // namespace partita
