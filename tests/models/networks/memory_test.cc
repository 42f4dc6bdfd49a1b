#include "framework/runtime/session.h"
#include "models/layers/losses.h"
#include "models/networks/resnet.h"
#include "models/towers/replicate_towers.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry::models {
namespace {

// Training ResNet-56 at batch 128 allocates exactly the plan's peak, well below all activations and gradients together.
TEST(Memory, ResNet56AllocatesWhatIsPlanned) {
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  Graph graph(BuiltinOps());
  const auto loss = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, ResNet(tower, batch["image"], {.depth = 56}), batch["label"]);
    return TotalLoss(tower);
  };
  const TrainStep step = ReplicateTowers(Scope(graph), devices, ClassifiedFields({32, 32, 3}), loss,
                                         optim::Momentum({.learning_rate = 0.1}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
  const size_t variables = devices.device(0).counters().bytes_in_use;
  const auto prepared =
      session->Prepare({{step.towers[0].batch["image"], {128, 32, 32, 3}}, {step.towers[0].batch["label"], {128}}},
                       {step.loss}, {step.update});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const MemoryPlan& memory = (*prepared)->plan().memory;
  EXPECT_EQ(devices.device(0).counters().bytes_in_use - variables, memory.arena_bytes[0]);
  EXPECT_LT(static_cast<double>(memory.arena_bytes[0]), 0.6 * static_cast<double>(memory.sum_bytes[0]));
  std::printf("planned peak %.1f MiB, all outputs and workspaces %.1f MiB: %.1f%%\n", memory.arena_bytes[0] / 1048576.0,
              memory.sum_bytes[0] / 1048576.0, 100.0 * memory.arena_bytes[0] / memory.sum_bytes[0]);
}

}  // namespace
}  // namespace belfry::models
