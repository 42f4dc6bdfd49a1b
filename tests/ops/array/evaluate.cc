#include "tests/ops/array/evaluate.h"

#include "framework/base/status.h"
#include "framework/runtime/eager.h"

namespace belfry {

absl::StatusOr<Tensor> Evaluate(const Output& output) {
  std::vector<Tensor> inputs;
  for (const Output& input : output.node->inputs()) {
    ASSIGN_OR_RETURN(Tensor value, Evaluate(input));
    inputs.push_back(std::move(value));
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, RunOp(output.node->op(), output.node->attrs(), inputs));
  return outputs[output.index];
}

std::vector<double> Values(const Output& output) { return Evaluate(output).value().ToDoubles(); }

}  // namespace belfry
