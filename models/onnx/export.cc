#include "models/onnx/export.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/base/version.h"
#include "framework/io/file.h"
#include "models/onnx/exporter_impl.h"
#include "models/onnx/message_size_impl.h"
#include "models/onnx/open_extents_impl.h"

namespace belfry::onnx {

absl::Status CheckMessageSize(uint64_t bytes) {
  if (bytes <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("The model has ", bytes / static_cast<uint64_t>(kMebi),
                                               " MiB, but an ONNX file, which is one protobuf message, at most 2047"));
}

namespace {

constexpr int64_t kIrVersion = 8;  // the version of the file format that came with the opset

// Flags by node, true if its outputs are the same in every run. Inputs have smaller ids than their readers.
std::vector<bool> FindConstants(const Graph& graph) {
  std::vector<bool> constant(static_cast<size_t>(graph.size()));
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    bool all = node.op().kind != OpKind::kPlaceholder && !node.op().stateful;
    for (const Output& input : node.inputs()) all = all && constant[static_cast<size_t>(input.node->id())];
    constant[static_cast<size_t>(id)] = all;
  }
  return constant;
}

// The constants that are read by nodes which are none, or are outputs. The session computes those that are not given.
absl::StatusOr<Constants> ComputeConstants(const SavedModel& model, const std::vector<bool>& constant) {
  const Graph& graph = model.session().graph();
  HashSet<Output> needed;
  const auto need = [&](const Output& output) {
    if (constant[static_cast<size_t>(output.node->id())]) needed.insert(output);
  };
  for (int id = 0; id < graph.size(); ++id) {
    if (constant[static_cast<size_t>(id)]) continue;
    for (const Output& input : graph.node(id).inputs()) need(input);
  }
  for (const NamedOutput& output : model.outputs()) need(output.value);
  Constants constants;
  std::vector<Output> computed;
  uint64_t bytes = 0;
  for (const Output& output : needed) {
    if (output.node->op().kind != OpKind::kConst) {
      computed.push_back(output);
      continue;
    }
    constants[output] = output.node->attrs().Get<Tensor>("value");
    bytes += constants[output].bytes();
  }
  RETURN_IF_ERROR(CheckMessageSize(bytes));
  if (computed.empty()) return constants;
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, model.session().Run(computed));
  for (size_t i = 0; i < computed.size(); ++i) constants[computed[i]] = values[i];
  return constants;
}

absl::Status CheckNames(const SavedModel& model) {
  for (const NamedOutput& input : model.inputs()) {
    for (const NamedOutput& output : model.outputs()) {
      if (input.name != output.name) continue;
      return absl::InvalidArgumentError(absl::StrCat("The model has an input and an output of the name '", input.name,
                                                     "', which ONNX does not allow"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelProto> ToOnnx(const SavedModel& model) {
  RETURN_IF_ERROR(CheckNames(model));
  const Graph& graph = model.session().graph();
  const std::vector<bool> constant = FindConstants(graph);
  ASSIGN_OR_RETURN(const Constants constants, ComputeConstants(model, constant));
  const OpenExtents extents(model);
  Exporter exporter(model, extents, constants);
  for (int id = 0; id < graph.size(); ++id) {
    if (constant[static_cast<size_t>(id)] || graph.node(id).op().kind == OpKind::kPlaceholder) continue;
    RETURN_IF_ERROR(exporter.Write(graph.node(id)));
  }
  ModelProto proto;
  ASSIGN_OR_RETURN(*proto.mutable_graph(), exporter.Finish());
  proto.mutable_graph()->set_name("belfry");
  proto.set_ir_version(kIrVersion);
  proto.set_producer_name("Belfry");
  proto.set_producer_version(kBuild);
  proto.add_opset_import()->set_version(models::kOnnxOpset);
  return proto;
}

}  // namespace
}  // namespace belfry::onnx

namespace belfry::models {

absl::StatusOr<OnnxSummary> ExportOnnx(const SavedModel& model, const std::string& path) {
  ASSIGN_OR_RETURN(const onnx::ModelProto proto, onnx::ToOnnx(model));
  RETURN_IF_ERROR(onnx::CheckMessageSize(proto.ByteSizeLong()));
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) return absl::InternalError("protobuf cannot write the model");
  RETURN_IF_ERROR(io::WriteFile(path, bytes));
  return OnnxSummary{.nodes = proto.graph().node_size(), .bytes = static_cast<int64_t>(bytes.size())};
}

}  // namespace belfry::models
