#include "tests/framework/compiler/model_kernels.h"

#include <functional>
#include <memory>
#include <set>

#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/runtime/session.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/networks/autoencoder.h"
#include "models/networks/cifar_net.h"
#include "models/networks/mlp.h"
#include "models/networks/resnet.h"
#include "models/networks/transformer.h"
#include "models/networks/wide_deep.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"

namespace belfry {
namespace {

constexpr int64_t kExamples = 64;  // a tower
// The sources that fake GPUs were asked to compile.
class Sources {
 public:
  KernelCompiler Recorder() {
    return [this](const std::string& source) -> absl::StatusOr<std::shared_ptr<const CompiledKernel>> {
      const MutexLock lock(mutex_);
      sources_.insert(source);
      return std::make_shared<const NoKernel>();
    };
  }
  std::vector<std::string> Get() const {
    const MutexLock lock(mutex_);
    return {sources_.begin(), sources_.end()};
  }

 private:
  mutable Mutex mutex_;
  std::set<std::string> sources_ ABSL_GUARDED_BY(mutex_);
};

struct Model {
  std::vector<data::Field> fields;
  models::TowerFunction build;
};

std::vector<data::Field> Pixels(int64_t size) {
  return {{"image", DType::kFloat32, {size, size, 3}}, {"label", DType::kInt32, {}}};
}

Model Classifier(DType dtype, int64_t size, std::function<Output(const Scope&, Output)> logits) {
  return {Pixels(size), [dtype, logits = std::move(logits)](const Scope& tower, const models::Batch& batch) {
            const Output image = ops::Cast(tower, batch["image"], dtype);
            models::AddCrossEntropy(tower, logits(tower, image), batch["label"]);
            return models::TotalLoss(tower);
          }};
}

Model Gpt(DType dtype, int64_t width = 128) {
  return {{{"tokens", DType::kInt32, {32}}, {"next", DType::kInt32, {32}}},
          [dtype, width](const Scope& tower, const models::Batch& batch) {
            const Output logits = models::Transformer(tower, batch["tokens"],
                                                      {.vocabulary = 1000,
                                                       .length = 32,
                                                       .layers = 2,
                                                       .heads = 4,
                                                       .width = width,
                                                       .dropout = 0.1,
                                                       .dtype = dtype});
            models::AddCrossEntropy(tower, ops::Reshape(tower, logits, {-1, 1000}),
                                    ops::Reshape(tower, batch["next"], {-1}));
            return models::TotalLoss(tower);
          }};
}

Model Table() {
  return {{{"numbers", DType::kFloat32, {13}}, {"kind", DType::kInt32, {}}, {"label", DType::kInt32, {}}},
          [](const Scope& tower, const models::Batch& batch) {
            const Output logits =
                models::WideDeep(tower, {.numbers = batch["numbers"], .categories = {{"kind", batch["kind"], 50}}},
                                 {.outputs = 3, .hidden = {64, 32}, .dropout = 0.1});
            models::AddCrossEntropy(tower, logits, batch["label"]);
            return models::TotalLoss(tower);
          }};
}

Model Autoencoder(DType dtype) {
  return {{{"x", DType::kFloat32, {784}}}, [dtype](const Scope& tower, const models::Batch& batch) {
            return models::AddVaeLoss(tower, ops::Cast(tower, batch["x"], dtype));
          }};
}

// Makes the plan of a training step.
absl::Status MakePlan(Sources& sources, const Model& model, int towers, const optim::Optimizer& optimizer,
                      const models::ReplicateOptions& options) {
  const DeviceSet devices = OpenFakeGpus(towers, /*tagged=*/false, {}, sources.Recorder());
  Graph graph(BuiltinOps());
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph), devices, model.fields, model.build, optimizer, options);
  RETURN_IF_ERROR(graph.status());
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  std::vector<FeedSpec> feeds;
  for (const models::TrainTower& tower : step.towers) {
    for (FeedSpec& feed : tower.batch.FeedSpecs(kExamples)) feeds.push_back(std::move(feed));
  }
  return session->Explain(feeds, {step.loss}, {step.update}).status();
}

absl::Status PlanAll(Sources& sources, DType dtype) {
  const optim::Momentum momentum({.learning_rate = 0.1, .weight_decay = 1e-4});
  const optim::AdamW adam({.learning_rate = 1e-3});
  const auto cifar = [](const Scope& scope, Output x) { return models::CifarNet(scope, x); };
  const auto resnet = [](const Scope& scope, Output x) { return models::ResNet(scope, x, {.depth = 20}); };
  const auto mlp = [](const Scope& scope, Output x) {
    return models::Mlp(scope, models::Flatten(scope, x), {.hidden = {100, 50}, .dropout = 0.5});
  };
  RETURN_IF_ERROR(
      MakePlan(sources, Classifier(dtype, 24, cifar), 1, optim::GradientDescent(), {.moving_average = 0.999}));
  RETURN_IF_ERROR(
      MakePlan(sources, Classifier(dtype, 24, cifar), 2, momentum, {.clip_global_norm = 1, .moving_average = 0.999}));
  RETURN_IF_ERROR(MakePlan(sources, Classifier(dtype, 32, resnet), 1, momentum, {}));
  RETURN_IF_ERROR(MakePlan(sources, Classifier(dtype, 32, resnet), 2, momentum, {.moving_average = 0.99}));
  RETURN_IF_ERROR(MakePlan(sources, Classifier(dtype, 8, mlp), 1, adam, {.clip_global_norm = 1}));
  RETURN_IF_ERROR(MakePlan(sources, Gpt(dtype), 1, adam, {.clip_global_norm = 1, .moving_average = 0.999}));
  RETURN_IF_ERROR(MakePlan(sources, Gpt(dtype), 2, adam, {.shard_optimizer = true}));
  RETURN_IF_ERROR(MakePlan(sources, Gpt(dtype), 1, momentum, {.micro_batches = 2}));
  for (const int64_t width : {64, 384, 768}) {  // those of trainers/language_model
    RETURN_IF_ERROR(MakePlan(sources, Gpt(dtype, width), 1, adam, {.clip_global_norm = 1}));
  }
  RETURN_IF_ERROR(MakePlan(sources, Autoencoder(dtype), 1, adam, {}));
  if (dtype != DType::kFloat32) return absl::OkStatus();
  return MakePlan(sources, Table(), 2, adam, {.clip_global_norm = 1});
}

}  // namespace

absl::StatusOr<std::vector<std::string>> KernelsOfModels() {
  Sources recorded;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) RETURN_IF_ERROR(PlanAll(recorded, dtype));
  return recorded.Get();
}

}  // namespace belfry
