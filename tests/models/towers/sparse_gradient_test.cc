// Training of embeddings: sparse gradients from the model to the optimizer's slots.
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "framework/runtime/session.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/lars.h"
#include "optim/rmsprop.h"
#include "tests/framework/base/same_bits.h"
#include "tests/main/testing.h"

namespace belfry::models {
namespace {

constexpr int64_t kRows = 50, kWidth = 3, kIds = 4;
const std::vector<data::Field> kFields = {
    {"ids", DType::kInt32, {kIds}}, {"user", DType::kInt64, {}}, {"y", DType::kFloat32, {}}};

// Two lookups of one table and one of another, and a dense layer. `dense`: the tables are also used otherwise, with no
// effect on the loss, so that their gradients are dense.
TowerFunction Model(bool dense) {
  return [dense](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Variable words = GetVariable(tower, "words", {kRows, kWidth}, NormalInitializer(1));
    const Variable users = GetVariable(tower, "users", {kRows, kWidth}, NormalInitializer(1));
    const Variable weights = GetVariable(tower, "weights", {kWidth}, NormalInitializer(1));
    Output sum = ops::Sum(tower, ops::Gather(tower, words, batch["ids"]), {1});
    sum = ops::Mul(tower, sum, ops::Gather(tower, users, batch["user"]));
    sum = ops::Add(tower, sum, ops::Gather(tower, words, batch["user"]));
    const Output error = ops::Sub(tower, ops::Sum(tower, ops::Mul(tower, sum, weights), {1}), batch["y"]);
    Output loss = ops::Mean(tower, ops::Square(tower, error));
    if (dense) {
      for (const Variable& table : {words, users}) {
        loss = ops::Add(tower, loss, ops::Scale(tower, ops::Sum(tower, table), 0));
      }
    }
    return loss;
  };
}

struct Trained {
  std::vector<float> losses;
  std::map<std::string, Tensor> variables;  // with slots, of the first replica
  std::map<std::string, int> ops;           // of the plan
};

// The ids of a step: some rows are used often, and rows of kRows / 2 or more never.
Trained Train(const optim::Optimizer& optimizer, int towers, bool dense, uint64_t seed, int64_t batch = 8,
              const ReplicateOptions& options = {}) {
  Trained outcome;
  Graph graph(BuiltinOps());
  graph.set_seed(5);
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1}).value();
  const TrainStep step = ReplicateTowers(Scope(graph), devices, kFields, Model(dense), optimizer, options);
  const auto session = ValueOf(Session::Create(graph, devices));
  EXPECT_TRUE(session->RunTarget(step.initialize).ok());
  std::mt19937_64 random(seed);
  std::vector<FeedSpec> specs;
  for (int t = 0; t < towers; ++t) {
    const data::TowerRange range = data::RangeOfTower(batch, towers, t);
    for (const FeedSpec& spec : step.towers[t].batch.FeedSpecs(range.count)) specs.push_back(spec);
  }
  auto prepared = ValueOf(session->Prepare(specs, {step.loss}, {step.update}));
  for (const ProgramNode& node : prepared->plan().program.nodes) ++outcome.ops[node.op->name];
  for (int i = 0; i < 5; ++i) {
    Tensor ids(DType::kInt32, {batch, kIds}), users(DType::kInt64, {batch}), y(DType::kFloat32, {batch});
    for (int64_t n = 0; n < ids.elements(); ++n) ids.data<int32_t>()[n] = static_cast<int32_t>(random() % (kRows / 2));
    for (int64_t n = 0; n < batch; ++n) users.data<int64_t>()[n] = static_cast<int64_t>(random() % 3);
    for (int64_t n = 0; n < batch; ++n) y.data<float>()[n] = static_cast<float>(random() % 100) / 50 - 1;
    std::vector<Tensor> feeds;
    for (int t = 0; t < towers; ++t) {
      const auto [first, count] = data::RangeOfTower(batch, towers, t);
      feeds.push_back(Tensor::Of(ids.span<int32_t>().subspan(first * kIds, count * kIds), {count, kIds}));
      feeds.push_back(Tensor::Of(users.span<int64_t>().subspan(first, count), {count}));
      feeds.push_back(Tensor::Of(y.span<float>().subspan(first, count), {count}));
    }
    EXPECT_EQ(prepared->Run(feeds), absl::OkStatus());
    outcome.losses.push_back(prepared->fetched(0).scalar<float>());
  }
  for (const Variable& variable : graph.variables()) {
    if (variable.replica() == 0) outcome.variables[variable.name()] = session->ReadVariable(variable).value().Clone();
  }
  return outcome;
}

void ExpectNear(const Trained& expected, const Trained& actual, double tolerance) {
  for (const auto& [name, value] : expected.variables) {
    const std::vector<double> a = value.ToDoubles(), b = actual.variables.at(name).ToDoubles();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(a[i]))) << name;
  }
}

// But for the rounding of sums, whose terms come in another order.
TEST(SparseGradient, OfDescentTrainsAsADenseOne) {
  const uint64_t seed = TestSeed();
  const optim::GradientDescent descent({.learning_rate = 0.01});
  const Trained dense = Train(descent, 1, true, seed), sparse = Train(descent, 1, false, seed);
  EXPECT_EQ(dense.ops.count("SparseApplyGradientDescent"), 0u);
  EXPECT_EQ(sparse.ops.at("SparseApplyGradientDescent"), 2);
  EXPECT_EQ(sparse.ops.count("GatherGrad"), 0u);
  for (size_t i = 0; i < dense.losses.size(); ++i) EXPECT_NEAR(sparse.losses[i] / dense.losses[i], 1, 1e-6) << i;
  ExpectNear(dense, sparse, 1e-6);
}

TEST(SparseGradient, TowersTrainAsOne) {
  const uint64_t seed = TestSeed();
  const optim::Adagrad adagrad({.learning_rate = 0.05});
  for (const int64_t batch : {8, 7, 2}) {
    const Trained one = Train(adagrad, 1, false, seed, batch);
    for (const int towers : {2, 3}) {
      for (const VariableUpdate update : {VariableUpdate::kReplicated, VariableUpdate::kParameterDevice}) {
        const Trained many = Train(adagrad, towers, false, seed, batch, {.variable_update = update});
        EXPECT_EQ(many.ops.at("SparseApplyAdagrad"), update == VariableUpdate::kReplicated ? 2 * towers : 2);
        ExpectNear(one, many, 1e-4);
      }
    }
  }
}

TEST(SparseGradient, UntouchedRowsAndSlotsStay) {
  const uint64_t seed = TestSeed();
  const optim::Adam adam({.learning_rate = 0.1, .weight_decay = 0.1});
  const optim::AdamW adamw({.learning_rate = 0.1, .weight_decay = 0.1});
  const optim::Momentum momentum({.learning_rate = 0.001, .weight_decay = 0.1});
  const optim::RMSProp rmsprop({.learning_rate = 0.001});
  for (const optim::Optimizer* optimizer :
       std::initializer_list<const optim::Optimizer*>{&adam, &adamw, &momentum, &rmsprop}) {
    const Trained before = Train(optim::GradientDescent({.learning_rate = 0.0}), 1, false, seed);
    const Trained after = Train(*optimizer, 2, false, seed);
    const absl::Span<const float> old = before.variables.at("words").span<float>();
    const absl::Span<const float> now = after.variables.at("words").span<float>();
    int64_t touched = 0;
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      if (i >= kRows / 2 * kWidth) {
        EXPECT_EQ(now[i], old[i]);
      }
      touched += now[i] != old[i];
    }
    EXPECT_GT(touched, kRows / 2 * kWidth / 2);
    for (const auto& [name, slot] : after.variables) {
      if (name.rfind("words/", 0) != 0 || slot.dtype() == DType::kInt64) continue;  // but the count of updates
      const absl::Span<const float> values = slot.span<float>();
      for (int64_t i = kRows / 2 * kWidth; i < kRows * kWidth; ++i) EXPECT_EQ(values[i], values.back()) << name;
    }
  }
}

TEST(SparseGradient, IsClippedAndUnscaledByItsRows) {
  const uint64_t seed = TestSeed();
  const optim::GradientDescent descent({.learning_rate = 0.1});
  ReplicateOptions options{.clip_global_norm = 0.5};
  ExpectNear(Train(descent, 2, true, seed, 8, options), Train(descent, 2, false, seed, 8, options), 1e-5);
  options.loss_scale = optim::LossScaleOptions{.initial = 1024};
  ExpectNear(Train(descent, 2, true, seed, 8, options), Train(descent, 2, false, seed, 8, options), 1e-5);
}

TEST(SparseGradient, IsDenseForOptimizersThatNeedItWhole) {
  const Trained lars = Train(optim::Lars({.learning_rate = 0.01}), 2, false, TestSeed());
  EXPECT_EQ(lars.ops.at("GatherGrad"), 6);
}

// Parts of tables that begin and end within rows.
TEST(SparseGradient, OfAShardedOptimizerHasTheSameBits) {
  const uint64_t seed = TestSeed();
  const optim::Adam adam({.learning_rate = 0.1, .weight_decay = 0.1});
  const optim::Momentum momentum({.learning_rate = 0.001, .weight_decay = 0.1});
  for (const optim::Optimizer* optimizer : std::initializer_list<const optim::Optimizer*>{&adam, &momentum}) {
    for (const int towers : {2, 3, 5}) {
      for (const int64_t batch : {10, 7, 3}) {
        SCOPED_TRACE(absl::StrCat(towers, " towers, ", batch, " examples"));
        const Trained whole = Train(*optimizer, towers, false, seed, batch);
        const Trained parts = Train(*optimizer, towers, false, seed, batch, {.shard_optimizer = true});
        EXPECT_EQ(parts.ops.count("SparseApplyAdam") + parts.ops.count("SparseApplyMomentum"), 1u);
        for (const char* name : {"words", "users", "weights"}) {
          EXPECT_TRUE(SameBits(parts.variables.at(name), whole.variables.at(name))) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace belfry::models
