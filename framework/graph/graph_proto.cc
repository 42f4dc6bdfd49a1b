#include "framework/graph/graph_proto.h"

#include <google/protobuf/arena.h>

#include <variant>

#include "absl/strings/str_cat.h"
#include "framework/io/graph.pb.h"

namespace belfry {
namespace {

constexpr size_t kMaxValueBytes = 64;
constexpr int kProducer = 24;  // the producer version of TensorFlow 1.x

proto::DataType ToProto(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return proto::DT_FLOAT;
    case DType::kFloat64: return proto::DT_DOUBLE;
    case DType::kFloat16: return proto::DT_HALF;
    case DType::kBFloat16: return proto::DT_BFLOAT16;
    case DType::kInt32: return proto::DT_INT32;
    case DType::kInt64: return proto::DT_INT64;
    case DType::kUInt8: return proto::DT_UINT8;
    case DType::kBool: return proto::DT_BOOL;
  }
  return proto::DT_INVALID;
}

void Encode(const Shape& shape, proto::TensorShapeProto* out) {
  for (const int64_t extent : shape.dims()) out->add_dim()->set_size(extent == Shape::kUnknown ? -1 : extent);
}

struct AttrEncoder {
  proto::AttrValue* out;

  void operator()(bool value) const { out->set_b(value); }
  void operator()(int64_t value) const { out->set_i(value); }
  void operator()(double value) const { out->set_f(static_cast<float>(value)); }
  void operator()(const std::string& value) const { out->set_s(value); }
  void operator()(DType value) const { out->set_type(ToProto(value)); }
  void operator()(const Shape& value) const { Encode(value, out->mutable_shape()); }
  void operator()(const Tensor& value) const {
    proto::TensorProto* tensor = out->mutable_tensor();
    tensor->set_dtype(ToProto(value.dtype()));
    Encode(value.shape(), tensor->mutable_tensor_shape());
    if (value.raw() != nullptr && value.bytes() <= kMaxValueBytes) {
      tensor->set_tensor_content(static_cast<const char*>(value.raw()), value.bytes());
    }
  }
  void operator()(const std::vector<int64_t>& value) const {
    out->mutable_list()->mutable_i()->Add(value.begin(), value.end());
  }
};

void Encode(const Node& node, const DeviceNames& devices, proto::NodeDef* out) {
  out->set_name(node.name());
  out->set_op(node.op().name);
  out->set_device(devices != nullptr ? devices(node) : node.requested_device().ToString());
  for (const Output& input : node.inputs()) {
    out->add_input(input.index == 0 ? input.node->name() : input.name());
  }
  for (const Node* control : node.control_inputs()) out->add_input(absl::StrCat("^", control->name()));

  auto& attrs = *out->mutable_attr();
  for (const auto& [name, value] : node.attrs().values()) std::visit(AttrEncoder{&attrs[name]}, value);
  for (const Node* other : node.colocated_with()) {
    attrs["_class"].mutable_list()->add_s(absl::StrCat("loc:@", other->name()));
  }
  if (node.outputs().empty()) return;
  proto::AttrValue::ListValue* shapes = attrs["_output_shapes"].mutable_list();
  for (const TensorSpec& spec : node.outputs()) Encode(spec.shape, shapes->add_shape());
}

}  // namespace

std::string GraphToProto(const Graph& graph, const DeviceNames& devices) {
  // In an arena, which runs no destructors: those of messages that ran out of memory free what was never allocated.
  google::protobuf::Arena arena;
  auto* const graph_def = google::protobuf::Arena::CreateMessage<proto::GraphDef>(&arena);
  for (int id = 0; id < graph.size(); ++id) Encode(graph.node(id), devices, graph_def->add_node());
  graph_def->mutable_versions()->set_producer(kProducer);
  return graph_def->SerializeAsString();
}

}  // namespace belfry
