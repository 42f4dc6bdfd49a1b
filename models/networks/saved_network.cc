#include "models/networks/saved_network.h"

#include "framework/base/status.h"

namespace belfry::models {

absl::StatusOr<std::vector<Output>> BuildSavedModel(OpScope scope, const ModelContents& contents,
                                                    const std::vector<NamedOutput>& inputs) {
  ASSIGN_OR_RETURN(const ModelEnds ends, contents.Build(scope, ModelMode::kTrained, inputs));
  std::vector<Output> outputs;
  for (const NamedOutput& output : ends.outputs) outputs.push_back(output.value);
  return outputs;
}

}  // namespace belfry::models
