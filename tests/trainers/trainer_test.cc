#include "trainers/program/trainer.h"
#include "ops/builtin_ops.h"
#include "trainers/callbacks/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/trainers/experiment.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

std::string TemporaryFile(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / (name + std::to_string(std::random_device()()))).string();
}

TEST(Trainer, LearnsOnAnyNumberOfTowersWithUnevenLastBatches) {
  for (const char* spec : {"cpu:1", "cpu:3"}) {
    Experiment run(spec, /*batch=*/16, /*learning_rate=*/0.5);  // 50 examples: the last batch of an epoch has two
    Trainer trainer(*run.session, run.step, *run.input, {.steps = 200, .quiet = true});
    ASSERT_EQ(trainer.Run(), absl::OkStatus());
    EXPECT_GT(trainer.examples_per_second(), 0);
    ASSERT_OK_AND_ASSIGN(const auto result, run.evaluator->Run(*run.session, *run.dataset, {}, /*batch_size=*/16));
    EXPECT_EQ(result.labels, 50);
    EXPECT_GT(result.accuracy, 0.95) << spec;
    EXPECT_EQ(result.top_5, 1);  // there are three classes
    EXPECT_LT(result.loss, 0.3);
  }
}

TEST(Trainer, TowersDoNotChangeTheLosses) {
  const std::vector<std::string> specs = {"cpu:1", "cpu:2", "cpu:4"};
  std::vector<double> losses;
  for (const std::string& spec : specs) {
    Experiment run(spec, /*batch=*/12, /*learning_rate=*/0.1);
    Trainer trainer(*run.session, run.step, *run.input, {.steps = 30, .quiet = true});
    ASSERT_TRUE(trainer.Run().ok());
    losses.push_back(trainer.loss());
  }
  for (double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-5 * std::fabs(losses[0]));
}

TEST(Trainer, GoesOnFromTheGlobalStep) {
  Experiment run("cpu:1", 16, 0.1);
  ASSERT_TRUE(Trainer(*run.session, run.step, *run.input, {.steps = 5, .quiet = true}).Run().ok());
  EXPECT_EQ(run.session->ReadVariable(run.step.global_step)->scalar<int64_t>(), 5);
  ASSERT_TRUE(Trainer(*run.session, run.step, *run.input, {.steps = 8, .quiet = true}).Run().ok());
  EXPECT_EQ(run.session->ReadVariable(run.step.global_step)->scalar<int64_t>(), 8);
}

TEST(Trainer, StopsWhenTheLossIsNotFinite) {
  Experiment run("cpu:2", 16, 1e30);
  EXPECT_THAT(Trainer(*run.session, run.step, *run.input, {.steps = 100, .quiet = true}).Run(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("Model diverged with loss =")));
}

// A run on two towers of data in which a number of example 4 is not finite, or the label of example 3 is none.
absl::Status TrainOn(const Tensor& x, const Tensor& labels) {
  const auto devices = ValueOf(DeviceSet::Open("cpu:2", {.cpu_threads = 1}));
  const auto dataset = ValueOf(data::FromTensors({{"x", x}, {"label", labels}}));
  const auto input = ValueOf(data::Prefetcher::Create(*dataset, {.batch_size = 6, .towers = 2}));
  const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    models::AddCrossEntropy(tower, models::Mlp(tower, batch["x"], {.classes = 3}), batch["label"]);
    return models::TotalLoss(tower);
  };
  Graph graph(BuiltinOps());
  const auto step = models::ReplicateTowers(Scope(graph), devices, *input, model, optim::GradientDescent());
  const auto session = ValueOf(Session::Create(graph, devices));
  return Trainer(*session, step, *input, {.steps = 3, .quiet = true}).Run();
}

TEST(Trainer, NamesTheNumberThatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Tensor x = Tensor::Zeros(DType::kFloat32, {6, 2});
    x.data<float>()[2 * 4 + 1] = bad;
    const std::string message(TrainOn(x, Tensor::Of<int32_t>({0, 1, 2, 0, 1, 2})).message());
    EXPECT_THAT(message, HasSubstr("at step 0: field 'x' of example "));
    EXPECT_THAT(message, HasSubstr(absl::StrCat(" of the batch, 4 of the data, is ", bad)));
  }
}

TEST(Trainer, RefusesInputForAnotherNumberOfTowers) {
  Experiment run("cpu:2", 16, 0.1);
  const auto input = data::Prefetcher::Create(*run.dataset, {.batch_size = 16, .towers = 1}).value();
  const absl::Status status = Trainer(*run.session, run.step, *input, {.steps = 1, .quiet = true}).Run();
  EXPECT_THAT(status.message(), HasSubstr("1 towers, but the model has 2; a Prefetcher splits it"));
}

TEST(Trainer, EvaluatesWhenItIsDueAndAfterTheLastStep) {
  Experiment run("cpu:1", 16, 0.1);
  std::vector<int64_t> at;
  TrainerOptions options{.steps = 7, .quiet = true, .evaluate_every = 3};
  options.evaluate = [&](int64_t step) -> absl::StatusOr<Evaluation> {
    at.push_back(step);
    return Accuracy(0.25 * static_cast<double>(step));
  };
  Trainer trainer(*run.session, run.step, *run.input, options);
  ASSERT_TRUE(trainer.Run().ok());
  EXPECT_EQ(at, (std::vector<int64_t>{3, 6, 7}));
  EXPECT_EQ(trainer.evaluation().metrics[0].value, 0.25 * 7);
}

TEST(Trainer, WritesOneJsonObjectALine) {
  Experiment run("cpu:1", 16, 0.25);
  const std::string path = TemporaryFile("metrics");
  TrainerOptions options{.steps = 25, .log_every = 10, .metrics_file = path, .quiet = true};
  ASSERT_TRUE(Trainer(*run.session, run.step, *run.input, options).Run().ok());
  std::ifstream file(path);
  std::vector<int64_t> steps;
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line);
    steps.push_back(object.at("step"));
    EXPECT_GT(object.at("loss").get<double>(), 0);
    EXPECT_EQ(object.at("learning_rate").get<double>(), 0.25);
    EXPECT_GT(object.at("examples_per_second").get<double>(), 0);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 10, 20, 24}));
  std::remove(path.c_str());
}

std::vector<nlohmann::json> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  std::remove(path.c_str());
  return lines;
}

TEST(Trainer, WritesEvaluationsToTheMetricsFile) {
  Experiment run("cpu:1", 16, 0.25);
  TrainerOptions options{.steps = 4, .log_every = 3, .metrics_file = TemporaryFile("metrics"), .quiet = true};
  options.evaluate_every = 2;
  options.evaluate = [&](int64_t) { return run.evaluator->Run(*run.session, *run.dataset, {}, /*batch_size=*/16); };
  Trainer trainer(*run.session, run.step, *run.input, options);
  ASSERT_TRUE(trainer.Run().ok());
  const std::vector<nlohmann::json> lines = Lines(options.metrics_file);
  ASSERT_EQ(lines.size(), 4u);  // of steps 0, 1 (evaluated), 3, 3 (evaluated)
  for (int i : {0, 2}) EXPECT_TRUE(lines[i].contains("loss")) << lines[i];
  for (int i : {1, 3}) {
    EXPECT_EQ(lines[i].size(), 4u) << lines[i];
    EXPECT_EQ(lines[i].at("step").get<int>(), i + 1);
  }
  EXPECT_EQ(lines[3].at("test_accuracy").get<double>(), trainer.evaluation().metrics[0].value);
  EXPECT_EQ(lines[3].at("test_top_5").get<double>(), 1);
  EXPECT_EQ(lines[3].at("test_loss").get<double>(), trainer.evaluation().metrics[2].value);
}

TEST(Trainer, AnEvaluationNeedsAMetric) {
  Experiment run("cpu:1", 16, 0.25);
  TrainerOptions options{.steps = 2, .quiet = true};
  options.evaluate = [](int64_t) { return Evaluation{.examples = 5}; };
  EXPECT_THAT(Trainer(*run.session, run.step, *run.input, options).Run(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no metric")));
}

TEST(Trainer, CountsInTheUnitOfTheUser) {
  Experiment run("cpu:1", 16, 0.25);
  TrainerOptions options{.steps = 3, .metrics_file = TemporaryFile("metrics"), .unit = "tokens"};
  options.units_per_example = 1000;
  testing::internal::CaptureStdout();
  Trainer trainer(*run.session, run.step, *run.input, options);
  const absl::Status status = trainer.Run();
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr(" tokens/s"));
  ASSERT_TRUE(status.ok()) << status;
  for (const nlohmann::json& line : Lines(options.metrics_file)) {
    const double seconds = line.at("seconds_input").get<double>() + line.at("seconds_step").get<double>() +
                           line.at("seconds_other").get<double>();
    const double tokens = line.at("tokens_per_second").get<double>() * seconds;
    EXPECT_NEAR(tokens, line.at("step") == 0 ? 16'000 : 32'000, 1) << line;
  }
}

TEST(Trainer, ShowsTheCrossEntropyBesideALossWithWeightDecay) {
  for (const double weight_decay : {0.0, 0.5}) {
    const auto dataset = Blobs(50, 3);
    const DeviceSet devices = DeviceSet::Open("cpu:2").value();
    const auto input = data::Prefetcher::Create(*dataset, {.batch_size = 15, .towers = 2}).value();
    Graph graph(BuiltinOps());
    const auto model = [&](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      models::AddCrossEntropy(tower,
                              models::Dense(tower, "logits", batch["point"], kClasses, {.weight_decay = weight_decay}),
                              batch["label"]);
      return models::TotalLoss(tower);
    };
    const auto step = models::ReplicateTowers(Scope(graph), devices, *input, model, optim::GradientDescent({1e-12}));
    const auto session = Session::Create(graph, devices).value();
    TrainerOptions options{.steps = 1, .metrics_file = TemporaryFile("metrics")};
    testing::internal::CaptureStdout();
    ASSERT_EQ(Trainer(*session, step, *input, options).Run(), absl::OkStatus());
    const std::string shown = testing::internal::GetCapturedStdout();
    const nlohmann::json line = Lines(options.metrics_file).at(0);
    EXPECT_EQ(line.contains("cross_entropy"), weight_decay > 0);
    if (weight_decay == 0) continue;
    EXPECT_THAT(shown, HasSubstr(absl::StrFormat("  cross-entropy %.4f  ", line.at("cross_entropy").get<double>())));
    const double decay = line.at("loss").get<double>() - line.at("cross_entropy").get<double>();
    const Tensor weights = session->ReadVariable(graph.FindVariable("logits/weights", 0)).value();
    double squares = 0;
    for (const float weight : weights.span<float>()) squares += weight * weight;
    EXPECT_NEAR(decay, weight_decay * squares / 2, 1e-5);
  }
}

TEST(Trainer, WithoutAStepEvaluatesTheUntrainedModel) {
  Experiment run("cpu:2", 16, 0.25);
  TrainerOptions options{.steps = 0, .metrics_file = TemporaryFile("metrics"), .quiet = true};
  options.evaluate = [&](int64_t) { return run.evaluator->Run(*run.session, *run.dataset, {}, /*batch_size=*/16); };
  Trainer trainer(*run.session, run.step, *run.input, options);
  ASSERT_EQ(trainer.Run(), absl::OkStatus());
  EXPECT_EQ(trainer.evaluation().examples, 50);
  const std::vector<nlohmann::json> lines = Lines(options.metrics_file);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("step").get<int>(), 0);
}

TEST(Trainer, ZeroLogsNeverAndNegativeOptionsAreErrors) {
  Experiment run("cpu:1", 16, 0.25);
  const auto train = [&](TrainerOptions options) {
    options.quiet = true;
    return Trainer(*run.session, run.step, *run.input, options).Run();
  };
  const std::string path = TemporaryFile("metrics");
  EXPECT_EQ(train({.steps = 3, .log_every = 0, .metrics_file = path}), absl::OkStatus());
  EXPECT_TRUE(Lines(path).empty());
  for (const auto& [options, what] : {std::pair(TrainerOptions{.steps = -1}, "steps is -1"),
                                      std::pair(TrainerOptions{.log_every = -2}, "log_every is -2"),
                                      std::pair(TrainerOptions{.evaluate_every = -3}, "evaluate_every is -3"),
                                      std::pair(TrainerOptions{.evaluate_every = 3}, "need TrainerOptions::evaluate"),
                                      std::pair(TrainerOptions{.units_per_example = 3}, "need"),
                                      std::pair(TrainerOptions{.steps = 4, .trace = {.first = 4, .last = 5}},
                                                "the trace starts at step 4, but the last step is 3")}) {
    EXPECT_THAT(train(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  }
}

TEST(Trainer, KeepsWhatHasAValue) {
  Experiment run("cpu:1", 16, 0.25);
  const Variable variable = run.graph.FindVariable("hidden1/weights", /*replica=*/0);
  Tensor value(DType::kFloat32, variable.shape());
  std::fill_n(value.data<float>(), value.elements(), 0.5f);
  ASSERT_TRUE(run.session->WriteVariable(variable, value).ok());
  Trainer trainer(*run.session, run.step, *run.input, {.steps = 0, .quiet = true});
  ASSERT_EQ(trainer.Run(), absl::OkStatus());
  EXPECT_THAT(run.session->ReadVariable(variable)->ToDoubles(), ::testing::Each(0.5));
  for (const Variable& other : run.graph.variables()) EXPECT_TRUE(run.session->ReadVariable(other).ok());
}

// Evaluates a model whose logits are its inputs.
template <class Label = int32_t>
Classification EvaluateLogits(const std::vector<float>& logits, const std::vector<Label>& labels) {
  const auto n = static_cast<int64_t>(labels.size());
  const auto dataset = data::FromTensors({{"logits", Tensor::Of<float>(logits, {n, kClasses})},
                                          {"label", Tensor::Of<Label>(labels, {n})}})
                           .value();
  const auto input = data::Prefetcher::Create(*dataset, {}).value();
  Graph graph(BuiltinOps());
  const Evaluator evaluator(
      Scope(graph), input->fields(),
      [](const Scope&, const models::Batch& batch) -> absl::StatusOr<Output> { return batch["logits"]; });
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices).value();
  return evaluator.Run(*session, *dataset, {}, /*batch_size=*/2).value();
}

TEST(Evaluator, OfEqualLogitsTheFirstIsTheAnswer) {
  EXPECT_EQ(EvaluateLogits({1, 1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 2}).accuracy, 1.0 / 3);
  EXPECT_EQ(EvaluateLogits({0, 2, 2, 0, 2, 2, 3, 2, 2}, {1, 2, 0}).accuracy, 2.0 / 3);
}

TEST(Evaluator, LogitsThatAreNotFiniteAreWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Classification result =
      EvaluateLogits({nan, nan, nan, nan, 1, 2, 3, nan, 1, infinity, 0, 0, 5, 0, 0}, {0, 0, 0, 0, 0});
  EXPECT_EQ(result.accuracy, 0.2);
  EXPECT_EQ(result.top_5, 0.2);
}

TEST(Evaluator, CountsWhatIsTakenForWhat) {
  const Classification result = EvaluateLogits({1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0}, {0, 1, 0, 2, 2});
  EXPECT_EQ(result.classes, 3);
  EXPECT_EQ(result.confusion, (std::vector<int64_t>{1, 1, 0, 0, 1, 0, 1, 0, 1}));
  const std::string table = ConfusionTable(result, {"cat", "dog", "ship"});
  EXPECT_THAT(table, HasSubstr("dog             0 1 0  100.0%"));
  EXPECT_THAT(table, HasSubstr("ship            1 0 1   50.0%"));
  EXPECT_THAT(ConfusionTable(result, {"cat", "d\u00f6g", "ship"}), HasSubstr("d\u00f6g             0 1 0  100.0%"));
  EXPECT_THAT(ConfusionTable(result, {"cat", "checkered_triangle", "ship"}),
              AllOf(HasSubstr("is \\ taken for     0 1"), HasSubstr("  1 checkered_triangle 0 1")));
}

// A CSV file's column of whole numbers gives such labels.
TEST(Evaluator, LabelsMayHave64Bits) {
  const Classification result = EvaluateLogits<int64_t>({1, 0, 0, 0, 1, 0, 0, 1, 0}, {0, 1, 2});
  EXPECT_EQ(result.accuracy, 2.0 / 3);
  EXPECT_EQ(result.confusion, (std::vector<int64_t>{1, 0, 0, 0, 1, 0, 0, 1, 0}));
}

TEST(Evaluator, ATableHasAnUnknownCategoryOnlyIfItOccurs) {
  Classification result{.classes = 3, .confusion = {0, 0, 0, 0, 5, 1, 0, 2, 7}};
  EXPECT_EQ(ConfusionTable(result, {"", "no", "yes"}),
            "    is \\ taken for  1 2   right\n  1 no              5 1   83.3%\n  2 yes             2 7   77.8%\n");
  result.confusion[6] = 1;  // once taken for the unknown one
  EXPECT_THAT(ConfusionTable(result, {"", "no", "yes"}), HasSubstr("0 1 2   right\n  0"));
}

TEST(Evaluator, AMissingLabelIsThatOfTheCaller) {
  Graph graph(BuiltinOps());
  const std::vector<data::Field> fields = {{"logits", DType::kFloat32, {3}}};
  const Evaluator evaluator(Scope(graph), fields, nullptr, "class");
  EXPECT_THAT(graph.status().message(), AllOf(HasSubstr("There is no field 'class'"), HasSubstr("trainer_test.cc:")));
}

TEST(Evaluator, ATableIsNoWiderThanTheTerminal) {
  Classification ten{.classes = 10, .confusion = std::vector<int64_t>(100, 1)};
  ten.confusion[12] = 1000;
  const std::vector<std::string> names(10, "checkered_triangle");
  const auto widest = [&](int columns) {
    size_t most = 0;
    for (const absl::string_view line : absl::StrSplit(ConfusionTable(ten, names, columns), '\n')) {
      most = std::max(most, line.size());
    }
    return most;
  };
  EXPECT_EQ(widest(80), 80);
  EXPECT_LE(widest(79), 60);
  EXPECT_THAT(ConfusionTable(ten, names, 60), HasSubstr("1000  checkered_triangle taken for"));
}

TEST(Evaluator, OfManyClassesTellsTheWorstPairs) {
  Classification many{.classes = 30, .confusion = std::vector<int64_t>(900)};
  many.confusion[3 * 30 + 4] = 7;
  many.confusion[4 * 30 + 3] = 9;
  many.confusion[5 * 30 + 5] = 100;
  EXPECT_EQ(ConfusionTable(many), "       9  class 4 taken for class 3\n       7  class 3 taken for class 4\n");
}

TEST(MetricsWriter, NamesTheFileThatCannotBeOpened) {
  const auto writer = MetricsWriter::Open("/nonexistent/metrics.jsonl");
  EXPECT_THAT(writer.status().message(), HasSubstr("/nonexistent/metrics.jsonl"));
}

TEST(MetricsWriter, WritesNumbersThatJsonHasNot) {
  const std::string path = TemporaryFile("nan");
  {
    auto writer = MetricsWriter::Open(path).value();
    ASSERT_TRUE(writer.Write({{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", 1e300}, {"c", -3}}).ok());
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const auto object = nlohmann::json::parse(line);
  EXPECT_TRUE(object.at("a").is_null());
  EXPECT_EQ(object.at("b").get<double>(), 1e300);
  EXPECT_EQ(object.at("c").get<int>(), -3);
  std::remove(path.c_str());
}

// The global step counts the steps of both.
TEST(Trainer, ASecondTrainStepWithoutStepsLeftIsAnError) {
  Experiment run("cpu:1", 16, 0.1);
  const models::TrainStep second = models::ReplicateTowers(
      Scope(run.graph).VariableScope("second"), run.devices, *run.input,
      [](const Scope& tower, const models::Batch& examples) -> absl::StatusOr<Output> {
        models::AddCrossEntropy(tower, models::Mlp(tower, examples["point"], {.hidden = {4}, .classes = kClasses}),
                                examples["label"]);
        return models::TotalLoss(tower);
      },
      optim::GradientDescent({.learning_rate = 0.1}));
  ASSERT_TRUE(run.graph.status().ok()) << run.graph.status();
  ASSERT_TRUE(Trainer(*run.session, run.step, *run.input, {.steps = 5, .quiet = true}).Run().ok());
  EXPECT_THAT(Trainer(*run.session, second, *run.input, {.steps = 5, .quiet = true}).Run(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the global step is 5, and TrainerOptions::steps is 5")));
  Trainer more(*run.session, second, *run.input, {.steps = 8, .quiet = true});
  EXPECT_EQ(more.Run(), absl::OkStatus());
  EXPECT_EQ(more.steps(), 8);
}

}  // namespace
}  // namespace belfry::trainers
