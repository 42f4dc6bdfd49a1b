// The columns of a table: how they are read, scaled and kept.
#include "trainers/tabular/tabular_data.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"
#include "trainers/datasets/customers.h"
#include "trainers/tabular/tabular_model.h"

namespace belfry::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TabularDataTest : public ::testing::Test {
 protected:
  // Reads the text, and evaluates the training rows unless `options` say otherwise.
  absl::StatusOr<TabularData> Open(const std::string& text, TabularDataOptions options = {.validation_fraction = 0}) {
    folder_.Write("t.csv", text);
    options.path = folder_ / "t.csv";
    return OpenTabularData(options);
  }
  std::string ErrorOf(const std::string& text, const TabularDataOptions& options = {.validation_fraction = 0}) {
    return std::string(Open(text, options).status().message());
  }

  TemporaryFolder folder_;
};

// The values of a field in all examples.
template <class T>
std::vector<T> FieldOf(const data::Dataset& dataset, absl::string_view name) {
  const size_t field = data::FindField(dataset.fields(), name).value();
  std::vector<T> values;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Tensor value = data::ReadExample(dataset, i).value()[field];
    values.insert(values.end(), value.data<T>(), value.data<T>() + value.elements());
  }
  return values;
}

TEST_F(TabularDataTest, NumbersAreScaledAndLackingOnesMarked) {
  ASSERT_OK_AND_ASSIGN(const auto data, Open("a,b,y\n1,10,no\n,10,yes\n5,NA,no\n3,10,yes\n"));
  EXPECT_EQ(data.schema.task, TableTask::kBinary);
  EXPECT_THAT(data.schema.classes(), ElementsAre("no", "yes"));
  const float spread = std::sqrt(8.0F / 3);  // of 1, 5 and 3
  EXPECT_THAT(FieldOf<float>(*data.train, "numbers"),
              testing::Pointwise(testing::FloatNear(1e-6F), {-2 / spread, 0.0F, 0.0F, 0.0F,  //
                                                             0.0F, 0.0F, 1.0F, 0.0F,         //
                                                             2 / spread, 0.0F, 0.0F, 1.0F,   //
                                                             0.0F, 0.0F, 0.0F, 0.0F}));
  EXPECT_THAT(FieldOf<int32_t>(*data.train, "target"), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(data.truth, ElementsAre(0, 1, 0, 1));
  EXPECT_FALSE(data.held_out);
}

TEST_F(TabularDataTest, TheTargetSaysTheTask) {
  const auto task = [&](const std::string& text, const std::string& wanted = "auto") {
    const auto data = Open(text, {.task = wanted, .validation_fraction = 0});
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? data->schema.task : TableTask::kBinary;
  };
  const auto numbers = [](int count, const std::string& last = "") {
    std::string text = "x,y\n";
    for (int i = 0; i < 2 * count; ++i) absl::StrAppend(&text, i, ",", i % count, "\n");
    return text + last;
  };
  EXPECT_EQ(task(numbers(2)), TableTask::kBinary);
  EXPECT_EQ(task(numbers(3)), TableTask::kClasses);
  EXPECT_EQ(task(numbers(20)), TableTask::kClasses);
  EXPECT_EQ(task(numbers(21)), TableTask::kRegression);
  EXPECT_EQ(task(numbers(21), "classification"), TableTask::kClasses);
  EXPECT_EQ(task(numbers(2), "regression"), TableTask::kRegression);
  EXPECT_EQ(task(numbers(2, "5,0.5\n")), TableTask::kRegression);
}

TEST_F(TabularDataTest, ATargetOfNumbersIsScaled) {
  ASSERT_OK_AND_ASSIGN(const auto data, Open("x,y\n1,100\n2,300\n", {.task = "regression", .validation_fraction = 0}));
  EXPECT_THAT(FieldOf<float>(*data.train, "target"), ElementsAre(-1, 1));
  EXPECT_THAT(data.truth, ElementsAre(100, 300));
}

// Only rows that are trained on count, or a category would have a row of the table that nothing trains.
TEST_F(TabularDataTest, RareCategoriesOfTheTrainingRowsAreUnknown) {
  std::string text = "city,y\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&text, i % 3 == 0 ? "Bonn" : absl::StrCat("c", i), ",", i % 2, "\n");
  ASSERT_OK_AND_ASSIGN(const auto data, Open(text, {.validation_fraction = 0.5, .seed = 3}));
  EXPECT_EQ(data.train->size(), 30);
  EXPECT_EQ(data.validation->size(), 30);
  EXPECT_THAT(data.schema.features[0].vocabulary, ElementsAre("", "Bonn"));
  const std::vector<int32_t> ids = FieldOf<int32_t>(*data.train, "category.city");
  EXPECT_THAT(ids, testing::Contains(0));
  EXPECT_THAT(ids, testing::Contains(1));

  ASSERT_OK_AND_ASSIGN(const auto all, Open(text, {.min_category_count = 1, .validation_fraction = 0.5, .seed = 3}));
  EXPECT_THAT(FieldOf<int32_t>(*all.train, "category.city"), testing::Not(testing::Contains(0)));
  EXPECT_THAT(FieldOf<int32_t>(*all.validation, "category.city"), testing::Contains(0));
}

TEST_F(TabularDataTest, TheSeedDrawsTheRowsThatAreHeldOut) {
  std::string text = "x,y\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, i, ",", 0.5 + i, "\n");
  const auto truth = [&](uint64_t seed) { return Open(text, {.validation_fraction = 0.2, .seed = seed})->truth; };
  EXPECT_EQ(truth(1).size(), 20u);
  EXPECT_EQ(truth(1), truth(1));
  EXPECT_NE(truth(1), truth(2));
}

// A file to predict has its columns in any order, others besides, and new texts.
TEST_F(TabularDataTest, OtherFilesAreReadByTheSchema) {
  ASSERT_OK_AND_ASSIGN(const auto data, Open("a,city,y\n1,Bonn,0\n3,Bonn,1\n1,Jena,0\n3,Jena,1\n"));
  folder_.Write("new.csv", "city,id,a\nJena,x,3\nKiel,y,\n,z,1\n");
  ASSERT_OK_AND_ASSIGN(const auto rows, OpenTableRows(folder_ / "new.csv", {}, data.schema));
  EXPECT_THAT(FieldOf<float>(*rows.examples, "numbers"), ElementsAre(1, 0, -1));
  EXPECT_THAT(FieldOf<int32_t>(*rows.examples, "category.city"), ElementsAre(2, 0, 0));

  EXPECT_THAT(rows.truth, ElementsAre());
  folder_.Write("lacks.csv", "id,a\nx,3\n");
  EXPECT_THAT(OpenTableRows(folder_ / "lacks.csv", {}, data.schema).status().message(),
              HasSubstr("lacks.csv: no column 'city'; the 2 columns are id, a"));
}

TEST_F(TabularDataTest, OtherFilesMayHaveTheTarget) {
  const auto truth = [&](const TableSchema& schema, const std::string& text) {
    folder_.Write("new.csv", text);
    const auto rows = OpenTableRows(folder_ / "new.csv", {}, schema);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? rows->truth : std::vector<double>{-1};
  };
  const auto classes = Open("a,y\n1,u\n3,v\n"), numbers = Open("a,y\n1,0.5\n3,7\n");
  ASSERT_TRUE(classes.ok() && numbers.ok());
  EXPECT_THAT(truth(classes->schema, "y,a\nv,1\nu,2\n"), ElementsAre(1, 0));
  EXPECT_THAT(truth(classes->schema, "y,a\nv,1\nw,2\n"), ElementsAre());
  EXPECT_THAT(truth(numbers->schema, "a,y\n1,-2\n2,1e3\n"), ElementsAre(-2, 1000));
  EXPECT_THAT(truth(numbers->schema, "a,y\n1,-2\n2,?\n"), ElementsAre());
}

TEST_F(TabularDataTest, TypesMayBeGiven) {
  TabularDataOptions options{.min_category_count = 1, .validation_fraction = 0};
  options.columns = {{.name = "zip", .type = data::ColumnType::kCategory},
                     {.name = "id", .type = data::ColumnType::kSkip}};
  options.format.separator = ';';
  ASSERT_OK_AND_ASSIGN(const auto data, Open("zip;id;y\n53111;1;0\n7743;2;1\n53111;3;1\n", options));
  ASSERT_EQ(data.schema.features.size(), 1u);
  EXPECT_THAT(data.schema.features[0].vocabulary, ElementsAre("", "7743", "53111"));
}

TEST_F(TabularDataTest, AColumnWithoutTextsThatRepeatIsLeftOut) {
  ASSERT_OK_AND_ASSIGN(const auto data, Open("id,x,y\nk1,1,0\nk2,2,1\nk3,3,0\n"));
  ASSERT_EQ(data.schema.features.size(), 1u);
  EXPECT_EQ(data.schema.features[0].name, "x");
  EXPECT_THAT(ErrorOf("id,y\nk1,0\nk2,1\n"), HasSubstr("only column 'y', the target"));
}

TEST_F(TabularDataTest, ErrorsNameTheFileAndTheCure) {
  EXPECT_THAT(ErrorOf("x,y\n1,0\n2,1\n", {.target = "z"}), HasSubstr("t.csv: no column 'z'; the 2 columns are x, y"));
  EXPECT_THAT(ErrorOf("x,y\n1,a\n2,a\n"), HasSubstr("the target 'y' has one class, a, in all rows"));
  EXPECT_THAT(ErrorOf("y\n0\n1\n"), HasSubstr("only column 'y', the target; expected at least one feature"));
  EXPECT_THAT(ErrorOf("x,y\n1,a\n2,b\n3,\n"), HasSubstr("t.csv:4: the target 'y' is empty"));
  EXPECT_THAT(ErrorOf("x,y\n1,1.5\n2,NA\n"), HasSubstr("t.csv:3: the target 'y' lacks its number"));
  EXPECT_THAT(ErrorOf("x,y\n1,a\n2,b\n", {.task = "regression"}),
              HasSubstr("t.csv:2:3: column 'y': 'a' is not a number"));
  EXPECT_THAT(ErrorOf("x,y\n-1e308,0\n1.7e308,1\n"), HasSubstr("column 'x': the range of its numbers"));
  EXPECT_THAT(ErrorOf("x,y\n1,0\n", {.validation_fraction = 0.9}),
              HasSubstr("t.csv has 1 row, too few to hold some out"));
  folder_.Write("v.csv", "x,y\n1,a\n2,c\n");
  EXPECT_THAT(ErrorOf("x,y\n1,a\n2,b\n", {.validation = folder_ / "v.csv"}),
              HasSubstr("v.csv:3: the target 'y' is empty, or a class that the training rows do not have"));
}

TEST_F(TabularDataTest, ACheckpointKeepsTheSchema) {
  const TabularDataOptions options{.min_category_count = 1, .validation_fraction = 0};
  for (const char* text : {"a,city,y\n1,\"Bonn, \"\"am\"\" Rhein\",u\n,Jena,v\n3,Jena,u\n", "a,y\n0.1,0.1\n7,1e9\n",
                           "city,y\nBonn,u\nJena,v\nKiel,w\n"}) {
    const auto data = Open(text, options);
    ASSERT_TRUE(data.ok()) << data.status();
    io::Metadata metadata;
    PutSchema(data->schema, metadata);
    ASSERT_OK_AND_ASSIGN(const auto taken, TakeSchema(metadata));
    EXPECT_EQ(taken.task, data->schema.task);
    EXPECT_EQ(taken.numbers, data->schema.numbers);
    EXPECT_EQ(taken.target_scale, data->schema.target_scale);
    EXPECT_EQ(taken.target.vocabulary, data->schema.target.vocabulary);
    EXPECT_EQ(data::ColumnsText(taken.features), data::ColumnsText(data->schema.features));
    for (const char* damaged : {"", "[]", "{}", R"({"task": "binary", "numbers": [], "target": [0, 0, false]})",
                                R"({"task": "other", "numbers": [], "target": [0, 1, false]})",
                                R"({"task": "regression", "numbers": [[0, 1]], "target": [0, 1, false]})"}) {
      metadata["tabular.schema"] = damaged;
      EXPECT_THAT(TakeSchema(metadata).status().message(), HasSubstr("missing or damaged")) << damaged;
    }
  }
  EXPECT_THAT(TakeSchema({}).status().message(), HasSubstr("no columns of a table"));
}

// Figures from the generator alone; a model that knows the truth cannot tell more.
TEST(Customers, AreTheSameForASeed) {
  const data::Customers customers = data::GenerateCustomers(3000, 5);
  EXPECT_EQ(customers.csv, data::GenerateCustomers(3000, 5).csv);
  EXPECT_NE(customers.csv, data::GenerateCustomers(3000, 6).csv);
  EXPECT_GT(customers.entropy, 0.4);
  EXPECT_LT(customers.entropy, 0.6);
  const data::Table table = data::ParseCsv(customers.csv, "customers", {.missing_numbers = true}).value();
  EXPECT_EQ(table.rows(), 3000);
  EXPECT_THAT(data::ColumnsText(table.columns), HasSubstr("stays   category of 2: no, yes\n"));
}

}  // namespace
}  // namespace belfry::trainers
