#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/passes/passes.h"
#include "framework/graph/infer.h"

namespace belfry {

absl::Status InferShapes(Program& program) {
  for (ProgramNode& node : program.nodes) {
    if (node.op == &FeedOp()) continue;
    if (node.op->kind == OpKind::kPlaceholder) {
      return absl::InvalidArgumentError(absl::StrCat("You must feed a value for placeholder tensor '", node.name,
                                                     "' with dtype ", DTypeName(node.outputs[0].dtype), " and shape ",
                                                     node.outputs[0].shape.ToString(), ": ", Describe(node)));
    }
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    for (const Value& input : node.inputs) {
      shapes.push_back(program.spec(input).shape);
      dtypes.push_back(program.spec(input).dtype);
    }
    absl::StatusOr<std::vector<TensorSpec>> outputs = InferOutputs(*node.op, node.attrs, shapes, dtypes);
    if (!outputs.ok()) {
      return absl::Status(outputs.status().code(), absl::StrCat(Describe(node), ": ", outputs.status().message()));
    }
    node.outputs = *std::move(outputs);
    for (const TensorSpec& output : node.outputs) {
      if (output.shape.known()) continue;
      return absl::InternalError(
          absl::StrCat(Describe(node), " has unknown extents though its inputs are known: ", output.shape.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
