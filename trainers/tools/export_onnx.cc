// Writes saved models as ONNX files.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/device/device_set.h"
#include "models/onnx/export.h"
#include "ops/builtin_ops.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/model_flags.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Writes a saved model as an ONNX file, which the runtimes of others read.

  cifar10 --steps=1000 --export=cifar.safetensors
  export_onnx cifar.safetensors --output=cifar.onnx

Inputs and outputs keep their names and their order of axes, images [N, H, W, C]; extents that the model leaves open,
such as the number of examples, stay open. An op that ONNX has no counterpart of is an error that names it.
)";

absl::StatusOr<int> Run(const std::vector<std::string>& paths, const std::string& output) {
  if (paths.size() != 1 || paths[0].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("name one saved model, which a run with --export=FILE writes, not ",
                                                   paths.size(), "; see --help"));
  }
  RETURN_IF_ERROR(CheckOutputFile("output", output, "the ONNX file"));
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1"));
  ASSIGN_OR_RETURN(const SavedModel model, SavedModel::Open(paths[0], BuiltinOps(), devices));
  ASSIGN_OR_RETURN(const models::OnnxSummary summary, models::ExportOnnx(model, output));
  absl::PrintF("Written to %s: %s, %.1f MiB, opset %d.\n", output, Counted(summary.nodes, "node"),
               static_cast<double>(summary.bytes) / kMebi, models::kOnnxOpset);
  return 0;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  std::vector<std::string> paths;
  std::string output = "model.onnx";
  flags.TakeArguments(paths);
  AddOutput(flags, output);
  return RunProgram(argc, argv, kUsage, flags, [&] { return Run(paths, output); });
}
