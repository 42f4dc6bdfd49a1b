// Models of tables: their figures, runs, checkpoints and predictions.
#include "trainers/loop/run_directory.h"
#include "trainers/tabular/tabular_program.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"
#include "trainers/loop/run_checkpoints.h"
#include "trainers/loop/run_in_world.h"

namespace belfry::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// fastai's rule, by Python: [min(600, round(1.6 * n**0.56)) for n in (1, 2, 3, 10, 100, 1000, 10**6)]
TEST(TableModel, EmbeddingsHaveTheWidthsOfFastai) {
  std::vector<int64_t> widths;
  for (const int64_t texts : {1, 2, 3, 10, 100, 1000, 1'000'000}) widths.push_back(EmbeddingWidth(texts));
  EXPECT_THAT(widths, ElementsAre(2, 2, 3, 6, 21, 77, 600));
}

TEST(TableModel, ACheckpointKeepsIt) {
  for (const TableModel& model :
       {TableModel{.wide = false, .hidden = {7, 5}, .embedding = 3}, TableModel{.hidden = {}}}) {
    io::Metadata metadata;
    PutModel(model, metadata);
    ASSERT_OK_AND_ASSIGN(const auto taken, TakeModel(metadata));
    EXPECT_EQ(taken.wide, model.wide);
    EXPECT_EQ(taken.hidden, model.hidden);
    EXPECT_EQ(taken.embedding, model.embedding);
  }
  for (const char* damaged : {"{", "{}", R"({"wide": true, "hidden": [0], "embedding": 0})",
                              R"({"wide": true, "hidden": [4], "embedding": -1})"}) {
    EXPECT_FALSE(TakeModel({{"tabular.model", damaged}}).ok()) << damaged;
  }
}

TableSchema Classes(std::vector<std::string> names) {
  TableSchema schema{.task = names.size() == 2 ? TableTask::kBinary : TableTask::kClasses};
  schema.target = {.name = "y", .type = data::ColumnType::kCategory, .vocabulary = std::move(names)};
  schema.target.vocabulary.insert(schema.target.vocabulary.begin(), "");
  return schema;
}

TEST(TableFigures, OfTwoClasses) {
  const Tensor logits = Tensor::Of<float>({2, -1, 0.5, 200}, {4, 1});
  const Evaluation figures = TableFigures(Classes({"no", "yes"}), logits, {1, 0, 0, 1});
  ASSERT_EQ(figures.metrics.size(), 3u);
  EXPECT_EQ(figures.examples, 4);
  const double loss = std::log(1 + std::exp(-2)) + std::log(1 + std::exp(-1)) + std::log(1 + std::exp(0.5));
  EXPECT_EQ(figures.metrics[0].name, "loss");
  EXPECT_NEAR(figures.metrics[0].value, loss / 4, 1e-12);
  EXPECT_EQ(figures.metrics[1].name, "auc");
  EXPECT_EQ(figures.metrics[1].value, 1);
  EXPECT_EQ(figures.metrics[2].name, "accuracy");
  EXPECT_EQ(figures.metrics[2].value, 0.75);
}

TEST(TableFigures, OfSeveralClasses) {
  const Tensor logits = Tensor::Of<float>({1, 2, 3, 500, 0, 0}, {2, 3});
  const Evaluation figures = TableFigures(Classes({"a", "b", "c"}), logits, {1, 0});
  ASSERT_EQ(figures.metrics.size(), 2u);
  EXPECT_NEAR(figures.metrics[0].value, (std::log(std::exp(1) + std::exp(2) + std::exp(3)) - 2) / 2, 1e-12);
  EXPECT_EQ(figures.metrics[1].value, 0.5);
}

TEST(TableFigures, OfNumbersInTheirUnits) {
  TableSchema schema{.task = TableTask::kRegression, .target_scale = {.mean = 10, .deviation = 2}};
  schema.target.name = "y";
  const Tensor logits = Tensor::Of<float>({0, 1, -1}, {3, 1});  // 10, 12, 8
  const Evaluation figures = TableFigures(schema, logits, {11, 12, 7});
  EXPECT_EQ(figures.metrics[0].name, "rmse");
  EXPECT_NEAR(figures.metrics[0].value, std::sqrt(2.0 / 3), 1e-12);
  EXPECT_EQ(figures.metrics[1].name, "r2");
  EXPECT_NEAR(figures.metrics[1].value, 1 - 2 / 14.0, 1e-12);
  EXPECT_TRUE(std::isnan(TableFigures(schema, logits, {5, 5, 5}).metrics[1].value));
  EXPECT_EQ(PredictionsCsv(schema, logits), "y\n10\n12\n8\n");
}

// Names of classes and of the target may have what CSV gives a meaning.
TEST(Predictions, AreReadBack) {
  TableSchema schema = Classes({"a,b", "say \"no\"", "two\nlines", " spaces ", "#1"});
  schema.target.name = "the \"class\", wanted";
  Tensor logits = Tensor::Zeros(DType::kFloat32, {5, 5});
  for (int64_t i = 0; i < 5; ++i) logits.data<float>()[6 * i] = 3;
  for (const char separator : {',', ';'}) {
    data::CsvOptions options{.separator = separator, .header = true};
    options.columns = {{.name = "0", .type = data::ColumnType::kCategory}};
    ASSERT_OK_AND_ASSIGN(const auto table,
                         data::ParseCsv(PredictionsCsv(schema, logits, separator), "predictions", options));
    ASSERT_EQ(table.columns.size(), 6u);
    EXPECT_EQ(table.columns[0].name, schema.target.name);
    EXPECT_EQ(table.columns[2].name, "probability of say \"no\"");
    ASSERT_EQ(table.rows(), 5);
    for (int64_t row = 0; row < 5; ++row) {
      EXPECT_EQ(table.columns[0].vocabulary[table.values[0].data<int32_t>()[row]], schema.classes()[row]);
      for (int64_t k = 0; k < 5; ++k) {
        EXPECT_NEAR(table.values[k + 1].data<float>()[row], (k == row ? std::exp(3) : 1) / (4 + std::exp(3)), 1e-6);
      }
    }
  }
}

class TabularTest : public ::testing::Test {
 protected:
  // 200 rows whose class depends on the shop, for half of them together with x. Shops "rare0", "rare1" ... are of class
  // 1 and occur once each.
  TabularTest() {
    std::string text = "x,home shop,home-shop,y\n";
    for (int i = 0; i < 200; ++i) {
      const int x = i * 37 % 101 - 50, shop = i % 5;
      const bool rare = i % 10 == 9;
      const bool one = rare || (shop < 2 ? shop == 1 : x > 0);
      absl::StrAppend(&text, i % 7 == 0 ? "" : absl::StrCat(x), ",",
                      rare ? absl::StrCat("rare", i) : absl::StrCat("s", shop), ",", i % 3 == 0 ? "u" : "v", ",",
                      one ? "in" : "out", "\n");
    }
    folder_.Write("rows.csv", text);
  }

  TabularOptions Options() const {
    TabularOptions options{.schedule = {.learning_rate = 0.01, .name = "constant"}};
    options.data.path = options.data.validation = folder_ / "rows.csv";
    options.model.hidden = {16};
    return options;
  }

  // The logits of all rows after training.
  absl::StatusOr<Tensor> Train(const TabularOptions& options, int64_t steps, const std::string& spec = "cpu:1",
                               const std::string& directory = "", const std::string& export_file = "") {
    const DeviceSet devices = DeviceSet::Open(spec, {.cpu_threads = 1}).value();
    const std::unique_ptr<World> alone = World::Alone();
    TabularProgram program(options);
    ProgramRun run{
        .world = *alone, .devices = devices, .training = {.steps = steps, .quiet = true, .directory = directory}};
    run.export_file = export_file;
    run.order = {.batch_size = 33, .towers = static_cast<int>(devices.TowerDevices().size()), .seed = 1};
    RETURN_IF_ERROR(program.OpenData(run));
    ASSIGN_OR_RETURN(const std::optional<io::Checkpoint> checkpoint, FindCheckpoint(directory));
    if (checkpoint.has_value()) {
      run.training.resume.checkpoint = &*checkpoint;
      RETURN_IF_ERROR(program.Resume(run));
    }
    RETURN_IF_ERROR(RunTraining(program, run).status());
    schema_ = program.schema();
    return program.logits();
  }

  TemporaryFolder folder_;
  TableSchema schema_;
};

void ExpectNear(const Tensor& a, const Tensor& b, float error) {
  EXPECT_THAT(a.span<float>(), testing::Pointwise(testing::FloatNear(error), b.span<float>()));
}

TEST_F(TabularTest, LearnsAlsoWhatToThinkOfUnknownCategories) {
  TabularOptions options = Options();
  folder_.Write("new.csv", "x,home shop,home-shop\n40,s0,u\n-40,s1,u\n40,s2,u\n-40,s2,v\n-40,never seen,u\n,,v\n");
  options.prediction = {.rows = folder_ / "new.csv", .predictions = folder_ / "out.csv"};
  for (const bool wide : {true, false}) {
    options.model.wide = wide;
    ASSERT_EQ(Train(options, 600).status(), absl::OkStatus());
    EXPECT_EQ(schema_.features[1].vocabulary.size(), 6u);  // s0 to s4, and no rare one
    const data::Table written = data::ReadCsv(folder_ / "out.csv").value();
    std::string classes;
    for (const int32_t id : written.values[0].span<int32_t>())
      absl::StrAppend(&classes, written.columns[0].vocabulary[id], " ");
    EXPECT_EQ(classes, "out in in out in in ") << wide;
  }
}

TEST_F(TabularTest, ExportsTheModelThatItEvaluates) {
  ASSERT_OK_AND_ASSIGN(const auto logits, Train(Options(), 30, "cpu:2", "", folder_ / "model.safetensors"));
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  ASSERT_OK_AND_ASSIGN(const auto model, SavedModel::Open(folder_ / "model.safetensors", BuiltinOps(), devices));
  ASSERT_EQ(model.outputs().size(), 1u);
  EXPECT_EQ(model.outputs()[0].name, "logits");
  const TableRows rows = OpenTableRows(folder_ / "rows.csv", {}, schema_).value();
  const absl::Span<const data::Field> fields = rows.examples->fields();
  for (int64_t row = 0; row < rows.examples->size(); ++row) {
    std::vector<Tensor> values, example = data::ReadExample(*rows.examples, row).value();
    for (const auto& [name, input] : model.inputs()) {
      Tensor& value = example[data::FindField(fields, name).value()];
      values.push_back(value.Reshaped(value.shape().Insert(0, 1)));
    }
    ASSERT_OK_AND_ASSIGN(const auto outputs, model.Run(values));
    for (int64_t k = 0; k < outputs[0].elements(); ++k) {
      EXPECT_NEAR(outputs[0].data<float>()[k], logits.data<float>()[row * outputs[0].elements() + k], 1e-5);
    }
  }
  EXPECT_THAT(Train(Options(), 1, "cpu:1", "", "/nowhere/model").status().message(), HasSubstr("make /nowhere first"));
}

TEST_F(TabularTest, TwoTowersTrainAsOne) {
  ASSERT_OK_AND_ASSIGN(const auto one, Train(Options(), 40));
  ASSERT_OK_AND_ASSIGN(const auto two, Train(Options(), 40, "cpu:2"));
  ExpectNear(one, two, 1e-4F);
}

TEST_F(TabularTest, PredictionsAreThoseOfTheModelInTheRunAndAfterIt) {
  TabularOptions options = Options();
  options.prediction = {.rows = options.data.path, .predictions = folder_ / "out.csv"};
  ASSERT_OK_AND_ASSIGN(const auto logits, Train(options, 30, "cpu:2", folder_ / "run"));
  const std::string expected = PredictionsCsv(schema_, logits);
  EXPECT_EQ(Contents(folder_ / "out.csv"), expected);

  const io::Checkpoint checkpoint = io::LoadLatestCheckpoint(CheckpointFolder(folder_ / "run")).value();
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  options.prediction.predictions = folder_ / "later.csv";
  ASSERT_OK_AND_ASSIGN(const auto rows, PredictTable(options.prediction, checkpoint, devices, {}, /*batch_size=*/17));
  const std::string figures = absl::StrCat("200 rows in ", folder_ / "later.csv", " (loss ");
  EXPECT_THAT(rows, testing::StartsWith(figures));
  const data::Table first = data::ReadCsv(folder_ / "out.csv").value(),
                    later = data::ReadCsv(folder_ / "later.csv").value();
  EXPECT_EQ(first.columns[0].vocabulary, later.columns[0].vocabulary);
  for (size_t i = 1; i < 3; ++i) ExpectNear(first.values[i], later.values[i], 1e-6F);

  io::Checkpoint other = checkpoint;
  other.metadata.erase("tabular.model");
  EXPECT_THAT(PredictTable(options.prediction, other, devices, {}, 17).status().message(),
              HasSubstr("\"tabular.model\" is missing or damaged"));
  options.prediction.predictions = "/nowhere/out.csv";
  EXPECT_FALSE(PredictTable(options.prediction, checkpoint, devices, {}, 17).ok());
}

TEST_F(TabularTest, AnInterruptedRunEndsWithTheSameBits) {
  TabularOptions options = Options();
  options.model.dropout = 0.2;
  const auto whole = Train(options, 25, "cpu:2", folder_ / "whole");
  ASSERT_TRUE(Train(options, 11, "cpu:2", folder_ / "parts").ok());
  const auto parts = Train(options, 25, "cpu:2", folder_ / "parts");
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(parts.ok()) << parts.status();
  ExpectNear(*whole, *parts, 0);
}

TEST_F(TabularTest, ARunDoesNotGoOnWithOtherColumns) {
  ASSERT_TRUE(Train(Options(), 3, "cpu:1", folder_ / "run").ok());
  TabularOptions options = Options();
  options.data.columns = {{.name = "x", .type = data::ColumnType::kSkip}};
  EXPECT_THAT(Train(options, 5, "cpu:1", folder_ / "run").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("was trained on other columns, categories or numbers")));
}

TEST_F(TabularTest, PredictsNumbers) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 150; ++i)
    absl::StrAppend(&text, i % 13, ",", i % 7, ",", 1000 + 30 * (i % 13) - 20 * (i % 7), "\n");
  folder_.Write("numbers.csv", text);
  TabularOptions options = Options();
  options.data.path = options.data.validation = folder_ / "numbers.csv";
  options.data.task = "regression";
  ASSERT_OK_AND_ASSIGN(const auto logits, Train(options, 800));
  const double spread = schema_.target_scale.deviation;
  for (int i = 0; i < 150; ++i) {
    EXPECT_NEAR(logits.data<float>()[i] * spread + schema_.target_scale.mean, 1000 + 30 * (i % 13) - 20 * (i % 7),
                0.15 * spread);
  }
}

}  // namespace
}  // namespace belfry::trainers
