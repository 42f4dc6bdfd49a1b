// Builds each tower's own part of the graph: its inputs, its model and its gradients. Internal to models.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/data/field.h"
#include "framework/device/device_set.h"
#include "framework/graph/scope.h"
#include "models/towers/averaging.h"
#include "models/towers/replicate_towers.h"
#include "optim/apply.h"
#include "optim/loss_scale.h"

namespace belfry::models {

inline constexpr char kParameterDevice[] = "/cpu:0";  // of VariableUpdate::kParameterDevice

// Adds the inputs of this process's towers, each in its name scope and on its device, and exchanges the numbers of
// their examples with other processes. `towers`: the number of towers of all processes; with towers in series, of
// devices. After an error, which sticks to the graph, some may be missing.
std::vector<BuiltTower> AddInputs(const Scope& root, const DeviceSet& devices, absl::Span<const data::Field> fields,
                                  const ReplicateOptions& options, int towers);

struct ModelOptions {
  const TowerFunction& model;
  const ReplicateOptions& replicate;
  const optim::LossScale* loss_scale;  // null: no loss is scaled
  optim::SparseGradients sparse;
  bool dense_rows;  // sparse gradients are averaged in their dense form
};
// Builds the model of towers[i] and differentiates its loss. Errors stick to the graph.
void AddModel(const ModelOptions& options, absl::Span<BuiltTower> towers, size_t i);

}  // namespace belfry::models
