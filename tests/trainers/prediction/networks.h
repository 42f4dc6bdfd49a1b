// Training steps whose cost is known: those of the bundled programs with their default settings, and published ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/plan.h"
#include "framework/device/device_set.h"
#include "models/towers/replicate_towers.h"
#include "optim/optimizer.h"

namespace belfry {

struct Network {
  std::string name;
  std::vector<data::Field> fields;
  models::TowerFunction loss;
  std::shared_ptr<const optim::Optimizer> optimizer;
  models::ReplicateOptions replicate = {};
};

Network TutorialNetwork(DType dtype);         // cifar10
Network CifarResNet(int depth, DType dtype);  // cifar10 --model=resnet<depth>
// language_model --model=gpt2 --layers=<layers>; with wide_logits its loss takes float32 logits, as under PyTorch's
// autocast.
Network Gpt(int layers, int64_t vocabulary, DType dtype, bool wide_logits = false);
// ResNet-50 v1.5 for images of 224 x 224: stride 2 in the 3x3 convolution of a block (He et al., 2015, table 1).
Network ResNet50(DType dtype);

struct PlannedNetwork {
  std::unique_ptr<Graph> graph;  // whose nodes the plan names
  std::shared_ptr<const Plan> plan;
};
// The plan of a training step with `batch` examples. `fuse`: SessionOptions::fuse.
absl::StatusOr<PlannedNetwork> PlanOf(const Network& network, const DeviceSet& devices, int64_t batch,
                                      bool fuse = true);

// One H100 that is only described.
DeviceSet DescribedH100();

}  // namespace belfry
