// Towers of several processes, against the same towers in one: the same bits of variables and losses.
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/collective/world_collective.h"
#include "framework/runtime/session.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;

constexpr int64_t kWorldEdge = 6, kWorldChannels = 2;
constexpr int kWorldClasses = 3, kWorldSteps = 15;

struct Case {
  DType dtype = DType::kFloat32;
  ReplicateOptions options;
  int towers = 4;
  bool table = false;  // whether the model has a table, and states the weights of its losses
};

// A convolution with batch norm, dropout, and a linear layer, computed in `dtype`.
TowerFunction Network(DType dtype) {
  return [dtype](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    Output x = ops::Cast(tower, batch["image"], dtype);
    x = ops::Relu(tower, BatchNorm(tower, "bn", Conv2D(tower, "conv", x, 8, 3), {.momentum = 0.8}));
    x = Dropout(tower, "dropout", Flatten(tower, MaxPool(tower, "pool", x)), 0.3, /*training=*/true);
    x = Dense(tower, "logits", x, kWorldClasses, {.weight_decay = 1e-4});
    AddCrossEntropy(tower, x, batch["label"]);
    return TotalLoss(tower);
  };
}

// A table that is gathered from, and a loss in which labels count by their number: some towers have weight 0.
TowerFunction WeighedTable(DType dtype) {
  return [dtype](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    const Variable table = GetVariable(tower, "table", {7, 5}, NormalInitializer(1), {.dtype = dtype});
    const Output rows = ops::Gather(tower, table, batch["label"]);
    const Output x = Dense(tower, "image", ops::Cast(tower, Flatten(tower, batch["image"]), dtype), 5);
    const Output logits = ops::Cast(tower, ops::Mul(tower, x, rows), DType::kFloat32);
    const Output losses = ops::SparseSoftmaxCrossEntropy(tower, logits, batch["label"]);
    const Output weights = ops::Cast(tower, batch["label"], DType::kFloat32);
    const Output sum = ops::Sum(tower, weights);
    SetLossWeight(tower, sum);
    return ops::Div(tower, ops::Sum(tower, ops::Mul(tower, losses, weights)), sum);
  };
}

// The examples of all steps. The last batch of every three is smaller, so that some tower has one example or none.
struct Data {
  std::vector<Tensor> images, labels;

  explicit Data(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (int step = 0; step < kWorldSteps; ++step) {
      const int64_t n = step % 3 == 2 ? 1 + static_cast<int64_t>(random() % 6) : 8;
      images.emplace_back(DType::kFloat32, Shape{n, kWorldEdge, kWorldEdge, kWorldChannels});
      for (int64_t i = 0; i < images.back().elements(); ++i) images.back().data<float>()[i] = normal(random);
      labels.emplace_back(DType::kInt32, Shape{n});
      for (int64_t i = 0; i < n; ++i) labels.back().data<int32_t>()[i] = static_cast<int32_t>(random() % kWorldClasses);
      labels.back().data<int32_t>()[0] = 1;  // not 0 in all
    }
  }
};

// Rows [begin, begin + count).
Tensor Rows(const Tensor& tensor, int64_t begin, int64_t count) {
  const Shape shape = tensor.shape().Remove(0).Insert(0, count);
  Tensor rows(tensor.dtype(), shape);
  const size_t row = tensor.shape()[0] == 0 ? 0 : tensor.bytes() / tensor.shape()[0];
  if (count > 0) std::memcpy(rows.raw(), static_cast<const char*>(tensor.raw()) + begin * row, count * row);
  return rows;
}

// The results that must agree: the loss of each step, and the variables of the first tower at the end, by name.
struct Outcome {
  std::vector<float> losses;
  std::map<std::string, Tensor> variables;
};

// Opens devices for as many towers.
using OpenDevices = std::function<absl::StatusOr<DeviceSet>(int)>;
absl::StatusOr<DeviceSet> OpenCpus(int count) {
  return DeviceSet::Open(absl::StrCat("cpu:", count), {.cpu_threads = 1});
}

// Rows of a step's batch for a tower.
std::vector<Feed> FeedsOf(const TrainTower& to, const Data& data, int step, int tower, int towers) {
  const data::TowerRange range = data::RangeOfTower(data.labels[step].elements(), towers, tower);
  return {{to.batch["image"], Rows(data.images[step], range.begin, range.count)},
          {to.batch["label"], Rows(data.labels[step], range.begin, range.count)}};
}

// A step of towers in series, which are run one after the other and then applied.
absl::StatusOr<float> RunSeries(Session& session, const TrainStep& step, const Data& data, int number) {
  for (int64_t s = 0; s < step.micro_batches; ++s) {
    std::vector<Feed> feeds;
    for (size_t t = 0; t < step.towers.size(); ++t) {
      const int tower = step.first_tower + static_cast<int>(t) * step.micro_batches + static_cast<int>(s);
      for (Feed& feed : FeedsOf(step.towers[t], data, number, tower, step.towers_in_all))
        feeds.push_back(std::move(feed));
      feeds.push_back({step.towers[t].index, Tensor::Of<int64_t>({s}, {})});
      const int64_t first = data::RangeOfTower(data.labels[number].elements(), step.towers_in_all, tower).begin;
      feeds.push_back({step.towers[t].first_example, Tensor::Of<int64_t>({first}, {})});
    }
    RETURN_IF_ERROR(session.RunTarget(step.accumulate, feeds));
  }
  ASSIGN_OR_RETURN(const auto fetched, session.Run({}, {step.loss}, {step.update}));
  return fetched[0].scalar<float>();
}

// Trains towers [first, first + count) of those of the case. GPUs are fakes, which run the kernels of CPUs.
absl::StatusOr<Outcome> Train(const Case& c, const Data& data, int first, int count, const CollectiveFactory& averager,
                              const OpenDevices& open = OpenCpus) {
  ASSIGN_OR_RETURN(const DeviceSet devices, open(count / c.options.micro_batches));
  OpRegistry registry = BuiltinOps();
  AddFakeGpuKernels(registry);
  Graph graph(registry);
  graph.set_seed(7);
  ReplicateOptions options = c.options;
  options.first_tower = first;
  options.towers = c.towers;
  options.bucket_bytes = 256;
  const optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9});
  const optim::Adam adam({.learning_rate = 0.05, .weight_decay = 0.01});
  const TrainStep step =
      ReplicateTowers(Scope(graph), devices, ClassifiedFields({kWorldEdge, kWorldEdge, kWorldChannels}),
                      c.table ? WeighedTable(c.dtype) : Network(c.dtype),
                      c.table ? static_cast<const optim::Optimizer&>(adam) : momentum, options);
  RETURN_IF_ERROR(graph.status());
  ASSIGN_OR_RETURN(const auto session,
                   Session::Create(graph, devices, {.timeout = absl::Seconds(60), .collectives = averager}));
  RETURN_IF_ERROR(session->RunTarget(step.initialize));
  Outcome outcome;
  for (int s = 0; s < kWorldSteps; ++s) {
    if (step.micro_batches > 1) {
      ASSIGN_OR_RETURN(const float loss, RunSeries(*session, step, data, s));
      outcome.losses.push_back(loss);
      continue;
    }
    std::vector<Feed> feeds;
    for (int t = 0; t < count; ++t) {
      for (Feed& feed : FeedsOf(step.towers[t], data, s, first + t, c.towers)) feeds.push_back(std::move(feed));
    }
    ASSIGN_OR_RETURN(const auto fetched, session->Run(feeds, {step.loss}, {step.update}));
    outcome.losses.push_back(fetched[0].scalar<float>());
  }
  for (const Variable& variable : graph.variables()) {
    if (variable.replica() != first / c.options.micro_batches || variable.sharded() || variable.transient()) continue;
    ASSIGN_OR_RETURN(outcome.variables[variable.name()], session->ReadVariable(variable));
  }
  return outcome;
}

// The outcomes of all processes.
absl::StatusOr<std::vector<Outcome>> TrainInWorld(const Case& c, const Data& data, const std::vector<int>& layout,
                                                  const OpenDevices& open) {
  std::vector<Outcome> outcomes(layout.size());
  const auto results =
      RunRanks(static_cast<int>(layout.size()), {.tell_failures = true}, [&](World& world) -> absl::Status {
        // In series the ranks of collectives are devices.
        ASSIGN_OR_RETURN(
            const TowersOfWorld towers,
            TowersOfWorld::Gather(world, layout[world.rank()] / c.options.micro_batches, In(absl::Seconds(60))));
        const int first = towers.first[world.rank()] * c.options.micro_batches;
        ASSIGN_OR_RETURN(outcomes[world.rank()],
                         Train(c, data, first, layout[world.rank()], WorldCollectives(world, towers), open));
        return world.Close(In(absl::Seconds(60)));
      });
  for (const absl::Status& status : results) RETURN_IF_ERROR(status);
  return outcomes;
}

class WorldTowers : public testing::TestWithParam<std::pair<std::string, Case>> {
 protected:
  // Compares the layouts with one process, whose devices are CPUs.
  static void Compare(const std::vector<std::vector<int>>& layouts, const OpenDevices& open, int series = 1) {
    Case c = GetParam().second;
    const Data data(TestRandom());
    Case one_process = c;
    one_process.options.shard_optimizer = false;
    ASSERT_OK_AND_ASSIGN(auto expected, Train(one_process, data, 0, c.towers, MakeLocalCollective));
    if (c.options.shard_optimizer) {
      std::erase_if(expected.variables, [](const auto& entry) {
        return absl::EndsWith(entry.first, "/Momentum") || absl::EndsWith(entry.first, "/Adam") ||
               absl::EndsWith(entry.first, "/Adam_1");
      });
    }
    const bool synchronised = c.options.batch_norm == BatchNormPolicy::kSynchronised;
    c.options.micro_batches = series;
    for (const std::vector<int>& layout : layouts) {
      SCOPED_TRACE(absl::StrCat(absl::StrJoin(layout, " + "), ", in series of ", series));
      ASSERT_OK_AND_ASSIGN(const auto actual, TrainInWorld(c, data, layout, open));
      for (size_t p = 0; p < actual.size(); ++p) {
        const Outcome& outcome = actual[p];
        EXPECT_EQ(std::memcmp(outcome.losses.data(), expected.losses.data(), kWorldSteps * sizeof(float)), 0)
            << "process " << p << ": " << absl::StrJoin(outcome.losses, " ") << " instead of "
            << absl::StrJoin(expected.losses, " ");
        // One device has the slots whole.
        if (c.options.moving_average == 0 && !(c.options.shard_optimizer && series > 1)) {
          ASSERT_EQ(outcome.variables.size(), expected.variables.size()) << "process " << p;
        }
        for (const auto& [name, value] : expected.variables) {
          // Unless they are synchronised, the moving averages of batch normalisation are those of tower 0.
          if (p > 0 && !synchronised && name.find("moving") != std::string::npos) continue;
          if (p > 0 && absl::EndsWith(name, "/ExponentialMovingAverage")) continue;  // of tower 0
          EXPECT_TRUE(SameBits(outcome.variables.at(name), value)) << "process " << p << ", " << name;
        }
      }
    }
  }
};

TEST_P(WorldTowers, EveryLayoutHasTheBitsOfOneProcess) { Compare({{4}, {2, 2}, {1, 1, 1, 1}, {3, 1}}, OpenCpus); }

TEST_P(WorldTowers, TowersInSeriesHaveTheBitsOfTowersSideBySide) {
  const ReplicateOptions& options = GetParam().second.options;
  if (options.batch_norm == BatchNormPolicy::kSynchronised) GTEST_SKIP() << "in series they cannot meet";
  Compare({{4}, {2, 2}}, OpenCpus, 2);
  Compare({{4}}, OpenCpus, 4);
  Compare(
      {{2, 2}}, [](int count) { return OpenFakeGpus(count); }, 2);
}

// One device may have any number.
TEST(WorldTowers, AllTowersInSeriesHaveTheBitsOfTowersSideBySide) {
  for (const int towers : {3, 5, 6, 7}) {
    SCOPED_TRACE(absl::StrCat(towers, " towers"));
    Case c{.options = {.clip_global_norm = 1}, .towers = towers};
    const Data data(TestRandom());
    const auto expected = Train(c, data, 0, towers, MakeLocalCollective);
    c.options.micro_batches = towers;
    const auto actual = Train(c, data, 0, towers, MakeLocalCollective);
    ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << "\n" << actual.status();
    EXPECT_EQ(std::memcmp(actual->losses.data(), expected->losses.data(), kWorldSteps * sizeof(float)), 0);
    for (const auto& [name, value] : expected->variables) EXPECT_TRUE(SameBits(actual->variables.at(name), value));
  }
  const Case halves{.options = {.micro_batches = 3}, .towers = 6};
  EXPECT_THAT(Train(halves, Data(TestRandom()), 0, 6, MakeLocalCollective).status().message(),
              HasSubstr("micro_batches is 3, but with several devices the towers of each must be 1, 2, 4, 8, ..."));
}

// Their averages go through host memory.
TEST_P(WorldTowers, GpusOfSeveralProcessesHaveTheBitsOfCpus) {
  Compare({{2, 2}, {1, 1, 1, 1}}, [](int count) { return OpenFakeGpus(count); });
}

INSTANTIATE_TEST_SUITE_P(
    DTypes, WorldTowers,
    testing::Values(
        std::pair("float32", Case{.options = {.clip_global_norm = 1}}),
        std::pair("synchronised", Case{.options = {.batch_norm = BatchNormPolicy::kSynchronised}}),
        std::pair("bfloat16", Case{DType::kBFloat16, {.batch_norm = BatchNormPolicy::kSynchronised}}),
        // The first steps overflow and are skipped.
        std::pair(
            "float16",
            Case{DType::kFloat16,
                 {.loss_scale = optim::LossScaleOptions{.initial = 1e30, .max_scale = 1e30, .growth_interval = 3}}}),
        std::pair("table", Case{.table = true}),
        std::pair("table_bfloat16", Case{.dtype = DType::kBFloat16, .table = true}),
        std::pair("table_float16", Case{.dtype = DType::kFloat16,
                                        .options = {.loss_scale = optim::LossScaleOptions{.initial = 1e30,
                                                                                          .max_scale = 1e30,
                                                                                          .growth_interval = 3}},
                                        .table = true}),
        std::pair("sharded_table", Case{.options = {.shard_optimizer = true}, .table = true}),
        std::pair("sharded", Case{.options = {.shard_optimizer = true, .moving_average = 0.9}}),
        std::pair("sharded_clipped", Case{.options = {.shard_optimizer = true, .clip_global_norm = 1}}),
        std::pair("sharded_bfloat16",
                  Case{DType::kBFloat16, {.batch_norm = BatchNormPolicy::kSynchronised, .shard_optimizer = true}}),
        std::pair(
            "sharded_float16",
            Case{DType::kFloat16,
                 {.shard_optimizer = true,
                  .loss_scale = optim::LossScaleOptions{.initial = 1e30, .max_scale = 1e30, .growth_interval = 3}}})),
    [](const auto& info) { return info.param.first; });

TEST(WorldTowers, AParameterDeviceServesOneProcessOnly) {
  const Data data(TestRandom());
  const auto outcome =
      Train({.options = {.variable_update = VariableUpdate::kParameterDevice}}, data, 0, 2, MakeLocalCollective);
  EXPECT_THAT(outcome.status().message(), HasSubstr("several need 'replicated'"));
}

TEST(WorldTowers, TowersThatAreNotThereAreAnError) {
  const Data data(TestRandom());
  EXPECT_THAT(Train({}, data, 0, 2, MakeLocalCollective).status().message(),
              HasSubstr("is for 4 towers, but the graph has 2 of them"));
  EXPECT_THAT(Train({}, data, 3, 2, MakeLocalCollective).status().message(),
              HasSubstr("towers 3 to 4 of this process are not among 4 in all"));
}

}  // namespace
}  // namespace belfry::models
