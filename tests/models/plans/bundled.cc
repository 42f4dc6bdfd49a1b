#include "tests/models/plans/bundled.h"

#include "framework/base/status.h"
#include "models/layers/embedding.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/layers/recurrent.h"
#include "models/networks/autoencoder.h"
#include "models/networks/cifar_net.h"
#include "models/networks/mlp.h"
#include "models/networks/resnet.h"
#include "models/networks/transformer.h"
#include "models/networks/unet.h"
#include "models/networks/wide_deep.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/models/classified_fields.h"

namespace belfry::models {
namespace {

constexpr int64_t kExamples = 4, kTokens = 6, kVocabulary = 11;

// Plans are not run here, so that they need no other processes.
class NoCollective : public Collective {
 public:
  absl::Status Run(int /*participant*/, Stream& /*stream*/, uint32_t /*run*/, absl::Time /*deadline*/) override {
    return absl::UnimplementedError("a collective of plans that are not run");
  }
  void Cancel() override {}
  void Reset(uint32_t /*run*/) override {}
};
absl::StatusOr<std::unique_ptr<Collective>> MakeNoCollective(const CollectiveSpec& /*spec*/) {
  return std::make_unique<NoCollective>();
}

class OwnedPlan : public BundledPlan {
 public:
  absl::Status Make(const BundledStep& step) {
    if (step.devices == "fake") {
      devices_ = OpenFakeGpus(2);
    } else {
      ASSIGN_OR_RETURN(devices_, DeviceSet::Open(step.devices, {.cpu_threads = 1}));
    }
    AddFakeGpuKernels(registry_);
    const TrainStep train =
        ReplicateTowers(Scope(graph_), devices_, step.fields, step.model, *step.optimizer, step.options);
    RETURN_IF_ERROR(graph_.status());
    ASSIGN_OR_RETURN(session_,
                     Session::Create(graph_, devices_, {.collectives = MakeNoCollective, .fuse_elementwise_from = 1}));
    std::vector<FeedSpec> feeds;
    for (const TrainTower& tower : train.towers) {
      if (train.micro_batches > 1 && !step.accumulates) break;
      for (FeedSpec& feed : tower.batch.FeedSpecs(kExamples)) feeds.push_back(std::move(feed));
      if (!step.accumulates) continue;
      feeds.push_back({tower.index, {}});
      feeds.push_back({tower.first_example, {}});
    }
    const std::vector<Output> fetches = step.accumulates ? std::vector<Output>() : std::vector<Output>{train.loss};
    ASSIGN_OR_RETURN(prepared_,
                     session_->Prepare(feeds, fetches, {step.accumulates ? train.accumulate : train.update}));
    return absl::OkStatus();
  }
  const Plan& plan() const override { return prepared_->plan(); }

 private:
  DeviceSet devices_;
  OpRegistry registry_ = BuiltinOps();
  Graph graph_{registry_};
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> prepared_;
};

// The loss of a classifier of images.
template <class Network>
TowerFunction ImageClassifier(Network network) {
  return [network](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    AddCrossEntropy(tower, network(tower, batch["image"]), batch["label"]);
    return TotalLoss(tower);
  };
}

// The loss of each next token.
template <class Network>
TowerFunction NextTokens(Network network) {
  return [network](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Output logits = network(tower, batch["tokens"]);
    AddCrossEntropy(tower, ops::Reshape(tower, logits, {-1, kVocabulary}), ops::Reshape(tower, batch["next"], {-1}));
    return TotalLoss(tower);
  };
}

Output SmallResNet(const Scope& tower, Output images) { return ResNet(tower, images, {.depth = 8}); }
Output SmallGpt(const Scope& tower, Output tokens) {
  return Transformer(tower, tokens,
                     {.vocabulary = kVocabulary, .length = kTokens, .layers = 2, .heads = 2, .width = 8});
}
Output SmallLstm(const Scope& tower, Output tokens) {
  const Output x = Embedding(tower, "embedding", tokens, kVocabulary, 8);
  return Dense(tower, "logits", ops::Reshape(tower, LstmStack(tower, "lstm", x, 8, {.layers = 2}).y, {-1, 8}),
               kVocabulary);
}
Output SmallUNet(const Scope& tower, Output images) {
  const Output pixels = UNet(tower, images, {.width = 4, .depth = 2, .batch_norm = true});
  return ops::Reshape(tower, ops::Mean(tower, pixels, {1, 2}), {-1, 2});
}
Output SmallMlp(const Scope& tower, Output images) {
  return Mlp(tower, Flatten(tower, images), {.hidden = {16, 8}, .dropout = 0.1, .weight_decay = 1e-3});
}
Output SmallCifarNet(const Scope& tower, Output images) { return CifarNet(tower, images); }

absl::StatusOr<Output> SmallTable(const Scope& tower, const Batch& batch) {
  const TableInput table = {.numbers = batch["numbers"], .categories = {{"city", batch["city"], 5}}};
  AddCrossEntropy(tower, WideDeep(tower, table, {.outputs = 2, .width = 3, .hidden = {8, 4}}), batch["label"]);
  return TotalLoss(tower);
}
absl::StatusOr<Output> SmallVae(const Scope& tower, const Batch& batch) {
  return AddVaeLoss(tower, Flatten(tower, batch["image"]), {.hidden = {8}, .latent = 3});
}

}  // namespace

std::vector<BundledStep> BundledSteps() {
  const auto adam = std::make_shared<optim::Adam>(optim::AdamOptions{.weight_decay = 0.01});
  const auto momentum = std::make_shared<optim::Momentum>(optim::MomentumOptions{.weight_decay = 1e-4});
  const auto descent = std::make_shared<optim::GradientDescent>();
  const auto images = ClassifiedFields({8, 8, 3}), unit = ClassifiedFields({4, 4, 1});
  const std::vector<data::Field> text = {{"tokens", DType::kInt32, {kTokens}}, {"next", DType::kInt32, {kTokens}}};
  const std::vector<data::Field> table = {
      {"numbers", DType::kFloat32, {2}}, {"city", DType::kInt32, {}, 5}, {"label", DType::kInt32, {}, 2}};
  const ReplicateOptions parameters{.variable_update = VariableUpdate::kParameterDevice};
  const size_t small = 512;  // bytes of a bucket
  return {
      {"cifar_net, one device", "cpu:1", ClassifiedFields({24, 24, 3}), ImageClassifier(SmallCifarNet), descent},
      {"cifar_net, two towers",
       "cpu:2",
       ClassifiedFields({24, 24, 3}),
       ImageClassifier(SmallCifarNet),
       momentum,
       {.bucket_bytes = 1 << 16, .moving_average = 0.99}},
      {"cifar_net, fake GPUs, parameter device", "fake", ClassifiedFields({24, 24, 3}), ImageClassifier(SmallCifarNet),
       momentum, parameters},
      {"ResNet-8, synchronised",
       "cpu:2",
       images,
       ImageClassifier(SmallResNet),
       momentum,
       {.batch_norm = BatchNormPolicy::kSynchronised, .bucket_bytes = 4096}},
      {"ResNet-8, parameter device", "cpu:2", images, ImageClassifier(SmallResNet), momentum, parameters},
      {"GPT, three towers, clipped",
       "cpu:3",
       text,
       NextTokens(SmallGpt),
       adam,
       {.bucket_bytes = small, .clip_global_norm = 1}},
      {"GPT, sharded", "cpu:2", text, NextTokens(SmallGpt), adam, {.bucket_bytes = small, .shard_optimizer = true}},
      {"LSTM, fake GPUs", "fake", text, NextTokens(SmallLstm), adam, {.bucket_bytes = small}},
      {"LSTM, independent",
       "cpu:2",
       text,
       NextTokens(SmallLstm),
       adam,
       {.variable_update = VariableUpdate::kIndependent}},
      {"wide and deep, three towers", "cpu:3", table, SmallTable, adam, {.bucket_bytes = small}},
      {"wide and deep, parameter device", "cpu:3", table, SmallTable, descent, parameters},
      {"U-Net, two towers", "cpu:2", images, ImageClassifier(SmallUNet), adam, {.bucket_bytes = 2048}},
      {"perceptron, four towers, scaled",
       "cpu:4",
       unit,
       ImageClassifier(SmallMlp),
       momentum,
       {.bucket_bytes = small, .loss_scale = optim::LossScaleOptions()}},
      {"perceptron, series, sums",
       "cpu:2",
       unit,
       ImageClassifier(SmallMlp),
       momentum,
       {.micro_batches = 2, .bucket_bytes = small},
       /*accumulates=*/true},
      {"perceptron, series, update",
       "cpu:2",
       unit,
       ImageClassifier(SmallMlp),
       momentum,
       {.micro_batches = 2, .bucket_bytes = small}},
      {"variational autoencoder, two towers", "cpu:2", unit, SmallVae, adam, {.bucket_bytes = small}},
  };
}

absl::StatusOr<std::unique_ptr<BundledPlan>> MakePlan(const BundledStep& step) {
  auto planned = std::make_unique<OwnedPlan>();
  RETURN_IF_ERROR(planned->Make(step));
  return planned;
}

}  // namespace belfry::models
