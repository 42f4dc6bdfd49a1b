// A saved model as a network of a training step: what was trained elsewhere, or imported from ONNX, is trained further.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "framework/runtime/saved_model/model_contents.h"

namespace belfry::models {

// Adds the model in the scope, most often a tower's, with `inputs` in the place of its inputs of these names, and
// returns its outputs in the order of the file. Its variables stand below the scope's variable path, with their
// names in the file, and begin with the file's values: checkpoints, weight decay and ReplicateOptions::frozen treat
// them as any layer's. The model stays as it was saved for evaluation: a batch norm normalises with its averages, which
// do not change, and there is no dropout.
//
//   ASSIGN_OR_RETURN(const ModelContents contents, ModelContents::Open("resnet18.safetensors"));
//   ReplicateTowers(scope, devices, input, [&](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
//     ASSIGN_OR_RETURN(auto outputs, BuildSavedModel(tower, contents, {{"image", batch["image"]}}));
//     AddCrossEntropy(tower, outputs[0], batch["label"]);
//     return TotalLoss(tower);
//   }, ...)
//
// Errors: as for ModelContents::Build. As thread-safe as the graph.
absl::StatusOr<std::vector<Output>> BuildSavedModel(OpScope scope, const ModelContents& contents,
                                                    const std::vector<NamedOutput>& inputs);

}  // namespace belfry::models
