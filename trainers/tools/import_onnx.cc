// Reads ONNX files as saved models.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/utf8.h"
#include "models/onnx/import.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/model_flags.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Reads an ONNX file, which PyTorch and others write, as a saved model.

  import_onnx resnet18.onnx --output=resnet18.safetensors

Inputs and outputs keep their names and shapes; extents that the file leaves open, such as the number of examples, stay
open. Weights become variables of their names, so the model can be trained further (models::BuildSavedModel). An op that
is not covered is an error that names the node.
)";

void Print(const char* what, const std::vector<models::ImportedEnd>& ends) {
  for (const models::ImportedEnd& end : ends) {
    absl::PrintF("%s %s: %s %s\n", what, io::Printable(end.name), DTypeName(end.dtype), end.shape.ToString());
  }
}

absl::StatusOr<int> Run(const std::vector<std::string>& paths, const std::string& output, bool channels_last) {
  if (paths.size() != 1 || paths[0].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("name one ONNX file, not ", paths.size(), "; see --help"));
  }
  RETURN_IF_ERROR(CheckOutputFile("output", output, "the saved model"));
  ASSIGN_OR_RETURN(const models::ImportSummary summary,
                   models::ImportOnnx(paths[0], output, {.channels_last = channels_last}));
  absl::PrintF("Written to %s: %s of opset %d, %s.\n", output, Counted(summary.nodes, "node"), summary.opset,
               Counted(summary.parameters, "parameter"));
  Print("Input", summary.inputs);
  Print("Output", summary.outputs);
  return 0;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  std::vector<std::string> paths;
  std::string output = "model.safetensors";
  bool channels_last = false;
  flags.TakeArguments(paths);
  AddOutput(flags, output);
  flags.Add("channels_last", &channels_last,
            "Gives the model images [N, H, W, C] at its ends instead of ONNX's [N, C, H, W].");
  return RunProgram(argc, argv, kUsage, flags, [&] { return Run(paths, output, channels_last); });
}
