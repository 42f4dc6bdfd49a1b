#include "models/networks/wide_deep.h"

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "models/layers/losses.h"
#include "models/layers/parameters.h"
#include "models/towers/replicate_towers.h"
#include "optim/rmsprop.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kCities = 5, kProducts = 40;
const WideDeepOptions kSmall = {.outputs = 2, .width = 3, .hidden = {8, 4}};
const std::vector<data::Field> kTableFields = {{"numbers", DType::kFloat32, {2}},
                                               {"home city", DType::kInt32, {}, kCities},
                                               {"product", DType::kInt64, {}, kProducts},
                                               {"label", DType::kInt32, {}, 2}};

TableInput Inputs(const Batch& batch) {
  return {.numbers = batch["numbers"],
          .categories = {{"home city", batch["home city"], kCities}, {"product", batch["product"], kProducts}}};
}

// Rows whose label depends on the city alone for even products, and on the first number for odd ones.
std::vector<Tensor> Rows(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Tensor> rows = {Tensor(DType::kFloat32, {n, 2}), Tensor(DType::kInt32, {n}), Tensor(DType::kInt64, {n}),
                              Tensor(DType::kInt32, {n})};
  for (int64_t i = 0; i < 2 * n; ++i) rows[0].data<float>()[i] = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t city = rows[1].data<int32_t>()[i] = static_cast<int32_t>(random() % kCities);
    const int64_t product = rows[2].data<int64_t>()[i] = static_cast<int64_t>(random() % (kProducts / 2));
    rows[3].data<int32_t>()[i] = product % 2 == 0 ? city < 2 : rows[0].data<float>()[2 * i] > 0;
  }
  return rows;
}

using WideDeepTest = ModelTest;

TEST_F(WideDeepTest, IsTheSumOfALinearModelAndAPerceptron) {
  const Batch batch(scope_, kTableFields);
  const Output y = WideDeep(scope_, Inputs(batch), {.outputs = 2, .width = 3, .hidden = {}});
  EXPECT_EQ(y.shape(), (Shape{Shape::kUnknown, 2}));
  EXPECT_THAT(VariableNames(),
              ElementsAre("wide/numbers/weights", "wide/home_city/table", "wide/product/table", "deep/home_city/table",
                          "deep/product/table", "deep/output/weights", "deep/output/biases"));
  const Node* step =
      Descent(ops::Mean(scope_, ops::Square(scope_, ops::Sub(scope_, y, ops::Const(scope_, 1.0F)))), 0.1F);
  Start();
  const std::vector<Tensor> rows = Rows(4, TestSeed());
  std::vector<Feed> feeds;
  for (size_t i = 0; i < 3; ++i) feeds.push_back({batch.placeholders()[i], rows[i]});
  EXPECT_THAT(Value(Find("wide/product/table")), testing::Each(0));
  for (int i = 0; i < 3; ++i) Run(feeds, {y}, {step});

  const auto value = [&](const char* name) { return Value(Find(name)); };
  const std::vector<double> wide = value("wide/numbers/weights"), wide_city = value("wide/home_city/table"),
                            wide_product = value("wide/product/table"), city = value("deep/home_city/table"),
                            product = value("deep/product/table"), weights = value("deep/output/weights"),
                            biases = value("deep/output/biases");
  const Tensor result = Run(feeds, {y})[0];
  for (int64_t n = 0; n < 4; ++n) {
    const int64_t c = rows[1].data<int32_t>()[n], p = rows[2].data<int64_t>()[n];
    for (int64_t k = 0; k < 2; ++k) {
      double expected = biases[k] + wide_city[2 * c + k] + wide_product[2 * p + k];
      for (int64_t i = 0; i < 2; ++i) {
        const double x = rows[0].data<float>()[2 * n + i];
        expected += x * (wide[2 * i + k] + weights[2 * (6 + i) + k]);
      }
      for (int64_t i = 0; i < 3; ++i) {
        expected += city[3 * c + i] * weights[2 * i + k] + product[3 * p + i] * weights[2 * (3 + i) + k];
      }
      EXPECT_NEAR(result.data<float>()[2 * n + k], expected, 1e-5);
    }
  }
}

TEST_F(WideDeepTest, IsThatOfThePaperByDefault) {
  const Output ids = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown});
  ASSERT_TRUE(WideDeep(scope_, {.categories = {{"app", ids, 1000}}}).valid()) << graph_.status();
  EXPECT_EQ(ParameterCount(scope_), 1000 + 1000 * 32 + 33 * 1024 + 1025 * 512 + 513 * 256 + 257);
}

TEST_F(WideDeepTest, MayHaveTheDeepPartAloneAndWidthsOfColumns) {
  const Batch batch(scope_, kTableFields);
  TableInput table = Inputs(batch);
  table.categories[1].width = 7;
  ASSERT_TRUE(WideDeep(scope_, table, {.outputs = 2, .wide = false, .width = 3, .hidden = {}}).valid());
  EXPECT_THAT(VariableNames(),
              ElementsAre("deep/home_city/table", "deep/product/table", "deep/output/weights", "deep/output/biases"));
  EXPECT_EQ(Find("deep/home_city/table").shape(), (Shape{kCities, 3}));
  EXPECT_EQ(Find("deep/product/table").shape(), (Shape{kProducts, 7}));
  EXPECT_EQ(Find("deep/output/weights").shape(), (Shape{3 + 7 + 2, 2}));
}

TEST_F(WideDeepTest, NamesTheColumnThatDoesNotFit) {
  const auto error = [](const std::function<TableInput(const Scope&)>& table) {
    Graph graph(BuiltinOps());
    EXPECT_FALSE(WideDeep(Scope(graph), table(Scope(graph))).valid());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error([](const Scope&) { return TableInput(); }), HasSubstr("has no column"));
  EXPECT_THAT(error([](const Scope& scope) {
                return TableInput{.numbers = ops::Placeholder(scope, DType::kFloat64, {-1, 2})};
              }),
              HasSubstr("WideDeep 'numbers' needs float32 [N, F]"));
  EXPECT_THAT(error([](const Scope& scope) {
                return TableInput{.categories = {{"city", ops::Placeholder(scope, DType::kInt32, {-1, 2}), 4}}};
              }),
              HasSubstr("WideDeep 'city' needs ids [N]"));
  EXPECT_THAT(error([](const Scope& scope) {
                return TableInput{.categories = {{"city", ops::Placeholder(scope, DType::kInt32, {-1})}}};
              }),
              HasSubstr("WideDeep 'city' needs the size of its vocabulary"));
}

// The losses of some steps on `towers` towers, and the ops of the plan.
struct TableTraining {
  std::vector<float> losses;
  std::map<std::string, int> ops;
};
TableTraining TrainTable(int towers, uint64_t seed) {
  TableTraining trained;
  Graph graph(BuiltinOps());
  graph.set_seed(7);
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1}).value();
  const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
    return AddCrossEntropy(tower, WideDeep(tower, Inputs(batch), kSmall), batch["label"]);
  };
  const TrainStep step =
      ReplicateTowers(Scope(graph), devices, kTableFields, model, optim::Adagrad({.learning_rate = 0.3}));
  const auto session = ValueOf(Session::Create(graph, devices));
  EXPECT_TRUE(session->RunTarget(step.initialize).ok());
  constexpr int64_t kBatch = 64;
  std::vector<FeedSpec> specs;
  for (const TrainTower& tower : step.towers) {
    for (const FeedSpec& spec : tower.batch.FeedSpecs(kBatch / towers)) specs.push_back(spec);
  }
  auto prepared = ValueOf(session->Prepare(specs, {step.loss}, {step.update}));
  for (const ProgramNode& node : prepared->plan().program.nodes) ++trained.ops[node.op->name];
  for (uint64_t i = 0; i < 100; ++i) {
    std::vector<Tensor> feeds;
    for (int t = 0; t < towers; ++t) {
      for (const Tensor& all : Rows(kBatch, seed + i)) {
        Shape shape = all.shape();
        shape.set_dim(0, kBatch / towers);
        Tensor part(all.dtype(), shape);
        std::memcpy(part.raw(), static_cast<const std::byte*>(all.raw()) + t * part.bytes(), part.bytes());
        feeds.push_back(part);
      }
    }
    EXPECT_TRUE(prepared->Run(feeds).ok());
    trained.losses.push_back(prepared->fetched(0).scalar<float>());
  }
  return trained;
}

TEST_F(WideDeepTest, LearnsOnTwoTowersAsOnOneUpdatingTheRowsOfABatch) {
  const uint64_t seed = TestSeed();
  const TableTraining one = TrainTable(1, seed), two = TrainTable(2, seed);
  float end = 0;
  for (size_t i = one.losses.size() - 20; i < one.losses.size(); ++i) end += one.losses[i] / 20;
  EXPECT_LT(end, 0.65 * one.losses.front());
  for (size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(one.losses[i], two.losses[i], 1e-3);
  EXPECT_EQ(one.ops.at("SparseApplyAdagrad"), 4);
}

TEST_F(WideDeepTest, TheUnknownCategoryStartsAtZero) {
  const Output ids = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown});
  WideDeep(scope_, {.categories = {{"city", ids, 4}}}, kSmall);
  Start();
  const std::vector<double> table = Value(Find("deep/city/table"));
  ASSERT_EQ(table.size(), 12u);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(table[i] == 0, i < 3) << i;
}

}  // namespace
}  // namespace belfry::models
