#include "trainers/hand_made_towers.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/variable.h"
#include "models/layers/metrics.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/summary.h"
#include "optim/apply.h"
#include "optim/descent.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kHidden = 64;

// The mean of each variable's gradients over the towers. The batches of all towers have the same size, so the mean over
// towers is the mean over examples.
std::vector<optim::GradientAndVariable> AverageGradients(
    const Scope& scope, const std::vector<std::vector<optim::GradientAndVariable>>& towers) {
  std::vector<optim::GradientAndVariable> averages;
  for (size_t k = 0; k < towers[0].size(); ++k) {
    std::vector<Output> gradients;
    for (const auto& tower : towers) gradients.push_back(tower[k].gradient);
    const Output sum = ops::AddN(scope, gradients);
    averages.push_back({ops::Scale(scope, sum, 1.0 / gradients.size()), towers[0][k].variable});
  }
  return averages;
}

}  // namespace

Points MakeSpiral(int64_t count, uint64_t seed) {
  Points points{Tensor(DType::kFloat32, {count, Points::kFeatures}), Tensor(DType::kInt32, {count})};
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(random() % Points::kClasses);
    const double radius = uniform();
    const double noise = (uniform() + uniform() - 1) * 0.4;
    const double angle = 2 * std::numbers::pi * label / Points::kClasses + 4 * radius + noise;
    points.features.data<float>()[2 * i] = static_cast<float>(radius * std::cos(angle));
    points.features.data<float>()[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
    points.labels.data<int32_t>()[i] = label;
  }
  return points;
}

Points Rows(const Points& points, int64_t begin, int64_t count) {
  const auto row = points.features.span<float>().subspan(begin * Points::kFeatures, count * Points::kFeatures);
  return {Tensor::Of(row, {count, Points::kFeatures}),
          Tensor::Of(points.labels.span<int32_t>().subspan(begin, count), {count})};
}

Tower BuildModel(const Scope& scope, int index, absl::string_view collection) {
  // The number of examples is unknown until the model is fed.
  const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {Shape::kUnknown, Points::kFeatures});
  const Output labels = ops::Placeholder(scope.Named("labels"), DType::kInt32, {Shape::kUnknown});

  // Variables have the same names in every tower, such as "hidden/weights", since names come from variable scopes, not
  // from name scopes. This is how towers share them.
  const Scope hidden = scope.VariableScope("hidden");
  const Variable w1 = GetVariable(hidden, "weights", {Points::kFeatures, kHidden}, HeNormalInitializer());
  const Variable b1 = GetVariable(hidden, "biases", {kHidden}, ZerosInitializer());
  const Output h = ops::Relu(hidden, ops::BiasAdd(hidden, ops::MatMul(hidden, x, w1), b1));

  const Scope output = scope.VariableScope("output");
  const Variable w2 = GetVariable(output, "weights", {kHidden, Points::kClasses}, GlorotUniformInitializer());
  const Variable b2 = GetVariable(output, "biases", {Points::kClasses}, ZerosInitializer());
  const Output logits = ops::BiasAdd(output, ops::MatMul(output, h, w2), b2);

  const Output loss = ops::Mean(scope.Named("loss"), ops::SparseSoftmaxCrossEntropy(scope, logits, labels));
  const Output predict = ops::Softmax(scope.Named("predict"), logits);
  ops::ScalarSummary(scope, "loss", loss);
  ops::ScalarSummary(scope, "accuracy", models::Accuracy(scope, logits, labels));

  // RunEpoch looks up the parts of the model here, filtered by scope.
  const Tower tower = {
      .index = index, .scope = scope.name(), .inputs = {x, labels}, .loss = loss, .predictions = {predict}};
  scope.AddToCollection(collection, tower);
  scope.AddToCollection(kLoss, loss);
  scope.AddToCollection(kPredict, predict);
  scope.AddToCollection(kMergeSummary, ops::MergeAllSummaries(scope.Named("merge_summary")));
  return tower;
}

const Node* MultiGpuModel(const Scope& scope, const std::vector<DeviceName>& devices, double learning_rate) {
  // Where the one copy of the variables lives, and where gradients meet.
  const Scope cpu = scope.Device("/cpu:0");

  std::vector<std::vector<optim::GradientAndVariable>> gradients;
  for (size_t i = 0; i < devices.size(); ++i) {
    // A scope is a value, so these settings apply to this tower only. The first tower creates the variables; the others
    // reuse them.
    const Scope tower = scope.NameScope(absl::StrCat("tower_", i))
                            .InTower(static_cast<int>(i))
                            .Device(devices[i])
                            .VariableDevice("/cpu:0")
                            .ReuseVariables(i == 0 ? Reuse::kNever : Reuse::kAlways);
    const Tower model = BuildModel(tower, static_cast<int>(i), kTrainModels);
    // Gradients are computed where their forward ops are: on this tower's device.
    gradients.push_back(optim::ComputeGradients(tower, model.loss, optim::TrainableVariables(tower)));
    if (!scope.status().ok()) return nullptr;
  }

  // Transfers of gradients to the CPU are implicit; the optimizer sees only their averages.
  const auto averages = AverageGradients(cpu.NameScope("average"), gradients);
  const optim::Momentum optimizer({.learning_rate = learning_rate, .momentum = 0.9});
  return optim::ApplyGradients(cpu.NameScope("train_op"), optimizer, averages);
}

absl::StatusOr<EpochResult> RunEpoch(Session& session, const Points& data, absl::string_view scope,
                                     const Node* train_op, bool is_training, int64_t batch_size) {
  const Graph& graph = session.graph();
  const std::vector<Tower> models = graph.GetTowers(is_training ? kTrainModels : kTestModels, scope);
  // The scope filters: testing fetches nothing of the training towers, so none of their nodes runs.
  std::vector<Output> fetches = graph.GetCollection(kLoss, scope);
  const std::vector<Output> summaries = graph.GetCollection(kMergeSummary, scope);
  fetches.insert(fetches.end(), summaries.begin(), summaries.end());
  std::vector<const Node*> targets;
  if (is_training) targets.push_back(train_op);

  const int64_t step_size = batch_size * static_cast<int64_t>(models.size());
  if (step_size == 0 || data.size() < step_size) {
    return absl::InvalidArgumentError(absl::StrCat(data.size(), " examples do not fill a step: ", models.size(),
                                                   " models in scope '", scope, "' take ", batch_size, " each"));
  }
  const int64_t steps = data.size() / step_size;
  EpochResult result;
  int64_t next = 0;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Feed> feeds;
    for (const Tower& model : models) {
      const Points batch = Rows(data, next, batch_size);
      next += batch_size;
      feeds.push_back({model.inputs[0], batch.features});
      feeds.push_back({model.inputs[1], batch.labels});
    }
    ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, session.Run(feeds, fetches, targets));
    for (size_t i = 0; i < models.size(); ++i) {
      result.loss += fetched[i].scalar<float>() / static_cast<double>(steps * models.size());
    }
    ASSIGN_OR_RETURN(const ops::FetchedSummaries shown,
                     ops::ReadSummaries(summaries, absl::MakeConstSpan(fetched).subspan(models.size())));
    for (const auto& [tag, mean] : shown.scalars) {
      if (absl::EndsWith(tag, "/accuracy")) result.accuracy += mean / static_cast<double>(steps);
    }
  }
  return result;
}

}  // namespace belfry::trainers
