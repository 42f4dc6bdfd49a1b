#include "models/onnx/import.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/device_set.h"
#include "framework/io/file.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/builtin_ops.h"

namespace belfry::onnx {
namespace {

absl::StatusOr<int64_t> OpsetOf(const ModelProto& model) {
  for (const OperatorSetIdProto& set : model.opset_import()) {
    if (!set.domain().empty() && set.domain() != "ai.onnx") continue;
    if (set.version() > models::kNewestOnnxOpset) {
      spdlog::warn("The model states opset {}, and the rules here end with {}: compare its outputs with others",
                   set.version(), models::kNewestOnnxOpset);
    }
    if (set.version() >= models::kOldestOnnxOpset) return set.version();
    return absl::UnimplementedError(
        absl::StrCat("it states opset ", set.version(), "; those from ", models::kOldestOnnxOpset, " on are read"));
  }
  return absl::InvalidArgumentError("it states no opset");
}

absl::StatusOr<ModelProto> ReadModel(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(path, std::numeric_limits<int32_t>::max()));
  ModelProto model;
  if (!model.ParseFromString(bytes)) return absl::DataLossError("it is no ONNX file, or a damaged one");
  if (!model.has_graph()) return absl::DataLossError("it has no graph, so it is no ONNX file, or a damaged one");
  return model;
}

models::ImportedEnd Described(const std::string& name, const Output& value) {
  return {name, value.dtype(), value.shape()};
}

absl::StatusOr<models::ImportSummary> Import(const std::string& path, const std::string& output,
                                             const models::ImportOptions& options) {
  ASSIGN_OR_RETURN(const ModelProto model, ReadModel(path));
  models::ImportSummary summary;
  ASSIGN_OR_RETURN(summary.opset, OpsetOf(model));
  const TensorReader tensors(std::filesystem::path(path).parent_path().string());
  Graph graph(BuiltinOps());
  Importer importer(Scope(graph), model.graph(), summary.opset, tensors, {.channels_last = options.channels_last});
  RETURN_IF_ERROR(importer.AddAll());
  summary.nodes = importer.nodes();
  std::vector<NamedOutput> inputs, outputs;
  for (const auto& [name, value] : importer.inputs()) {
    inputs.push_back({name, value});
    summary.inputs.push_back(Described(name, value));
  }
  for (const auto& [name, value] : importer.outputs()) {
    outputs.push_back({name, value});
    summary.outputs.push_back(Described(name, value));
  }
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(graph, devices));
  for (const auto& [variable, value] : importer.variables()) {
    summary.parameters += value.elements();
    RETURN_IF_ERROR(session->WriteVariable(variable, value));
  }
  RETURN_IF_ERROR(SaveModel(*session, inputs, outputs, output));
  return summary;
}

}  // namespace
}  // namespace belfry::onnx

namespace belfry::models {

absl::StatusOr<ImportSummary> ImportOnnx(const std::string& path, const std::string& output,
                                         const ImportOptions& options) {
  absl::StatusOr<ImportSummary> summary = onnx::Import(path, output, options);
  if (summary.ok()) return summary;
  return absl::Status(summary.status().code(), absl::StrCat("The import of ", path, ": ", summary.status().message()));
}

}  // namespace belfry::models
