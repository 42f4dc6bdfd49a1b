#include "multi_gpu_model.h"

#include <cmath>
#include <numbers>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

using namespace belfry;

Points Points::Rows(int64_t begin, int64_t count) const {
  return {Tensor::Of(features.span<float>().subspan(2 * begin, 2 * count), {count, 2}),
          Tensor::Of(labels.span<int32_t>().subspan(begin, count), {count})};
}

Points MakeSpiral(int64_t count, uint64_t seed) {
  Points points{Tensor(DType::kFloat32, {count, 2}), Tensor(DType::kInt32, {count})};
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(random() % 3);
    const double radius = uniform(random), noise = (uniform(random) + uniform(random) - 1) * 0.4;
    const double angle = 2 * std::numbers::pi * label / 3 + 4 * radius + noise;
    points.features.data<float>()[2 * i] = static_cast<float>(radius * std::cos(angle));
    points.features.data<float>()[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
    points.labels.data<int32_t>()[i] = label;
  }
  return points;
}

Tower BuildModel(const Scope& scope, int index, absl::string_view collection) {
  const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {Shape::kUnknown, 2});
  const Output labels = ops::Placeholder(scope.Named("labels"), DType::kInt32, {Shape::kUnknown});
  // Variables have the same names in every tower, such as "hidden1/weights": names come from variable scopes, not from
  // name scopes. This is how towers share them.
  const Output logits = models::Mlp(scope, x, {.hidden = {64}, .classes = 3});
  const Output loss = ops::Mean(scope.Named("loss"), ops::SparseSoftmaxCrossEntropy(scope, logits, labels));
  const Output predict = ops::Softmax(scope.Named("predict"), logits);
  ops::ScalarSummary(scope, "loss", loss);
  ops::ScalarSummary(scope, "accuracy", models::Accuracy(scope, logits, labels));

  const Tower tower = {
      .index = index, .scope = scope.name(), .inputs = {x, labels}, .loss = loss, .predictions = {predict}};
  scope.AddToCollection(collection, tower);
  scope.AddToCollection(kLossCollection, loss);
  scope.AddToCollection(kPredict, predict);
  scope.AddToCollection(kMergeSummary, ops::MergeAllSummaries(scope.Named("merge_summary")));
  return tower;
}

const Node* MultiGpuModel(const Scope& scope, const std::vector<DeviceName>& devices) {
  std::vector<std::vector<optim::GradientAndVariable>> gradients;
  for (size_t i = 0; i < devices.size(); ++i) {
    // A scope is a value, so this applies to one tower. The first one creates the variables; the others reuse them.
    const Scope tower = scope.NameScope(absl::StrCat("tower_", i))
                            .InTower(static_cast<int>(i))
                            .Device(devices[i])
                            .VariableDevice("/cpu:0")
                            .ReuseVariables(i == 0 ? Reuse::kNever : Reuse::kAlways);
    const Tower model = BuildModel(tower, static_cast<int>(i), kTrainModels);
    gradients.push_back(optim::ComputeGradients(tower, model.loss, optim::TrainableVariables(tower)));
    if (!scope.status().ok()) return nullptr;
  }
  // Gradients are averaged on the CPU, where they are copied to by themselves. All batches have the same size, so the
  // mean over towers is the mean over examples.
  const Scope cpu = scope.Device("/cpu:0"), average = cpu.NameScope("average");
  std::vector<optim::GradientAndVariable> averages;
  for (size_t k = 0; k < gradients[0].size(); ++k) {
    std::vector<Output> parts;
    for (const auto& tower : gradients) parts.push_back(tower[k].gradient);
    averages.push_back({ops::Scale(average, ops::AddN(average, parts), 1.0 / parts.size()), gradients[0][k].variable});
  }
  const optim::Momentum optimizer({.learning_rate = 0.1, .momentum = 0.9});
  return optim::ApplyGradients(cpu.NameScope("train_op"), optimizer, averages);
}

absl::StatusOr<EpochResult> RunEpoch(Session& session, const Points& data, absl::string_view scope,
                                     const Node* train_op, bool is_training, int64_t batch_size) {
  // The scope selects: a test fetches nothing of the training towers, so none of their nodes runs.
  const std::vector<Tower> models = session.graph().GetTowers(is_training ? kTrainModels : kTestModels, scope);
  const std::vector<Output> summaries = session.graph().GetCollection(kMergeSummary, scope);
  std::vector<const Node*> targets;
  if (is_training) targets.push_back(train_op);

  const int64_t steps = models.empty() ? 0 : data.size() / (batch_size * static_cast<int64_t>(models.size()));
  if (steps == 0) {
    return absl::InvalidArgumentError(absl::StrCat(data.size(), " examples do not fill a step of ", models.size(),
                                                   " models in scope '", scope, "' with ", batch_size, " each"));
  }
  EpochResult result;
  int64_t next = 0;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Feed> feeds;
    for (const Tower& model : models) {
      const Points batch = data.Rows(next, batch_size);
      next += batch_size;
      feeds.push_back({model.inputs[0], batch.features});
      feeds.push_back({model.inputs[1], batch.labels});
    }
    ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, session.Run(feeds, summaries, targets));
    ASSIGN_OR_RETURN(const ops::FetchedSummaries means, ops::ReadSummaries(summaries, fetched));
    for (const auto& [tag, mean] : means.scalars) {
      (absl::EndsWith(tag, "/accuracy") ? result.accuracy : result.loss) += mean / static_cast<double>(steps);
    }
  }
  return result;
}
