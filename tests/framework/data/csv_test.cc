#include "framework/data/table/csv.h"

#include <cmath>
#include <vector>

#include "spdlog/fmt/fmt.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// All columns are numbers.
const CsvOptions kNumbers = {.others = ColumnType::kFloat};

std::vector<double> Values(const Table& table, size_t column) { return table.values[column].ToDoubles(); }

std::vector<std::string> Names(const Table& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  return names;
}

TEST(Csv, ReadsRowsWithAndWithoutHeader) {
  ASSERT_OK_AND_ASSIGN(const auto plain, ParseCsv("1,2.5,-3e2\n4,+5,6", "t"));
  EXPECT_THAT(Values(plain, 0), ElementsAre(1, 4));
  EXPECT_THAT(Values(plain, 1), ElementsAre(2.5, 5));
  EXPECT_THAT(Values(plain, 2), ElementsAre(-300, 6));
  EXPECT_THAT(Names(plain), ElementsAre("0", "1", "2"));
  EXPECT_THAT(plain.lines, ElementsAre(1, 2));

  ASSERT_OK_AND_ASSIGN(const auto named, ParseCsv("x,y,price\n1,2,3\n", "t"));
  EXPECT_THAT(Names(named), ElementsAre("x", "y", "price"));
  EXPECT_EQ(named.values[2].shape(), Shape{1});
  EXPECT_THAT(named.lines, ElementsAre(2));

  ASSERT_OK_AND_ASSIGN(const auto numbers_as_header, ParseCsv("1,2\n3,4\n", "t", {.header = true}));
  EXPECT_THAT(Values(numbers_as_header, 0), ElementsAre(3));
}

TEST(Csv, SkipsCommentsBlankLinesByteOrderMarkAndCarriageReturns) {
  const auto table =
      ParseCsv("\xEF\xBB\xBF# about\r\n\r\n a ; b \r\n \t\r\n1 ;  2\r\n  # more\r\n3;4", "t", {.separator = ';'});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Names(*table), ElementsAre("a", "b"));
  EXPECT_THAT(Values(*table, 0), ElementsAre(1, 3));
  EXPECT_THAT(Values(*table, 1), ElementsAre(2, 4));
  EXPECT_THAT(table->lines, ElementsAre(5, 7));
}

TEST(Csv, ReadsQuotedFieldsWithSeparatorsQuotesAndLineEnds) {
  ASSERT_OK_AND_ASSIGN(const auto table, ParseCsv("\"a,\"\"1\"\"\",\"two\nlines\",t\n\"1\" ,\"2\",\"3\"\n", "t"));
  EXPECT_THAT(Names(table), ElementsAre("a,\"1\"", "two\nlines", "t"));
  EXPECT_THAT(Values(table, 1), ElementsAre(2));
  ExpectError(ParseCsv("a,b\n1,\"2\n3,4\n", "t").status(), StatusCode::kInvalidArgument, "t:2:3", "not closed");
  ExpectError(ParseCsv("a,b\n1,\"2\"x\n", "t").status(), StatusCode::kInvalidArgument, "t:2:6",
              "after a closing quote");
  // The line number includes the line end inside the quotes.
  ExpectError(ParseCsv("\"a\nb\",c\n1,x\n", "t", kNumbers).status(), StatusCode::kInvalidArgument, "t:3:3", "'x'");
}

TEST(Csv, TabsAreSeparatorsWhenAskedFor) {
  ASSERT_OK_AND_ASSIGN(const auto table, ParseCsv("1\t2\t3\n", "t", {.separator = '\t'}));
  EXPECT_THAT(Values(table, 1), ElementsAre(2));
  ExpectError(ParseCsv("1\t\t3\n", "t", {.separator = '\t', .others = ColumnType::kFloat}).status(),
              StatusCode::kInvalidArgument, "t:1:3", "empty");
}

TEST(Csv, ChoosesColumnsByNameOrNumber) {
  const std::string text = "id,x,y,note\n7,1,2,ab\n8,3,4,\n";
  ASSERT_OK_AND_ASSIGN(const auto table,
                       ParseCsv(text, "t", {.columns = {{"y"}, {"0"}, {"-3"}}, .others = ColumnType::kSkip}));
  EXPECT_THAT(Values(table, 0), ElementsAre(7, 8));
  EXPECT_THAT(Values(table, 1), ElementsAre(1, 3));
  EXPECT_THAT(Values(table, 2), ElementsAre(2, 4));
  EXPECT_EQ(table.values[3].elements(), 0);
  EXPECT_THAT(Names(table), ElementsAre("id", "x", "y", "note"));
  ExpectError(ParseCsv(text, "t", {.columns = {{"z"}}}).status(), StatusCode::kInvalidArgument, "no column 'z'",
              "id, x, y, note");
  for (const char* number : {"4", "-5"}) {
    ExpectError(ParseCsv(text, "t", {.columns = {{number}}}).status(), StatusCode::kInvalidArgument, "no column '",
                number);
  }
  ExpectError(ParseCsv(text, "t", {.columns = {{"x"}, {"1"}}}).status(), StatusCode::kInvalidArgument,
              "the column 'x' is given two types");
}

TEST(Csv, ErrorsNameLineAndColumn) {
  const auto error = [](const std::string& text) { return ParseCsv(text, "dir/f.csv", kNumbers).status(); };
  ExpectError(error("a,b\n1,2\n 3, x7\n"), StatusCode::kInvalidArgument, "dir/f.csv:3:5: ", "column 'b'", "'x7'");
  ExpectError(error("1,2\n3,\n"), StatusCode::kInvalidArgument, "dir/f.csv:2:3: ", "empty");
  ExpectError(error("1,2\n3\n"), StatusCode::kInvalidArgument, "dir/f.csv:2:1: ", "1 field; expected 2");
  ExpectError(error("1,2\n3,4,5\n"), StatusCode::kInvalidArgument, "dir/f.csv:2:1: ", "3 fields; expected 2");
  ExpectError(error("# nothing\n\n"), StatusCode::kInvalidArgument, "dir/f.csv: no rows");
  ExpectError(error("a,b\n"), StatusCode::kInvalidArgument, "no rows after the header");
  ExpectError(error(""), StatusCode::kInvalidArgument, "no rows");
}

TEST(Csv, HintsAtAnotherSeparator) {
  const auto error = [](const char* text) { return ParseCsv(text, "t", kNumbers).status(); };
  ExpectError(error("a;b\n1;2\n"), StatusCode::kInvalidArgument, "only column 'a;b'", "separated by ';'; expected ','");
  ExpectError(error("1\t2\n3\t4\n"), StatusCode::kInvalidArgument, "separated by tabs; expected ','");
  // Decimal commas.
  ExpectError(error("1,5;2\n3,5;4\n"), StatusCode::kInvalidArgument, "'5;4' is not a number", "separated by ';'");
  EXPECT_THAT(error("1,x\n2,y\n").message(), testing::Not(testing::HasSubstr("separated")));
}

TEST(Csv, SaysWhatKindOfFileItCannotRead) {
  const auto error = [](absl::string_view text) { return ParseCsv(text, "dir/f.csv").status(); };
  using namespace std::string_literals;
  ExpectError(error("\xFF\xFE"
                    "a\0,\0b\0\n\0"s),
              StatusCode::kInvalidArgument, "UTF-16", "byte order mark FF FE", "iconv -f UTF-16 -t UTF-8 dir/f.csv");
  ExpectError(error("\xFE\xFF"
                    "\0a\0,\0b\0\n"s),
              StatusCode::kInvalidArgument, "UTF-16", "byte order mark FE FF");
  ExpectError(error("a\0,\0b\0\n\0"s), StatusCode::kInvalidArgument, "dir/f.csv:1:2: ", "NUL", "UTF-16", "iconv");
  ExpectError(error("a,b\n1,2\n3,\0004\n"s), StatusCode::kInvalidArgument, "dir/f.csv:3:3: ", "NUL", "damaged");
  for (const char* text : {"a,b\r1,2\r3,4\r", "1,2\r3,4", "# two columns\ra,b\r1,2\r", "a,\r1,2", "1\r2\r"}) {
    ExpectError(error(text), StatusCode::kInvalidArgument, "dir/f.csv: ", "end in CR alone",
                "tr '\\r' '\\n' < dir/f.csv");
  }
  ExpectError(error("a,b\n1,2\r3,4\n"), StatusCode::kInvalidArgument, "dir/f.csv:2:4: ", "CR within the line");
  EXPECT_TRUE(error("a,b\r\n1,2\r\r\n3,4\r").ok());
  EXPECT_TRUE(error("\"a\rb\",c\n1,2\n").ok());
}

TEST(Csv, RejectsWhatIsNotFinite) {
  for (const char* text : {"nan", "-NaN", "inf", "-Infinity"}) {
    ExpectError(ParseCsv(std::string("1,2\n1,") + text, "t").status(), StatusCode::kInvalidArgument, "t:2:3",
                "not a finite number", text);
  }
  ExpectError(ParseCsv("1,1e39", "t").status(), StatusCode::kInvalidArgument, "1e39 is too large for float32");
  ExpectError(ParseCsv("1,-1e400", "t", {.dtype = DType::kFloat64}).status(), StatusCode::kInvalidArgument,
              "-1e400 is too large for float64");
  ASSERT_OK_AND_ASSIGN(const auto wide, ParseCsv("1,1e39", "t", {.dtype = DType::kFloat64}));
  EXPECT_THAT(Values(wide, 1), ElementsAre(1e39));
  ExpectError(ParseCsv("1,2", "t", {.dtype = DType::kInt32}).status(), StatusCode::kInvalidArgument, "int32");
}

TEST(Csv, RejectsIntegersThatWouldBeRounded) {
  ExpectError(ParseCsv("id,y\n16777216,1\n16777217,1\n", "t", kNumbers).status(), StatusCode::kInvalidArgument, "t:3:1",
              "column 'id'", "16777217 has more digits than float32 holds");
  ASSERT_OK_AND_ASSIGN(const auto wide,
                       ParseCsv("16777217,1\n", "t", {.others = ColumnType::kFloat, .dtype = DType::kFloat64}));
  EXPECT_THAT(Values(wide, 0), ElementsAre(16777217));
  // Powers of two are exact, and a fraction is a measurement.
  EXPECT_TRUE(ParseCsv("33554432,16777217.5\n", "t", kNumbers).ok());
}

TEST(Csv, FilesUpToALimit) {
  const TemporaryFolder folder;
  folder.Write("t.csv", "1,2\n3,4\n");
  EXPECT_TRUE(ReadCsv(folder / "t.csv", {.max_bytes = 8}).ok());
  std::filesystem::resize_file(folder / "t.csv", uint64_t{1} << 40);
  ExpectError(ReadCsv(folder / "t.csv").status(), StatusCode::kResourceExhausted, folder / "t.csv",
              "has 1099511627776 bytes, more than the limit of 1073741824; cut the file, or raise the limit");
}

TEST(Csv, NumbersUpToABound) {
  const CsvOptions options = {.columns = {{.name = "-1", .largest = 1e18}}, .dtype = DType::kFloat64};
  ExpectError(ParseCsv("x,y\n1e300,2\n3,-1e39\n", "dir/f.csv", options).status(), StatusCode::kInvalidArgument,
              "dir/f.csv:3:3: ", "column 'y'", "-1e39 is too large to predict", "1e+18");
  EXPECT_TRUE(ParseCsv("x,y\n1e300,-1e18\n", "t", options).ok());
}

TEST(Csv, ColumnsHaveNamesOfTheirOwn) {
  ExpectError(ParseCsv("a,b,a,y\n1,2,3,4\n", "f.csv").status(), StatusCode::kInvalidArgument,
              "f.csv: two columns are named 'a'", "a, b, a, y");
}

TEST(Csv, RandomNumbersComeBackExactly) {
  FreshRandom random;
  std::string text;
  std::vector<double> expected;
  for (int row = 0; row < 50; ++row) {
    for (int column = 0; column < 4; ++column) {
      const double value = std::ldexp(static_cast<double>(random.Between(-1'000'000'000, 1'000'000'000)),
                                      static_cast<int>(random.Between(-60, 60)));
      text += fmt::format("{:.17g}{}", value, column == 3 ? '\n' : ',');
      expected.push_back(value);
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto table, ParseCsv(text, "t", {.others = ColumnType::kFloat, .dtype = DType::kFloat64}));
  std::vector<double> values;
  for (int64_t row = 0; row < table.rows(); ++row) {
    for (const Tensor& column : table.values) values.push_back(column.data<double>()[row]);
  }
  EXPECT_EQ(values, expected);
}

TEST(Csv, RandomBytesNeverCrash) {
  FreshRandom random;
  const std::string alphabet = "01.,\"\n\r# -ea\t";
  for (int i = 0; i < 2'000; ++i) {
    std::string text(static_cast<size_t>(random.Between(0, 40)), ' ');
    for (char& c : text) c = alphabet[random.Between(0, static_cast<int64_t>(alphabet.size()) - 1)];
    const auto table = ParseCsv(text, "t");
    EXPECT_TRUE(!table.ok() || table->values[0].elements() > 0);
  }
}

TEST(Csv, OpensFilesAsDatasets) {
  TemporaryFolder folder;
  folder.Write("f.csv", "x,city,id,note\n1.5,Jena,2,-\n3.5,Bonn,16777217,-\n");
  ASSERT_OK_AND_ASSIGN(const auto dataset,
                       OpenCsv(folder / "f.csv", {.columns = {{.name = "note", .type = ColumnType::kSkip}}}));
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(FieldsText(dataset->fields()), "x float32 [], city int32 [], id int64 []");
  EXPECT_THAT(dataset->fields()[1].category_names, ElementsAre("", "Bonn", "Jena"));
  const std::vector<Tensor> example = ReadExample(*dataset, 1).value();
  EXPECT_EQ(example[0].scalar<float>(), 3.5);
  EXPECT_EQ(example[1].scalar<int32_t>(), 1);
  EXPECT_EQ(example[2].scalar<int64_t>(), 16777217);
  ExpectError(OpenCsv(folder / "none.csv").status(), StatusCode::kNotFound, "none.csv");
  ExpectError(OpenCsv(folder.path()).status(), StatusCode::kInvalidArgument, folder.path());
}

TEST(Csv, WarnsOfRowsThatAreTakenForComments) {
  ASSERT_OK_AND_ASSIGN(const auto table, ParseCsv("# written by hand\ntag,n\n#a,1\nb,2\n#c,3\n", "t"));
  EXPECT_EQ(table.rows(), 1);
  ASSERT_EQ(table.warnings.size(), 1u);
  EXPECT_THAT(table.warnings[0], testing::HasSubstr("2 lines among the rows begin with '#'"));
  ASSERT_OK_AND_ASSIGN(const auto all, ParseCsv("tag,n\n#a,1\nb,2\n", "t", {.comment = '\0'}));
  EXPECT_EQ(all.rows(), 2);
  EXPECT_TRUE(all.warnings.empty());
  EXPECT_TRUE(ParseCsv("# a note\n1\n", "t")->warnings.empty());
}

}  // namespace
}  // namespace belfry::data
