// Metrics against their formulae, computed here over all examples at once.
#include "trainers/loop/dataset_metrics.h"

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/functions.h"
#include "framework/data/in_memory.h"
#include "framework/data/sequences/bucket_batcher.h"
#include "framework/data/sequences/sequence_dataset.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/area_under_roc.h"
#include "trainers/loop/run_directory.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

// The model's outputs are a field of the data.
Evaluation Evaluate(const Tensor& outputs, const Tensor& labels, const std::vector<std::string>& names, int64_t batch,
                    World* world = nullptr) {
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  Graph graph(BuiltinOps());
  const auto dataset = data::FromTensors({{"outputs", outputs}, {"label", labels}}).value();
  std::vector<DatasetMetric> metrics;
  for (const std::string& name : names) metrics.push_back(NamedMetric(name).value());
  const DatasetMetrics all(
      Scope(graph).NameScope("evaluation"), dataset->fields(),
      [](const Scope&, const models::Batch& examples) -> absl::StatusOr<Output> { return examples["outputs"]; },
      metrics);
  const auto session = Session::Create(graph, devices).value();
  return ValueOf(all.Run(*session, *dataset, {}, batch, world));
}

std::map<std::string, double> Values(const Evaluation& evaluation) {
  std::map<std::string, double> values;
  for (const Metric& metric : evaluation.metrics) values[metric.name] = metric.value;
  return values;
}

Tensor Normal(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  std::normal_distribution<float> normal(3, 2);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = normal(TestRandom());
  return tensor;
}

TEST(DatasetMetrics, OfClassesForAnySizeOfBatch) {
  constexpr int64_t kExamples = 23, kPixels = 6, kClasses = 7;
  const Tensor logits = Normal({kExamples, kPixels, kClasses});
  Tensor labels(DType::kInt32, {kExamples, kPixels});
  // Class 6 occurs only as a prediction, and some pixels have no label.
  for (int64_t i = 0; i < labels.elements(); ++i)
    labels.data<int32_t>()[i] = static_cast<int32_t>(TestRandom()() % 7) - 1;
  std::map<int, std::set<int64_t>> is, taken;
  double count = 0, right = 0, in_3 = 0, loss = 0;
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const int label = labels.data<int32_t>()[i];
    if (label < 0) continue;
    const float* const x = logits.data<float>() + i * kClasses;
    int above = 0, best = 0;
    double sum = 0;
    for (int c = 0; c < kClasses; ++c) {
      above += x[c] > x[label];
      if (x[c] > x[best]) best = c;
      sum += std::exp(static_cast<double>(x[c]));
    }
    is[label].insert(i);
    taken[best].insert(i);
    count += 1;
    right += above == 0;
    in_3 += above < 3;
    loss += std::log(sum) - x[label];
  }
  double f1 = 0, iou = 0, precision = 0, recall = 0;
  std::set<int> occur;
  for (const auto& [c, at] : is) occur.insert(c);
  for (const auto& [c, at] : taken) occur.insert(c);
  for (const int c : occur) {
    double hits = 0;
    for (const int64_t i : is[c]) hits += static_cast<double>(taken[c].count(i));
    const auto l = static_cast<double>(is[c].size()), p = static_cast<double>(taken[c].size());
    f1 += 2 * hits / (l + p) / static_cast<double>(occur.size());
    iou += hits / (l + p - hits) / static_cast<double>(occur.size());
    precision += p > 0 ? hits / p : 0;
    recall += l > 0 ? hits / l : 0;
  }
  double predicted = 0, labelled = 0;
  for (const int c : occur) predicted += !taken[c].empty(), labelled += !is[c].empty();
  for (const int64_t batch : {1, 4, 23, 100}) {
    auto values = Values(Evaluate(
        logits, labels, {"accuracy", "top_3", "loss", "perplexity", "f1", "iou", "precision", "recall"}, batch));
    EXPECT_NEAR(values["accuracy"], right / count, 1e-12);
    EXPECT_NEAR(values["top_3"], in_3 / count, 1e-12);
    EXPECT_NEAR(values["loss"], loss / count, 1e-9);
    EXPECT_NEAR(values["perplexity"], std::exp(loss / count), 1e-8);
    EXPECT_NEAR(values["f1"], f1, 1e-12);
    EXPECT_NEAR(values["iou"], iou, 1e-12);
    EXPECT_NEAR(values["precision"], precision / predicted, 1e-12);
    EXPECT_NEAR(values["recall"], recall / labelled, 1e-12);
  }
}

// Sequences with two outputs and labels, in buckets, against loops over their steps.
TEST(DatasetMetrics, OfSequencesAndSeveralOutputs) {
  constexpr int64_t kSequences = 17, kClasses = 3;
  Tensor lengths(DType::kInt32, {kSequences}), sign(DType::kInt32, {kSequences});
  int64_t steps = 0;
  for (int64_t n = 0; n < kSequences; ++n) {
    lengths.data<int32_t>()[n] = static_cast<int32_t>(1 + TestRandom()() % 9);
    sign.data<int32_t>()[n] = static_cast<int32_t>(TestRandom()() % 2);
    steps += lengths.data<int32_t>()[n];
  }
  const Tensor forecast = Normal({steps}), next = Normal({steps}), logits = Normal({steps, kClasses}),
               score = Normal({kSequences});
  Tensor classes(DType::kInt32, {steps});
  double square = 0, right = 0;
  for (int64_t t = 0; t < steps; ++t) {
    classes.data<int32_t>()[t] = static_cast<int32_t>(TestRandom()() % kClasses);
    const float* const of = logits.data<float>() + t * kClasses;
    right += std::max_element(of, of + kClasses) - of == classes.data<int32_t>()[t];
    square += std::pow(static_cast<double>(forecast.data<float>()[t]) - next.data<float>()[t], 2);
  }
  ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      data::FromSequences(lengths,
                          {{"forecast", forecast}, {"next", next}, {"logits", logits}, {"class", classes, kClasses}},
                          {{"score", score}, {"sign", sign, 2}}));
  for (const int towers : {1, 3}) {
    ASSERT_OK_AND_ASSIGN(const auto source, data::BucketBatcher::Create(*dataset, {.batch_size = 4, .towers = towers}));
    const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const models::Batch batch(scope, source->fields());
    const DatasetMetrics metrics(scope, batch,
                                 {{"mse", batch["forecast"], "next", "length"},
                                  {"accuracy", batch["logits"], "class", "length"},
                                  {"of_signs", batch["score"], "sign", "", *NamedMetric("auc")}});
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
    ASSERT_OK_AND_ASSIGN(const Evaluation evaluation, metrics.Run(*session, *source, source->batches_per_epoch()));
    EXPECT_EQ(evaluation.examples, kSequences);
    auto values = Values(evaluation);
    EXPECT_NEAR(values["mse"], square / static_cast<double>(steps), 1e-12);
    EXPECT_NEAR(values["accuracy"], right / static_cast<double>(steps), 1e-12);
    const std::vector<uint8_t> marks(sign.data<int32_t>(), sign.data<int32_t>() + kSequences);
    EXPECT_NEAR(values["of_signs"], AreaUnderRoc(score.span<float>(), marks), 1e-12);
    EXPECT_FALSE(evaluation.metrics[0].larger_is_better);
    EXPECT_TRUE(evaluation.metrics[2].larger_is_better);
  }
}

TEST(DatasetMetrics, OfASourceThatEnds) {
  int made = 0;
  ASSERT_OK_AND_ASSIGN(const auto source,
                       data::FromGenerator({{"x"}, {"label"}}, {.batch_size = 4}, [&](const data::Example& example) {
                         *example.field<float>(0) = static_cast<float>(made);
                         *example.field<float>(1) = 0;
                         return ++made <= 10;
                       }));
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  Graph graph(BuiltinOps());
  const models::Batch batch(Scope(graph), source->fields());
  const DatasetMetrics metrics(Scope(graph), batch, {{"mae", batch["x"]}});
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
  ASSERT_OK_AND_ASSIGN(const Evaluation first, metrics.Run(*session, *source, 1));
  EXPECT_EQ(Values(first)["mae"], 1.5) << "0 to 3";
  ASSERT_OK_AND_ASSIGN(const Evaluation rest, metrics.Run(*session, *source, 100));
  EXPECT_EQ(rest.examples, 6);
  EXPECT_EQ(Values(rest)["mae"], 6.5) << "4 to 9";
  EXPECT_THAT(metrics.Run(*session, *source, 1).status().message(), HasSubstr("had nothing to evaluate"));

  DatasetMetrics(Scope(graph), batch, {{"maximum", batch["x"]}});
  EXPECT_THAT(graph.status().message(), HasSubstr("There is no metric 'maximum'"));
}

TEST(DatasetMetrics, OfNumbersFarFromZero) {
  constexpr int64_t kExamples = 101;
  Tensor outputs = Normal({kExamples, 1}), labels = Normal({kExamples});
  for (int64_t i = 0; i < kExamples; ++i) {
    labels.data<float>()[i] += 1e6f;  // squares of it have no digits left for the distances
    outputs.data<float>()[i] = labels.data<float>()[i] + outputs.data<float>()[i] / 4;
  }
  double mean = 0, mae = 0, mse = 0, distances = 0;
  for (int64_t i = 0; i < kExamples; ++i) mean += labels.data<float>()[i] / static_cast<double>(kExamples);
  for (int64_t i = 0; i < kExamples; ++i) {
    const double error = static_cast<double>(outputs.data<float>()[i]) - labels.data<float>()[i];
    mae += std::abs(error) / kExamples;
    mse += error * error / kExamples;
    distances += std::pow(labels.data<float>()[i] - mean, 2) / kExamples;
  }
  for (const int64_t batch : {1, 10, 101}) {
    auto values = Values(Evaluate(outputs, labels, {"mae", "mse", "rmse", "r2"}, batch));
    EXPECT_NEAR(values["mae"], mae, 1e-9);
    EXPECT_NEAR(values["mse"], mse, 1e-9);
    EXPECT_NEAR(values["rmse"], std::sqrt(mse), 1e-9);
    EXPECT_NEAR(values["r2"], 1 - mse / distances, 1e-8);
  }
}

TEST(DatasetMetrics, TheAreaOfTwoColumnsIsThatOfTheirDifference) {
  const Tensor pairs = Normal({40, 2});
  Tensor scores(DType::kFloat32, {40}), labels(DType::kUInt8, {40});
  for (int64_t i = 0; i < 40; ++i) {
    scores.data<float>()[i] = pairs.data<float>()[2 * i + 1] - pairs.data<float>()[2 * i];
    labels.data<uint8_t>()[i] = i % 3 == 0;
  }
  double wins = 0;
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 40; ++j)
      wins += i % 3 == 0 && j % 3 != 0 && scores.data<float>()[i] > scores.data<float>()[j];
  }
  for (const Tensor& outputs : {pairs, scores}) {
    EXPECT_NEAR(Values(Evaluate(outputs, labels, {"auc"}, 7))["auc"], wins / (14 * 26), 1e-12);
  }
}

TEST(DatasetMetrics, AreTheSameBitsInAllProcesses) {
  const Tensor logits = Normal({29, 5});
  Tensor labels(DType::kInt64, {29});
  for (int64_t i = 0; i < 29; ++i) labels.data<int64_t>()[i] = i % 5;
  const std::vector<std::string> names = {"loss", "f1"};
  const Evaluation one = Evaluate(logits, labels, names, 4);
  const auto statuses = RunRanks(3, {.tell_failures = true}, [&](World& world) {
    const Evaluation mine = Evaluate(logits, labels, names, 4, &world);
    for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(mine.metrics[i].value, one.metrics[i].value) << names[i];
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// Outputs for labels 0 and 1, of which the first `right` are near their labels and the others far from them.
Tensor Outputs(const Tensor& labels, int64_t right, bool logits) {
  Tensor outputs = Tensor::Zeros(DType::kFloat32, logits ? Shape{labels.elements(), 2} : Shape{labels.elements()});
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const auto label = static_cast<float>(labels.data<int32_t>()[i]), sign = i < right ? 1.0f : -1.0f;
    if (logits) {
      outputs.data<float>()[2 * i + 1] = sign * (4 * label - 2);
    } else {
      outputs.data<float>()[i] = label + (i < right ? 0.1f : 2.0f);
    }
  }
  return outputs;
}

// A run with patience and restore_best takes the evaluation as the best in which most outputs were right.
TEST(DatasetMetrics, StateTheirDirection) {
  const Tensor labels = Tensor::Of<int32_t>({0, 1, 1, 0, 1, 0});
  const std::map<int64_t, int64_t> right = {{1, 3}, {2, 6}, {3, 1}};  // by step
  for (const char* const name : {"top_1", "accuracy", "loss", "perplexity", "f1", "precision", "recall", "iou", "auc",
                                 "mae", "mse", "rmse", "r2"}) {
    SCOPED_TRACE(name);
    const bool logits = std::string(name) != "r2" && std::string(name).find('m') == std::string::npos;
    const TemporaryFolder folder;
    Experiment run("cpu:1", 10, 0.1);
    TrainerOptions options{.steps = 100, .quiet = true};
    options.directory = folder.path();
    options.evaluate_every = 1;
    options.patience = 1;
    options.restore_best = true;
    options.evaluate = [&](int64_t step) -> absl::StatusOr<Evaluation> {
      if (!right.contains(step)) return absl::OutOfRangeError(absl::StrCat("evaluated after step ", step));
      return Evaluate(Outputs(labels, right.at(step), logits), labels, {name}, 4);
    };
    Trainer trainer(*run.session, run.step, *run.input, options);
    EXPECT_EQ(trainer.Run(), absl::OkStatus());
    EXPECT_EQ(trainer.steps(), 3);
    EXPECT_EQ(trainer.best().step(), 2);
    ASSERT_OK_AND_ASSIGN(const auto best, io::LoadBestCheckpoint(CheckpointFolder(folder.path())));
    EXPECT_EQ(best.step, 2);
  }
}

TEST(DatasetMetrics, NeedNamesOfTheirOwn) {
  Graph graph(BuiltinOps());
  const DatasetMetrics all(
      Scope(graph), std::vector<data::Field>{{"outputs"}, {"label"}},
      [](const Scope&, const models::Batch& batch) -> absl::StatusOr<Output> { return batch["outputs"]; },
      {NamedMetric("mae").value(), NamedMetric("mae").value()});
  EXPECT_THAT(graph.status().message(), HasSubstr("DatasetMetrics has two metrics of the name 'mae'"));
}

TEST(DatasetMetrics, SayWhatIsWrong) {
  EXPECT_THAT(NamedMetric("bleu").status().message(), HasSubstr("one of top_K, accuracy, loss"));
  EXPECT_FALSE(NamedMetric("top_0").ok());
  const auto error = [](const std::string& name, const Tensor& outputs, const Tensor& labels) {
    return std::string(NamedMetric(name)->of_batch(outputs, labels).status().message());
  };
  const Tensor logits(DType::kFloat32, {2, 3});
  EXPECT_THAT(error("accuracy", logits, Tensor::Of<int32_t>({0, 3})), HasSubstr("label 3 of 3 classes"));
  EXPECT_THAT(error("f1", logits, Tensor::Of<int32_t>({0, 1, 2})), HasSubstr("labels int32 [3]; expected float32"));
  EXPECT_THAT(error("auc", Tensor::Of<float>({0, 1}), Tensor::Of<int32_t>({0, 2})), HasSubstr("label 2 is neither"));
  EXPECT_THAT(error("mae", logits, Tensor::Of<float>({1, 2})), HasSubstr("as many labels"));
  // No examples have no metrics.
  EXPECT_TRUE(std::isnan(NamedMetric("loss")->value({})));
  EXPECT_TRUE(std::isnan(NamedMetric("mae")->value({})));
}

}  // namespace
}  // namespace belfry::trainers
