// The prediction of steps that others have measured and published.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/main/testing.h"
#include "tests/trainers/prediction/networks.h"
#include "trainers/prediction/fused_step.h"

namespace belfry {
namespace {

struct PublishedStep {
  std::string what;
  Network network;
  std::string card;
  int64_t batch;   // of one card
  double seconds;  // of a step
  FusionRules rules;
  double error = 0.15;  // of the prediction, at most
};

// ResNet-50 v1.5, images/s of one card: tables "Training performance" of
// github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5 (21.03; ops run one
// by one), github.com/NVIDIA/DeepLearningExamples/tree/master/MxNet/Classification/RN50v1.5 (20.12; batch norm is fused
// with what follows; the rate includes the loading of images) and
// github.com/NVIDIA/DeepLearningExamples/tree/master/TensorFlow/Classification/ConvNets/resnet50v1.5 (20.06, with XLA).
//
// GPT-2 of 124M: github.com/karpathy/build-nanogpt, with its video of 2024-06, takes 93 ms on an A100 80GB for 16
// windows, compiled, with 50,304 tokens. llm.c takes 90 minutes for 10^10 tokens on 8 A100 80GB
// (github.com/karpathy/llm.c, discussion 481), and 45 on 8 H100 (github.com/KellerJordan/modded-nanogpt): averages and
// evaluations are part of these.
std::vector<PublishedStep> PublishedSteps() {
  const Network narrow = ResNet50(DType::kFloat16), wide = ResNet50(DType::kFloat32);
  const Network gpt = Gpt(12, 50'304, DType::kBFloat16, /*wide_logits=*/true);
  constexpr double kTokens = 1024;
  return {
      {"ResNet-50, PyTorch, A100, AMP", narrow, "a100", 256, 256 / 2470.0, kNoFusion},
      {"ResNet-50, PyTorch, A100, TF32", wide, "a100", 256, 256 / 938.0, kNoFusion},
      {"ResNet-50, MXNet, A100, AMP", narrow, "a100", 256, 256 / 2180.0, kTorchCompile, 0.25},
      {"ResNet-50, MXNet, A100, TF32", wide, "a100", 256, 256 / 1022.0, kTorchCompile},
      {"ResNet-50, XLA, A100 40GB, AMP", narrow, "a100_40gb", 256, 256 / 2375.0, kTorchCompile},
      {"ResNet-50, XLA, A100 40GB, TF32", wide, "a100_40gb", 256, 256 / 909.0, kTorchCompile},
      {"ResNet-50, PyTorch, V100, AMP", narrow, "v100", 256, 256 / 1200.0, kNoFusion},
      {"ResNet-50, PyTorch, V100, float32", wide, "v100", 128, 128 / 367.0, kNoFusion},
      {"ResNet-50, MXNet, V100, AMP", narrow, "v100", 192, 192 / 1376.0, kTorchCompile},
      {"ResNet-50, MXNet, V100, float32", wide, "v100", 96, 96 / 384.0, kTorchCompile},
      {"ResNet-50, XLA, V100, AMP", narrow, "v100", 256, 256 / 1270.0, kTorchCompile},
      {"ResNet-50, XLA, V100, float32", wide, "v100", 128, 128 / 412.0, kTorchCompile},
      {"GPT-2, torch.compile, A100", gpt, "a100", 16, 0.093, kTorchCompile},
      {"GPT-2, llm.c, 8 A100", gpt, "a100", 32, 32 * kTokens * 8 * 5400 / 1e10, kTorchCompile},
      {"GPT-2, llm.c, 8 H100", gpt, "h100", 64, 64 * kTokens * 8 * 2700 / 1e10, kTorchCompile},
  };
}

TEST(PublishedSteps, ArePredicted) {
  const DeviceSet devices = DescribedH100();
  int close = 0;
  for (const PublishedStep& step : PublishedSteps()) {
    ASSERT_OK_AND_ASSIGN(const auto planned, PlanOf(step.network, devices, step.batch, /*fuse=*/false));
    ASSERT_OK_AND_ASSIGN(const auto card, GpuCard::Find(step.card));
    const StepDemand sum = SumOf(FuseStep(*planned.plan, /*device=*/1, step.rules), card);
    const double error = sum.seconds / step.seconds - 1;
    std::printf("%-34s published %6.1f ms, predicted %6.1f, %+4.0f %%\n", step.what.c_str(), step.seconds * 1e3,
                sum.seconds * 1e3, 100 * error);
    EXPECT_LE(std::abs(error), step.error) << step.what;
    close += std::abs(error) <= 0.15 ? 1 : 0;
  }
  EXPECT_GE(close, 14);
}

// 4.09e9 multiply-adds forward at 224 x 224 (torchvision's documentation of resnet50, whose v1.5 this is), thrice that
// with the gradients but for the images'.
TEST(PublishedSteps, ResNet50HasItsOperations) {
  ASSERT_OK_AND_ASSIGN(const auto planned, PlanOf(ResNet50(DType::kFloat32), DescribedH100(), 1, /*fuse=*/false));
  double flops = 0;
  for (const ProgramNode& node : planned.plan->program.nodes) {
    const Demand demand = DemandOf(planned.plan->program, node);
    if (demand.m > 0) flops += demand.flops;
  }
  const double first = 2.0 * 112 * 112 * 64 * 7 * 7 * 3;  // conv1, without the gradient of its images
  EXPECT_NEAR(flops, 3 * 2 * 4.09e9 - first, 0.01 * flops);
}

}  // namespace
}  // namespace belfry
