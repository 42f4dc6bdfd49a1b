// Plans of training steps of the bundled models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "optim/optimizer.h"

namespace belfry::models {

// A step with all that its plan refers to.
class BundledPlan {
 public:
  virtual ~BundledPlan() = default;
  virtual const Plan& plan() const = 0;
};

struct BundledStep {
  std::string name;     // "ResNet, synchronised"
  std::string devices;  // "cpu:2", or "fake" for two fake GPUs
  std::vector<data::Field> fields;
  TowerFunction model;
  std::shared_ptr<const optim::Optimizer> optimizer;
  ReplicateOptions options = {};
  bool accumulates = false;  // of towers in series: their sums, instead of the update
};

// Small networks of each kind, trained by several optimizers, on one device and in all layouts of towers.
std::vector<BundledStep> BundledSteps();

absl::StatusOr<std::unique_ptr<BundledPlan>> MakePlan(const BundledStep& step);

}  // namespace belfry::models
