#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/half.h"
#include "framework/base/numeric/round_to_odd.h"
#include "models/onnx/graph_builder_impl.h"

namespace belfry::onnx {
namespace {

void SetTensor(const Tensor& value, TensorProto& proto) {
  for (const int64_t extent : value.shape().dims()) proto.add_dims(extent);
  proto.set_data_type(ElementType(value.dtype()));
  if (value.bytes() > 0) proto.set_raw_data(value.raw(), value.bytes());
}

void SetValue(int64_t value, AttributeProto& proto) {
  proto.set_type(AttributeProto::INT);
  proto.set_i(value);
}
void SetValue(double value, AttributeProto& proto) {
  proto.set_type(AttributeProto::FLOAT);
  proto.set_f(static_cast<float>(value));
}
void SetValue(const std::string& value, AttributeProto& proto) {
  proto.set_type(AttributeProto::STRING);
  proto.set_s(value);
}
void SetValue(const std::vector<int64_t>& value, AttributeProto& proto) {
  proto.set_type(AttributeProto::INTS);
  for (const int64_t number : value) proto.add_ints(number);
}
void SetValue(const Tensor& value, AttributeProto& proto) {
  proto.set_type(AttributeProto::TENSOR);
  SetTensor(value, *proto.mutable_t());
}

Tensor NumberOf(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return Tensor::Scalar(static_cast<float>(value));
    case DType::kFloat64: return Tensor::Scalar(value);
    case DType::kFloat16: return Tensor::Scalar(Half(RoundToOdd(value)));
    case DType::kBFloat16: return Tensor::Scalar(BFloat16(RoundToOdd(value)));
    case DType::kInt32: return Tensor::Scalar(static_cast<int32_t>(value));
    case DType::kInt64: return Tensor::Scalar(static_cast<int64_t>(value));
    case DType::kUInt8: return Tensor::Scalar(static_cast<uint8_t>(value));
    case DType::kBool: return Tensor::Scalar(value != 0);
  }
  return Tensor();
}

}  // namespace

TensorProto::DataType ElementType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return TensorProto::FLOAT;
    case DType::kFloat64: return TensorProto::DOUBLE;
    case DType::kFloat16: return TensorProto::FLOAT16;
    case DType::kBFloat16: return TensorProto::BFLOAT16;
    case DType::kInt32: return TensorProto::INT32;
    case DType::kInt64: return TensorProto::INT64;
    case DType::kUInt8: return TensorProto::UINT8;
    case DType::kBool: return TensorProto::BOOL;
  }
  return TensorProto::UNDEFINED;
}

std::string GraphBuilder::Unique(absl::string_view wanted) {
  std::string name(wanted);
  for (int i = 1; !names_.insert(name).second; ++i) name = absl::StrCat(wanted, "_", i);
  return name;
}

std::vector<std::string> GraphBuilder::AddAll(absl::string_view op, const std::vector<std::string>& inputs, int outputs,
                                              const NodeAttributes& attributes) {
  NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  for (int i = 0; i < outputs; ++i) node.add_output(Unique(name_));
  node.set_name(node.output(0));
  for (const auto& [name, value] : attributes) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    std::visit([&](const auto& held) { SetValue(held, attribute); }, value);
  }
  producers_[node.output(0)] = graph_.node_size() - 1;
  return {node.output().begin(), node.output().end()};
}

std::string GraphBuilder::Add(absl::string_view op, const std::vector<std::string>& inputs,
                              const NodeAttributes& attributes) {
  return AddAll(op, inputs, 1, attributes)[0];
}

void GraphBuilder::AddTo(const std::string& output, absl::string_view op, const std::vector<std::string>& inputs) {
  NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  node.set_name(output);
}

NodeProto* GraphBuilder::Producer(absl::string_view output) {
  const auto found = producers_.find(output);
  return found == producers_.end() ? nullptr : graph_.mutable_node(found->second);
}

std::string GraphBuilder::Initializer(absl::string_view wanted, const Tensor& value) {
  TensorProto& tensor = *graph_.add_initializer();
  SetTensor(value, tensor);
  tensor.set_name(Unique(wanted));
  return tensor.name();
}

std::string GraphBuilder::Ints(const std::vector<int64_t>& values) {
  std::string& name = shared_[absl::StrJoin(values, ",")];
  if (name.empty()) {
    name = Initializer("ints", Tensor::Of<int64_t>(absl::MakeConstSpan(values), {static_cast<int64_t>(values.size())}));
  }
  return name;
}

std::string GraphBuilder::Number(double value, DType dtype) {
  const Tensor scalar = NumberOf(value, dtype);
  const std::string bytes(static_cast<const char*>(scalar.raw()), scalar.bytes());
  std::string& name = shared_[absl::StrCat(DTypeName(dtype), " ", bytes)];
  if (name.empty()) name = Initializer("number", scalar);
  return name;
}

GraphProto GraphBuilder::Take(const std::set<std::string>& outputs) {
  std::set<std::string> needed = outputs;
  std::vector<bool> kept(static_cast<size_t>(graph_.node_size()));
  for (int i = graph_.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph_.node(i);
    kept[static_cast<size_t>(i)] = std::any_of(node.output().begin(), node.output().end(),
                                               [&](const std::string& output) { return needed.contains(output); });
    if (kept[static_cast<size_t>(i)]) needed.insert(node.input().begin(), node.input().end());
  }
  GraphProto graph;
  for (int i = 0; i < graph_.node_size(); ++i) {
    if (kept[static_cast<size_t>(i)]) *graph.add_node() = std::move(*graph_.mutable_node(i));
  }
  for (TensorProto& tensor : *graph_.mutable_initializer()) {
    if (needed.contains(tensor.name())) *graph.add_initializer() = std::move(tensor);
  }
  graph_.Clear();
  producers_.clear();
  return graph;
}

}  // namespace belfry::onnx
