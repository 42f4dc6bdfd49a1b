#include "tests/trainers/prediction/networks.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/described_gpu.h"
#include "framework/runtime/session.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/networks/cifar_net.h"
#include "models/networks/resnet.h"
#include "models/networks/transformer.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/variable_filter.h"
#include "trainers/loop/planned_step.h"

namespace belfry {
namespace {

using Logits = std::function<Output(const Scope& scope, const models::Batch& batch)>;

models::TowerFunction CrossEntropyOf(Logits logits, bool wide = true) {
  return [logits = std::move(logits), wide](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    const Output made = logits(tower, batch);
    models::AddCrossEntropy(tower, wide ? ops::Cast(tower.Named("logits"), made, DType::kFloat32) : made,
                            batch["label"]);
    return models::TotalLoss(tower);
  };
}

Output Narrow(const Scope& scope, Output images, DType dtype) {
  return dtype == DType::kFloat32 ? images : ops::Cast(scope.Named("narrow"), images, dtype);
}

std::vector<data::Field> Images(int64_t size) {
  return {{"image", DType::kFloat32, {size, size, 3}}, {"label", DType::kInt32, {}}};
}

std::shared_ptr<const optim::Optimizer> Momentum(double weight_decay = 0) {
  return std::make_shared<optim::Momentum>(optim::MomentumOptions{.learning_rate = optim::Cosine(0.1, 1000),
                                                                  .momentum = 0.9,
                                                                  .weight_decay = weight_decay,
                                                                  .decays = optim::IsWeight});
}

Output Convolution(const Scope& scope, absl::string_view name, Output x, int64_t filters, int64_t kernel,
                   int64_t stride, bool relu) {
  const Output y = models::Conv2D(scope, name, x, filters, kernel,
                                  {.stride = stride,
                                   .padding = ops::Padding::Explicit(kernel / 2, kernel / 2, kernel / 2, kernel / 2),
                                   .use_bias = false});
  const Output normal = models::BatchNorm(scope, absl::StrCat(name, "/bn"), y);
  return relu ? models::Activate(scope, normal, models::Activation::kRelu) : normal;
}

Output Bottleneck(const Scope& scope, Output x, int64_t filters, int64_t stride) {
  const Output shortcut = stride == 1 && x.shape()[-1] == 4 * filters
                              ? x
                              : Convolution(scope, "shortcut", x, 4 * filters, 1, stride, /*relu=*/false);
  Output y = Convolution(scope, "conv1", x, filters, 1, 1, /*relu=*/true);
  y = Convolution(scope, "conv2", y, filters, 3, stride, /*relu=*/true);
  y = Convolution(scope, "conv3", y, 4 * filters, 1, 1, /*relu=*/false);
  return models::Activate(scope, ops::Add(scope, y, shortcut), models::Activation::kRelu);
}

Output ResNet50Logits(const Scope& scope, Output images) {
  constexpr int kBlocks[] = {3, 4, 6, 3};
  Output x = Convolution(scope, "conv1", images, 64, 7, 2, /*relu=*/true);
  x = models::MaxPool(scope, "pool1", x, {.window = 3, .stride = 2});
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const Scope at = scope.VariableScope(absl::StrCat("stage", stage + 1, "/block", block + 1));
      x = Bottleneck(at, x, int64_t{64} << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  return models::Dense(scope, "logits", ops::GlobalAvgPool(scope, x), 1000);
}

}  // namespace

Network TutorialNetwork(DType dtype) {
  return {.name = absl::StrCat("tutorial network ", DTypeName(dtype)),
          .fields = Images(24),
          .loss = CrossEntropyOf([dtype](const Scope& scope, const models::Batch& batch) {
            return models::CifarNet(scope, Narrow(scope, batch["image"], dtype));
          }),
          .optimizer = std::make_shared<optim::GradientDescent>(
              optim::GradientDescentOptions{.learning_rate = optim::Cosine(0.1, 1000)})};
}

Network CifarResNet(int depth, DType dtype) {
  return {.name = absl::StrCat("ResNet-", depth, " ", DTypeName(dtype)),
          .fields = Images(32),
          .loss = CrossEntropyOf([=](const Scope& scope, const models::Batch& batch) {
            return models::ResNet(scope, Narrow(scope, batch["image"], dtype), {.depth = depth});
          }),
          .optimizer = Momentum()};
}

Network Gpt(int layers, int64_t vocabulary, DType dtype, bool wide_logits) {
  return {
      .name = absl::StrCat("GPT of ", layers, " layers ", DTypeName(dtype)),
      .fields = {{"tokens", DType::kInt32, {1024}}, {"label", DType::kInt32, {1024}}},
      .loss = CrossEntropyOf(
          [=](const Scope& scope, const models::Batch& batch) {
            return models::Transformer(scope, batch["tokens"],
                                       {.vocabulary = vocabulary, .layers = layers, .dtype = dtype});
          },
          wide_logits),
      .optimizer = std::make_shared<optim::AdamW>(optim::AdamWOptions{
          .learning_rate = optim::WarmUp(optim::Cosine(3e-3, 1000, 3e-4), 100), .beta2 = 0.95, .weight_decay = 0.1}),
      .replicate = {.clip_global_norm = 1}};
}

Network ResNet50(DType dtype) {
  return {.name = absl::StrCat("ResNet-50 ", DTypeName(dtype)),
          .fields = Images(224),
          .loss = CrossEntropyOf([dtype](const Scope& scope, const models::Batch& batch) {
            return ResNet50Logits(scope, Narrow(scope, batch["image"], dtype));
          }),
          .optimizer = Momentum(3e-5)};
}

absl::StatusOr<PlannedNetwork> PlanOf(const Network& network, const DeviceSet& devices, int64_t batch, bool fuse) {
  auto graph = std::make_unique<Graph>(BuiltinOps());
  const models::TrainStep step = models::ReplicateTowers(Scope(*graph), devices, network.fields, network.loss,
                                                         *network.optimizer, network.replicate);
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(*graph, devices, {.fuse = fuse}));
  const trainers::PlannedStep planned = trainers::TrainingStep(step, batch);
  ASSIGN_OR_RETURN(const auto explained, session->Explain(planned.feeds, planned.fetches, planned.targets));
  return PlannedNetwork{std::move(graph), explained.plan};
}

DeviceSet DescribedH100() {
  return OpenDescribedGpus("gpu:1", {.model = "NVIDIA H100 SXM5 80GB", .memory_bytes = size_t{80} << 30}).value();
}

}  // namespace belfry
