// Optimizers whose state is divided among towers, against the same ones that each tower has whole.
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/plan.h"
#include "framework/compiler/program.h"
#include "framework/runtime/saver.h"
#include "framework/runtime/session.h"
#include "models/layers/losses.h"
#include "models/networks/mlp.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/lookahead.h"
#include "optim/muon.h"
#include "optim/parameter_groups.h"
#include "optim/rmsprop.h"
#include "tests/framework/base/same_bits.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;

// A training run and its inputs.
struct Training {
  static constexpr int64_t kFeatures = 7;
  static constexpr int kClasses = 3, kTowers = 3;

  static absl::StatusOr<Output> Model(const Scope& tower, const Batch& batch) {
    const Output logits = Mlp(tower, batch["image"], {.hidden = {19, 5}, .classes = kClasses});
    AddCrossEntropy(tower, logits, batch["label"]);
    return TotalLoss(tower);
  }

  DeviceSet devices;
  Graph graph{BuiltinOps()};
  TrainStep step;
  std::unique_ptr<Session> session;

  absl::Status Open(absl::StatusOr<DeviceSet> opened, const optim::Optimizer& optimizer,
                    const ReplicateOptions& options) {
    ASSIGN_OR_RETURN(devices, std::move(opened));
    graph.set_seed(5);
    step = ReplicateTowers(Scope(graph), devices, ClassifiedFields({kFeatures}), Model, optimizer, options);
    RETURN_IF_ERROR(graph.status());
    ASSIGN_OR_RETURN(session, Session::Create(graph, devices, {.timeout = absl::Seconds(60)}));
    return session->RunTarget(step.initialize);
  }
  // Runs steps on random data, of which one tower has none in every third step.
  absl::Status Train(int steps, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int s = 0; s < steps; ++s) {
      std::vector<Feed> feeds;
      for (size_t t = 0; t < step.towers.size(); ++t) {
        const int64_t n = s % 3 == 2 && t == 1 ? 0 : 1 + static_cast<int64_t>(t);
        Tensor images(DType::kFloat32, {n, kFeatures}), labels(DType::kInt32, {n});
        for (int64_t i = 0; i < images.elements(); ++i) images.data<float>()[i] = normal(random);
        for (int64_t i = 0; i < n; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random() % kClasses);
        feeds.push_back({step.towers[t].batch["image"], images});
        feeds.push_back({step.towers[t].batch["label"], labels});
      }
      RETURN_IF_ERROR(session->Run(feeds, {step.loss}, {step.update}).status());
    }
    return absl::OkStatus();
  }
  // The bytes of slots that a replica holds.
  size_t SlotBytes(int replica) const {
    size_t bytes = 0;
    for (const Variable& variable : graph.variables()) {
      if (variable.def().slot_of == nullptr || variable.replica() != replica) continue;
      if (variable.dtype() == DType::kInt64) continue;  // a count of updates, which every tower has
      bytes += variable.node().outputs()[0].bytes();
    }
    return bytes;
  }
};

ReplicateOptions Sharded(bool sharded) { return {.bucket_bytes = 512, .shard_optimizer = sharded}; }

void ExpectSameTensors(const Snapshot& actual, const Snapshot& expected) {
  ASSERT_EQ(actual.tensors().size(), expected.tensors().size());
  for (size_t i = 0; i < actual.tensors().size(); ++i) {
    EXPECT_EQ(actual.tensors()[i].name, expected.tensors()[i].name);
    EXPECT_TRUE(SameBits(actual.tensors()[i].value, expected.tensors()[i].value)) << actual.tensors()[i].name;
  }
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>()>;

class ShardOptimizer : public testing::TestWithParam<std::pair<std::string, MakeOptimizer>> {};

TEST_P(ShardOptimizer, HasTheBitsOfTheWholeOne) {
  const std::unique_ptr<optim::Optimizer> optimizer = GetParam().second();
  const uint32_t seed = TestRandom()();
  Training whole, sharded;
  const auto open = [] { return DeviceSet::Open(absl::StrCat("cpu:", Training::kTowers), {.cpu_threads = 1}); };
  ASSERT_EQ(whole.Open(open(), *optimizer, Sharded(false)), absl::OkStatus());
  ASSERT_EQ(sharded.Open(open(), *optimizer, Sharded(true)), absl::OkStatus());
  ASSERT_EQ(whole.Train(6, seed), absl::OkStatus());
  ASSERT_EQ(sharded.Train(6, seed), absl::OkStatus());
  EXPECT_EQ(CheckReplicas(*sharded.session, Training::kTowers), absl::OkStatus());
  Snapshot of_whole, of_sharded;
  ASSERT_EQ(of_whole.Take(*whole.session), absl::OkStatus());
  ASSERT_EQ(of_sharded.Take(*sharded.session), absl::OkStatus());
  ExpectSameTensors(of_sharded, of_whole);
  size_t bytes = 0;
  for (int tower = 0; tower < Training::kTowers; ++tower) {
    bytes += sharded.SlotBytes(tower);
    EXPECT_LE(sharded.SlotBytes(tower), whole.SlotBytes(0) * 2 / 3);
  }
  EXPECT_EQ(bytes, whole.SlotBytes(0));
  // Each goes on from the other's snapshot.
  ASSERT_TRUE(Restore(*sharded.session, "test", of_whole.tensors()).ok());
  ASSERT_TRUE(Restore(*whole.session, "test", of_sharded.tensors()).ok());
  ASSERT_EQ(whole.Train(2, seed + 1), absl::OkStatus());
  ASSERT_EQ(sharded.Train(2, seed + 1), absl::OkStatus());
  ASSERT_EQ(of_whole.Take(*whole.session), absl::OkStatus());
  ASSERT_EQ(of_sharded.Take(*sharded.session), absl::OkStatus());
  ExpectSameTensors(of_sharded, of_whole);
}

template <class Rule, class RuleOptions>
MakeOptimizer Make(const RuleOptions& options) {
  return [options] { return std::make_unique<Rule>(options); };
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ShardOptimizer,
    testing::Values(
        std::pair("descent", Make<optim::GradientDescent>(optim::GradientDescentOptions{.learning_rate = 0.1})),
        std::pair("momentum",
                  Make<optim::Momentum>(optim::MomentumOptions{
                      .learning_rate = 0.1, .use_nesterov = true, .weight_decay = 1e-3, .decays = optim::IsWeight})),
        std::pair("rmsprop", Make<optim::RMSProp>(optim::RMSPropOptions{.learning_rate = 0.01, .momentum = 0.5})),
        std::pair("adagrad", Make<optim::Adagrad>(optim::AdagradOptions{.learning_rate = 0.1})),
        std::pair("adam", Make<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01})),
        std::pair("adamw", Make<optim::AdamW>(optim::AdamWOptions{
                               .learning_rate = 0.01, .weight_decay = 0.1, .decays = optim::IsWeight})),
        std::pair("lookahead", MakeOptimizer([] {
                    return std::make_unique<optim::Lookahead>(optim::Adam({.learning_rate = 0.01}),
                                                              optim::LookaheadOptions{.steps = 3});
                  })),
        std::pair("groups", MakeOptimizer([] {
                    return std::make_unique<optim::Lookahead>(
                        optim::ParameterGroups({{optim::IsWeight, optim::AdamW({.learning_rate = 0.01})}},
                                               optim::Momentum({.learning_rate = 0.1})));
                  }))),
    [](const auto& info) { return info.param.first; });

TEST(ShardedOptimizer, ClipsByTheNormOfAllParts) {
  const optim::GradientDescent descent({.learning_rate = 1});
  const uint32_t seed = TestRandom()();
  Training whole, sharded;
  const auto open = [] { return DeviceSet::Open(absl::StrCat("cpu:", Training::kTowers), {.cpu_threads = 1}); };
  ReplicateOptions options = Sharded(false);
  options.clip_global_norm = 0.01;
  ASSERT_EQ(whole.Open(open(), descent, options), absl::OkStatus());
  options.shard_optimizer = true;
  ASSERT_EQ(sharded.Open(open(), descent, options), absl::OkStatus());
  ASSERT_EQ(whole.Train(1, seed), absl::OkStatus());
  ASSERT_EQ(sharded.Train(1, seed), absl::OkStatus());
  EXPECT_EQ(CheckReplicas(*sharded.session, Training::kTowers), absl::OkStatus());
  Snapshot of_whole, of_sharded;
  ASSERT_EQ(of_whole.Take(*whole.session), absl::OkStatus());
  ASSERT_EQ(of_sharded.Take(*sharded.session), absl::OkStatus());
  for (size_t i = 0; i < of_whole.tensors().size(); ++i) {
    const std::vector<double> expected = of_whole.tensors()[i].value.ToDoubles();
    const std::vector<double> actual = of_sharded.tensors()[i].value.ToDoubles();
    for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(actual[k], expected[k], 1e-6);
  }
}

TEST(ShardedOptimizer, ASnapshotOfSomePartsIsRefused) {
  const optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9});
  Training run;
  ASSERT_EQ(run.Open(DeviceSet::Open("cpu:2"), momentum, Sharded(true)), absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const auto parts, ReadSlotParts(*run.session));
  Snapshot snapshot;
  const absl::Status twice = snapshot.Take(*run.session, parts);
  EXPECT_EQ(twice.code(), absl::StatusCode::kFailedPrecondition) << twice;
  const std::vector<SlotPart> foreign = {{"no/such/slot", 0, Tensor(DType::kFloat32, {1})}};
  EXPECT_THAT(snapshot.Take(*run.session, foreign).message(), HasSubstr("no/such/slot"));
}

TEST(ShardedOptimizer, RefusesRulesThatNeedWholeVariables) {
  const optim::ParameterGroups muon({{optim::IsWeight, optim::Muon()}}, optim::AdamW());
  for (const auto& [optimizer, message] : std::vector<std::pair<optim::SharedOptimizer, std::string>>{
           {optim::Lars(), "LARS needs the norm of the whole variable"},
           {optim::Lamb(), "LAMB needs the norm of the whole variable"},
           {muon, "Muon needs the whole variable"}}) {
    Training run;
    EXPECT_THAT(run.Open(DeviceSet::Open("cpu:2"), *optimizer, Sharded(true)),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(message)));
  }
}

// Updates whose outputs nobody reads can be fused.
TEST(ShardedOptimizer, UpdatesAreReadThroughTheVariablesOnly) {
  Training training;
  const optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9});
  ASSERT_EQ(training.Open(DeviceSet::Open("cpu:2", {.cpu_threads = 1}), momentum, Sharded(true)), absl::OkStatus());
  std::vector<FeedSpec> feeds;
  for (const TrainTower& tower : training.step.towers) {
    feeds.push_back({tower.batch["image"], {4, Training::kFeatures}});
    feeds.push_back({tower.batch["label"], {4}});
  }
  ASSERT_OK_AND_ASSIGN(const auto prepared, training.session->Prepare(feeds, {}, {training.step.update}));
  const Program& program = prepared->plan().program;
  int updates = 0;
  for (const ProgramNode& node : program.nodes) {
    updates += Updates(node) ? 1 : 0;
    for (const Value& input : node.inputs) {
      EXPECT_FALSE(Updates(program.nodes[input.node])) << Describe(node) << " reads an update";
    }
  }
  EXPECT_GT(updates, 0);
}

TEST(ShardedOptimizer, PartsOfAVariableHaveOneUpdateAndTheirOwnSlots) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Variable v = GetVariable(scope, "v", {128}, ZerosInitializer());
  const Variable first = SliceOfVariable(scope, v, 0, 64);
  const Variable second = SliceOfVariable(scope, SliceOfVariable(scope, v, 32, 96), 32, 64);
  EXPECT_EQ(second.def().begin, 64);
  EXPECT_EQ(second.whole(), v);
  EXPECT_TRUE(optim::Slot(scope, first, "Momentum", 0).valid());
  EXPECT_TRUE(optim::Slot(scope, SliceOfVariable(scope, v, 0, 64), "Momentum", 0).valid());
  EXPECT_FALSE(optim::Slot(scope, second, "Momentum", 0).valid());
  EXPECT_THAT(graph.status().message(), HasSubstr("v/Momentum of replica 0 is that of another part"));

  Graph other(BuiltinOps());
  const Scope root(other);
  const Variable w = GetVariable(root, "w", {4, 32}, ZerosInitializer());
  const Variable part = SliceOfVariable(root, w, 0, 64);
  EXPECT_TRUE(optim::IsWeight(part));
  const Output gradient = ops::Fill(root, {64}, 1), all = ops::Fill(root, {4, 32}, 1);
  optim::ApplyUpdates(root, optim::GradientDescent({.learning_rate = 1}), {{gradient, part}, {all, w}});
  EXPECT_THAT(other.status().message(), HasSubstr("w would be updated twice"));
  Graph third(BuiltinOps());
  EXPECT_FALSE(SliceOfVariable(Scope(third), Variable(), 0, 1).valid());
}

TEST(ShardedOptimizer, GathersOnlyPartsOfItsTower) {
  Graph graph(BuiltinOps());
  const Output x = ops::Fill(Scope(graph), {16}, 1);
  const ops::CollectiveOptions tower{.group = "g", .rank = 1, .size = 2};
  EXPECT_EQ(ops::AllGather(Scope(graph), tower, {x}, {Shape{40}}).size(), 1u);
  EXPECT_THAT(graph.status().message(), HasSubstr("part 0 has shape [16], but tower 1 has 8 elements"));
}

TEST(ShardedOptimizer, NeedsReplicatedVariables) {
  for (const VariableUpdate update : {VariableUpdate::kParameterDevice, VariableUpdate::kIndependent}) {
    Training run;
    ReplicateOptions options = Sharded(true);
    options.variable_update = update;
    const absl::Status status =
        run.Open(DeviceSet::Open("cpu:2"), optim::GradientDescent({.learning_rate = 0.1}), options);
    EXPECT_THAT(status.message(), HasSubstr("needs variable update 'replicated'"));
  }
}

}  // namespace
}  // namespace belfry::models
