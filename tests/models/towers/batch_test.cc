#include "models/towers/batch.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "optim/descent.h"
#include "tests/main/testing.h"

namespace belfry::models {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<data::Field> kFields = {
    {"user", DType::kInt64, {}}, {"pair", DType::kFloat32, {2}}, {"mask", DType::kBool, {3, 1}}};

TEST(Batch, HasAPlaceholderForEachField) {
  Graph graph(BuiltinOps());
  const Batch batch(Scope(graph).NameScope("tower_0"), kFields);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(batch["pair"].name(), "tower_0/batch/pair:0");
  EXPECT_EQ(batch["user"].dtype(), DType::kInt64);
  EXPECT_EQ(batch["mask"].shape().ToString(), "[?,3,1]");
  EXPECT_EQ(batch.FeedSpecs(5)[2].shape, (Shape{5, 3, 1}));
  EXPECT_EQ(batch.FeedSpecs(5)[0].output, batch["user"]);
}

TEST(Batch, TakesTheUnknownExtentsOfItsFieldsInTheirOrder) {
  Graph graph(BuiltinOps());
  const std::vector<data::Field> fields = {
      {"text", DType::kInt32, {-1}}, {"label", DType::kInt32, {}}, {"image", DType::kFloat32, {-1, 5, -1}}};
  const Batch batch(Scope(graph), fields);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(batch["image"].shape(), Shape({-1, -1, 5, -1}));
  const std::vector<FeedSpec> specs = batch.FeedSpecs(2, {7, 8, 9});
  EXPECT_EQ(specs[0].shape, Shape({2, 7}));
  EXPECT_EQ(specs[1].shape, Shape({2}));
  EXPECT_EQ(specs[2].shape, Shape({2, 8, 5, 9}));
  data::TowerBatch tower;
  for (const FeedSpec& spec : specs) tower.fields.emplace_back(spec.output.dtype(), spec.shape);
  EXPECT_EQ(data::UnknownExtents(fields, tower), (std::vector<int64_t>{7, 8, 9}));
}

TEST(Batch, TakesFieldsOfAnyName) {
  Graph graph(BuiltinOps());
  const Batch batch(Scope(graph), {{"house price", DType::kFloat32, {}},
                                   {"house_price", DType::kFloat32, {}},
                                   {"_\xC3\xA4", DType::kFloat32, {}},
                                   {"x-1", DType::kFloat32, {}}});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(batch["house price"].name(), "batch/house_price:0");
  EXPECT_EQ(batch["house_price"].name(), "batch/house_price_1:0");
  EXPECT_EQ(batch["_\xC3\xA4"].name(), "batch/x___:0");
  EXPECT_EQ(batch["x-1"].name(), "batch/x-1:0");
}

TEST(Batch, NamesTheFieldsThereAreAndTheLineThatAsks) {
  Graph graph(BuiltinOps());
  const Batch batch(Scope(graph).NameScope("tower_1"), kFields);
  const Output missing = batch["users"];
  EXPECT_FALSE(missing.valid());
  EXPECT_THAT(graph.status().message(),
              AllOf(HasSubstr("no field 'users'; an example has user int64 [], pair float32 [2], mask bool [3,1]"),
                    HasSubstr("tower_1/"), HasSubstr("batch_test.cc:")));
  EXPECT_FALSE(Batch()["user"].valid());
}

TEST(Batch, RefusesFieldsThatCannotBe) {
  Graph graph(BuiltinOps());
  EXPECT_FALSE(Batch(Scope(graph), {{"x", DType::kFloat32, {}}, {"x", DType::kInt32, {}}})["x"].valid());
  EXPECT_THAT(graph.status().message(), HasSubstr("two fields have the name 'x'"));
}

// A model that uses integers, a matrix and a mask of each example, fed by hand; one field is used by nothing.
TEST(Batch, AnyFieldsTrainAModel) {
  std::vector<data::Field> fields = kFields;
  fields.push_back({"unused", DType::kUInt8, {4}});
  std::vector<double> losses[2];
  for (const int towers : {1, 2}) {
    Graph graph(BuiltinOps());
    graph.set_seed(3);
    const DeviceSet devices = DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1}).value();
    const auto model = [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
      const Variable table = GetVariable(tower, "table", {6, 2}, NormalInitializer(1));
      const Output rows = ops::Mul(tower, ops::Gather(tower, table, batch["user"]), batch["pair"]);
      const Output weights = ops::Mean(tower, ops::Cast(tower, batch["mask"], DType::kFloat32), {1, 2});
      return ops::Mean(tower, ops::Mul(tower, ops::Square(tower, ops::Sum(tower, rows, {1})), weights));
    };
    const TrainStep step =
        ReplicateTowers(Scope(graph), devices, fields, model, optim::GradientDescent({.learning_rate = 0.1}));
    const auto session = Session::Create(graph, devices).value();
    ASSERT_TRUE(session->RunTarget(step.initialize).ok());
    for (int i = 0; i < 4; ++i) {
      std::vector<Feed> feeds;
      for (int t = 0; t < towers; ++t) {
        data::TowerBatch part{.count = 4 / towers};
        for (const data::Field& field : fields) {
          part.fields.push_back(Tensor::Zeros(field.dtype, field.shape.Insert(0, part.count)));
        }
        for (int64_t n = 0; n < part.count; ++n) {
          const int64_t example = t * part.count + n;
          part.fields[0].data<int64_t>()[n] = example + i % 2;
          part.fields[1].data<float>()[2 * n] = static_cast<float>(example);
          part.fields[1].data<float>()[2 * n + 1] = 1;
          part.fields[2].data<bool>()[3 * n + example % 3] = true;
        }
        for (Feed& feed : step.towers[t].batch.Feeds(part)) feeds.push_back(std::move(feed));
      }
      ASSERT_OK_AND_ASSIGN(const auto fetched, session->Run(feeds, {step.loss}, {step.update}));
      losses[towers - 1].push_back(fetched[0].scalar<float>());
    }
  }
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5 * losses[0][0]);
  EXPECT_LT(losses[0][3], losses[0][1]);
}

}  // namespace
}  // namespace belfry::models
