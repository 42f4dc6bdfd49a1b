// Computes one output of a graph by running its ops one after the other, without a session.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "framework/base/tensor.h"
#include "framework/graph/graph.h"
#include "framework/runtime/eager.h"

namespace belfry {

class Evaluator {
 public:
  void Feed(Output placeholder, Tensor value) { values_[placeholder.node] = {std::move(value)}; }
  void set_run(uint64_t run) { run_ = run; }

  absl::StatusOr<Tensor> Evaluate(Output output) {
    RETURN_IF_ERROR(Run(*output.node));
    return values_[output.node][output.index];
  }

 private:
  absl::Status Run(const Node& node) {
    if (values_.contains(&node)) return absl::OkStatus();
    std::vector<Tensor> inputs;
    for (const Output& input : node.inputs()) {
      RETURN_IF_ERROR(Run(*input.node));
      inputs.push_back(values_[input.node][input.index].Clone());
    }
    ASSIGN_OR_RETURN(values_[&node], RunOp(node.op(), node.attrs(), inputs, run_));
    return absl::OkStatus();
  }

  absl::flat_hash_map<const Node*, std::vector<Tensor>> values_;
  uint64_t run_ = 0;
};

}  // namespace belfry
