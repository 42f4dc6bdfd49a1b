// The types of a CSV file's columns, their vocabularies, and both in a checkpoint.
#include <cmath>
#include <string>
#include <vector>

#include "framework/data/table/csv.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

Table Parse(const std::string& text, const CsvOptions& options = {}) { return ValueOf(ParseCsv(text, "t", options)); }

std::vector<ColumnType> Types(const Table& table) {
  std::vector<ColumnType> types;
  for (const Column& column : table.columns) types.push_back(column.type);
  return types;
}

constexpr ColumnType kFloat = ColumnType::kFloat, kInteger = ColumnType::kInteger, kCategory = ColumnType::kCategory;

TEST(CsvColumns, HaveTheTypeOfAllTheirFields) {
  const Table table = Parse(
      "rooms,price,city,zip,code\n"
      "3,1e3,Jena,07743,1\n"
      "-4,2.5,Bonn,53111,99999999999999999999\n");
  EXPECT_THAT(Types(table), ElementsAre(kInteger, kFloat, kCategory, kCategory, kCategory));
  EXPECT_THAT(table.values[0].ToDoubles(), ElementsAre(3, -4));
  EXPECT_EQ(table.values[0].dtype(), DType::kInt64);
  EXPECT_EQ(table.values[1].dtype(), DType::kFloat32);
  EXPECT_EQ(table.values[2].dtype(), DType::kInt32);
  EXPECT_THAT(table.columns[2].vocabulary, ElementsAre("", "Bonn", "Jena"));
  EXPECT_THAT(table.values[2].ToDoubles(), ElementsAre(2, 1));
  EXPECT_EQ(ColumnsText(table.columns),
            "rooms  integer\nprice  float\ncity   category of 2: Bonn, Jena\nzip    category of 2: 53111, 07743\n"
            "code   category of 2: 1, 99999999999999999999\n");
}

TEST(CsvColumns, KeepEveryDigitOfIntegers) {
  const Table table = Parse("id,y\n16777216,0\n16777217,1\n9223372036854775807,0\n-9223372036854775808,1\n");
  EXPECT_EQ(table.values[0].span<int64_t>(), (absl::Span<const int64_t>{{16777216, 16777217, INT64_MAX, INT64_MIN}}));
  const CsvOptions integers = {.others = kInteger};
  EXPECT_THAT(Parse("007\n+8\n", integers).values[0].ToDoubles(), ElementsAre(7, 8));
  ExpectError(ParseCsv("9223372036854775808\n", "t", integers).status(), StatusCode::kInvalidArgument,
              "t:1:1: column '0': 9223372036854775808 is too large for int64");
  ExpectError(ParseCsv("1.5\n", "t", integers).status(), StatusCode::kInvalidArgument, "'1.5' is not an integer");
  ExpectError(ParseCsv("1,2\n,3\n", "t", integers).status(), StatusCode::kInvalidArgument, "t:2:1: ", "empty",
              "expected an integer");
}

TEST(CsvColumns, OfNumbersNameTheFieldThatIsMissing) {
  ExpectError(ParseCsv("a,b\n1,2\n3,\n", "t").status(), StatusCode::kInvalidArgument, "t:3:3: column 'b'", "empty");
  const Table table = Parse("a,b,c\n1,2,5\n3,,NA\nnull,4,NaN\n", {.missing_numbers = true});
  EXPECT_THAT(Types(table), ElementsAre(kFloat, kFloat, kFloat));
  EXPECT_TRUE(std::isnan(table.values[0].data<float>()[2]));
  EXPECT_TRUE(std::isnan(table.values[1].data<float>()[1]));
  EXPECT_TRUE(std::isnan(table.values[2].data<float>()[2]));
  EXPECT_EQ(table.values[2].data<float>()[0], 5);
  // Nothing says that these are numbers, and a category may be called NA.
  EXPECT_THAT(Parse("a,b\nNA,\nDE,\n", {.missing_numbers = true}).columns[0].vocabulary, ElementsAre("", "DE", "NA"));
}

TEST(CsvColumns, WarnAboutNumbersThatAreReadAsCategories) {
  const Table table = Parse("a,b\n1,x\n2,3\n?,y\n");
  EXPECT_THAT(Types(table), ElementsAre(kCategory, kCategory));
  EXPECT_THAT(table.warnings, ElementsAre("column 'a' is read as categories, because '?' in line 4 is not a number, "
                                          "although 2 of its fields are"));
}

TEST(CsvColumns, HaveTheTypesThatAreGiven) {
  ASSERT_OK_AND_ASSIGN(const auto given, ParseColumns("id:category,2:float,a:b:skip"));
  const Table table = Parse("id,a:b,y\n12,1,3\n7,2,4\n", {.columns = given});
  EXPECT_THAT(Types(table), ElementsAre(kCategory, ColumnType::kSkip, kFloat));
  EXPECT_THAT(table.columns[0].vocabulary, ElementsAre("", "7", "12"));
  ExpectError(ParseColumns("id").status(), StatusCode::kInvalidArgument, "'id' does not give", "NAME:TYPE");
  ExpectError(ParseColumns("id:int").status(), StatusCode::kInvalidArgument, "'int' is no type",
              "float, integer, category or skip");
}

TEST(CsvColumns, KeepTheirIdsInACheckpoint) {
  const Table table = Parse("x,city,n\n1.5,\"Ulm,\n\xC3\xBC\",3\n2.5,Bonn,4\n3.5,,5\n",
                            {.columns = {{.name = "n", .type = ColumnType::kSkip}}});
  EXPECT_THAT(table.values[1].ToDoubles(), ElementsAre(2, 1, kUnknownCategory));
  io::Metadata metadata;
  PutColumns(table.columns, metadata);
  ASSERT_OK_AND_ASSIGN(const auto columns, TakeColumns(metadata));
  // Bonn has the id that it had, texts of new data have none, and other columns are not needed.
  const Table later = Parse("city,x,z\nAachen,1,-\nBonn,2,-\n\"Ulm,\n\xC3\xBC\",3,-\n",
                            {.columns = columns, .others = ColumnType::kSkip});
  EXPECT_THAT(later.values[0].ToDoubles(), ElementsAre(kUnknownCategory, 1, 2));
  EXPECT_THAT(later.columns[0].vocabulary, table.columns[1].vocabulary);
  ExpectError(ParseCsv("x\n1\n", "t", {.columns = columns}).status(), StatusCode::kInvalidArgument, "no column 'city'");
}

TEST(CsvColumns, OfADamagedCheckpointAreAnError) {
  ExpectError(TakeColumns({}).status(), StatusCode::kInvalidArgument, "no columns of a table");
  for (const char* text : {"", "float", "number\nx", "category\nx", "category\nx\nBonn", "float\n\\q"}) {
    ExpectError(TakeColumns({{"table.column.0", text}}).status(), StatusCode::kInvalidArgument, "table.column.0");
  }
}

TEST(CsvColumns, AreReadableJsonInACheckpoint) {
  std::vector<Column> columns = {{.name = "city", .type = kCategory, .vocabulary = {"", "K\xC3\xB6ln, 0", "\"\n"}},
                                 {.name = "x", .type = kFloat}};
  io::Metadata metadata;
  PutColumns(columns, metadata);
  EXPECT_EQ(metadata["table.column.0"],
            "{\"name\":\"city\",\"type\":\"category\",\"vocabulary\":[\"\",\"K\xC3\xB6ln, 0\",\"\\\"\\n\"]}");
  EXPECT_EQ(metadata["table.column.1"], "{\"name\":\"x\",\"type\":\"float\"}");
  EXPECT_EQ(ColumnsText(columns), "city  category of 2: \"K\xC3\xB6ln, 0\", \"\\\"\\n\"\nx     float\n");

  // Bytes that are no text, and checkpoints of older versions.
  columns[0].vocabulary[1] = "\xff\xfe";
  PutColumns(columns, metadata);
  EXPECT_EQ(TakeColumns(metadata)->at(0).vocabulary, columns[0].vocabulary);
  metadata["table.column.0"] = "category\ncity\n\nK\\xc3\\xb6ln";
  EXPECT_THAT(TakeColumns(metadata)->at(0).vocabulary, ElementsAre("", "K\xC3\xB6ln"));
  for (const char* text :
       {"{", "{}", "{\"name\":1}", "{\"name\":\"x\",\"type\":\"number\"}", "{\"name\":\"x\",\"type\":\"category\"}",
        "{\"name\":\"x\",\"type\":\"category\",\"vocabulary\":[\"a\"]}",
        "{\"name\":\"x\",\"type\":\"category\",\"vocabulary\":[1]}"}) {
    ExpectError(TakeColumns({{"table.column.0", text}}).status(), StatusCode::kInvalidArgument, "table.column.0");
  }
}

TEST(CsvColumns, AreShownWithoutHalfACharacter) {
  const std::vector<Column> columns = {
      {.name = "c", .type = kCategory, .vocabulary = {"", std::string(19, 'x') + "\xC3\xB6y"}}};
  EXPECT_EQ(ColumnsText(columns), "c  category of 1: " + std::string(19, 'x') + "...\n");
}

TEST(CsvColumns, RareCategoriesCountAsUnknown) {
  const std::string text = "city\nKiel\nBonn\nJena\nBonn\n\"\"\nJena\nUlm\nJena\n";
  const Table table = Parse(text, {.min_category_count = 2});
  EXPECT_THAT(table.columns[0].vocabulary, ElementsAre("", "Bonn", "Jena"));
  EXPECT_THAT(table.values[0].ToDoubles(), ElementsAre(0, 1, 2, 1, 0, 2, 0, 2));
  EXPECT_THAT(Parse(text, {.min_category_count = 3}).columns[0].vocabulary, ElementsAre("", "Jena"));
  EXPECT_THAT(Parse(text, {.min_category_count = 4}).columns[0].vocabulary, ElementsAre(""));
  // A vocabulary that was given stays as it is.
  EXPECT_EQ(Parse("city\nUlm\n", {.columns = Parse(text).columns, .min_category_count = 2}).values[0].ToDoubles()[0],
            4);
}

// A model predicts from rows without the column that it was trained to predict.
TEST(CsvColumns, SomeMayBeLacking) {
  const std::vector<Column> columns = {{.name = "x", .type = kFloat}, {.name = "click", .type = kInteger}};
  const CsvOptions options = {.columns = columns, .may_lack = {"click"}};
  const Table without = Parse("x\n1.5\n", options), with = Parse("click,x\n1,2.5\n", options);
  ASSERT_EQ(without.columns.size(), 1u);
  EXPECT_THAT(without.values[0].ToDoubles(), ElementsAre(1.5));
  EXPECT_THAT(with.values[0].ToDoubles(), ElementsAre(1));
  ExpectError(ParseCsv("click\n1\n", "t", options).status(), StatusCode::kInvalidArgument, "no column 'x'");
}

}  // namespace
}  // namespace belfry::data
