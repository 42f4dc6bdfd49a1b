// Training on sequences in buckets by length.
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/collective/world_collective.h"
#include "framework/data/sequences/bucket_batcher.h"
#include "framework/runtime/saver.h"
#include "models/layers/cross_entropy.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/layers/recurrent.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"
#include "trainers/loop/evaluator.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kSequences = 41;

// Steps of two numbers, and for each step a label: whether it is above the first one.
std::unique_ptr<data::SequenceDataset> Sequences() {
  std::vector<int32_t> lengths, labels;
  std::vector<float> steps;
  for (int64_t i = 0; i < kSequences; ++i) {
    lengths.push_back(static_cast<int32_t>(i * 7 % 13));
    const auto first = steps.size();
    for (int32_t t = 0; t < lengths.back(); ++t) {
      const auto step = static_cast<float>((i * 5 + t * 3) % 11) / 11;
      steps.insert(steps.end(), {step, 1 - step});
      labels.push_back(step > steps[first] ? 1 : 0);
    }
  }
  const auto total = static_cast<int64_t>(labels.size());
  return ValueOf(data::FromSequences(
      Tensor::Of<int32_t>(lengths, {kSequences}),
      {{"step", Tensor::Of<float>(steps, {total, 2})}, {"above", Tensor::Of<int32_t>(labels, {total}), 2}}));
}

// The mean over all steps of all sequences: padding has the label -1, which does not count.
absl::StatusOr<Output> StepLoss(const Scope& tower, const models::Batch& batch) {
  const models::RecurrentStackOutputs gru =
      models::GruStack(tower, "gru", batch["step"], 6, {.bidirectional = true, .lengths = batch["length"]});
  const Output logits = models::Dense(tower, "logits", gru.y, 2);
  const models::MeanLoss loss = models::MeanCrossEntropy(tower, logits, batch["above"], {.ignore_label = -1});
  models::SetLossWeight(tower, loss.weight);
  return loss.loss;
}

struct Outcome {
  double loss = 0;
  std::vector<io::NamedTensor> variables;
  int64_t plans = 0;
};

struct SequenceRun {
  std::string devices = "cpu:1";
  int towers = 1, series = 1;
  std::vector<int64_t> buckets = {};
  int64_t steps = 7;
  std::string directory = {};
};

// `world`: of the processes that share the towers, or null.
Outcome TrainOnSequences(const SequenceRun& run, World* world = nullptr, const TowersOfWorld* towers = nullptr) {
  const TemporaryFolder plans;
  Outcome outcome;
  const auto sequences = Sequences();
  const DeviceSet devices = DeviceSet::Open(run.devices, {.cpu_threads = 1}).value();
  const int first = world == nullptr ? 0 : towers->first[world->rank()];
  const auto input = ValueOf(data::BucketBatcher::Create(*sequences, {.batch_size = 6,
                                                                      .buckets = run.buckets,
                                                                      .towers = run.towers,
                                                                      .first_tower = first,
                                                                      .local_towers = world == nullptr ? 0 : 1,
                                                                      .seed = 9,
                                                                      .padding = {{"above", -1}}}));
  Graph graph(BuiltinOps());
  const models::TrainStep step = models::ReplicateTowers(
      Scope(graph), devices, *input, StepLoss, optim::Momentum({.learning_rate = 0.2, .momentum = 0.9}),
      {.first_tower = first, .towers = world == nullptr ? 0 : run.towers, .micro_batches = run.series});
  const auto session =
      Session::Create(graph, devices,
                      {.collectives = world == nullptr ? MakeLocalCollective : WorldCollectives(*world, *towers),
                       .dump_plan = plans / "plans"});
  EXPECT_TRUE(session.ok()) << session.status();
  Trainer trainer(**session, step, *input,
                  {.world = world,
                   .steps = run.steps,
                   .quiet = true,
                   .directory = run.directory,
                   .resume = {.latest = !run.directory.empty()}});
  EXPECT_EQ(trainer.Run(), absl::OkStatus());
  outcome.loss = trainer.loss();
  Snapshot snapshot;
  EXPECT_TRUE(snapshot.Take(**session).ok());
  for (const io::NamedTensor& tensor : snapshot.tensors())
    outcome.variables.push_back({tensor.name, tensor.value.Clone()});
  outcome.plans = std::distance(std::filesystem::directory_iterator(plans / "plans"), {});
  return outcome;
}

void ExpectSameVariables(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.variables.size(), b.variables.size());
  for (size_t i = 0; i < a.variables.size(); ++i) {
    EXPECT_TRUE(SameBits(a.variables[i].value, b.variables[i].value)) << a.variables[i].name;
  }
}

TEST(SequenceTraining, CompilesEachShapeBeforeTheFirstStep) {
  const auto sequences = Sequences();
  ASSERT_OK_AND_ASSIGN(const auto input,
                       data::BucketBatcher::Create(*sequences, {.batch_size = 6, .buckets = {4, 12}}));
  const auto shapes = static_cast<int64_t>(input->shapes().size());
  EXPECT_EQ(shapes, 4);
  const int64_t initializers = 1;
  EXPECT_EQ(TrainOnSequences({.buckets = {4, 12}, .steps = 1}).plans, initializers + shapes);
  EXPECT_EQ(TrainOnSequences({.buckets = {4, 12}, .steps = 20}).plans, initializers + shapes);
}

TEST(SequenceTraining, TowersGiveTheLossesOfOne) {
  const double loss = TrainOnSequences({}).loss;
  EXPECT_LT(loss, 0.7);
  EXPECT_NEAR(TrainOnSequences({.devices = "cpu:2", .towers = 2}).loss, loss, 1e-5);
  EXPECT_NEAR(TrainOnSequences({.devices = "cpu:3", .towers = 3}).loss, loss, 1e-5);
}

// The second process meets the shapes in the order of the first, though a tower may have no example of one.
TEST(SequenceTraining, ProcessesGiveTheBitsOfTowers) {
  const SequenceRun run{.devices = "cpu:1", .towers = 2};
  const double expected = TrainOnSequences({.devices = "cpu:2", .towers = 2}).loss;
  std::vector<double> losses(2);
  const auto statuses = RunRanks(2, {.tell_failures = true}, [&](World& world) -> absl::Status {
    ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, 1, In(absl::Seconds(60))));
    losses[world.rank()] = TrainOnSequences(run, &world, &towers).loss;
    return world.Close(In(absl::Seconds(60)));
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(losses, std::vector<double>(2, expected));
}

TEST(SequenceTraining, AnEvaluatorRefusesSequences) {
  const auto sequences = Sequences();
  ASSERT_OK_AND_ASSIGN(const auto input, data::BucketBatcher::Create(*sequences, {}));
  Graph graph(BuiltinOps());
  const Evaluator evaluator(Scope(graph), input->fields(), StepLoss, "above");
  EXPECT_THAT(graph.status().message(), testing::HasSubstr("was given the fields step float32 [?,2]"));
}

TEST(SequenceTraining, TowersInSeriesGiveTheBitsOfThoseOnDevices) {
  const Outcome devices = TrainOnSequences({.devices = "cpu:2", .towers = 2});
  const Outcome series = TrainOnSequences({.devices = "cpu:1", .towers = 2, .series = 2});
  EXPECT_EQ(series.loss, devices.loss);
}

TEST(SequenceTraining, MorePaddingTrainsTheSame) {
  EXPECT_NEAR(TrainOnSequences({.buckets = {12}}).loss, TrainOnSequences({.buckets = {31}}).loss, 1e-5);
}

TEST(SequenceTraining, ResumesWithinAnEpochBitForBit) {
  const TemporaryFolder folder;
  const Outcome whole = TrainOnSequences({.devices = "cpu:2", .towers = 2, .steps = 12});
  for (const int64_t stop : {3, 8, 9}) {
    const std::string directory = folder / std::to_string(stop);
    TrainOnSequences({.devices = "cpu:2", .towers = 2, .steps = stop, .directory = directory});
    const Outcome resumed = TrainOnSequences({.devices = "cpu:2", .towers = 2, .steps = 12, .directory = directory});
    EXPECT_EQ(resumed.loss, whole.loss);
    ExpectSameVariables(resumed, whole);
  }
}

}  // namespace
}  // namespace belfry::trainers
