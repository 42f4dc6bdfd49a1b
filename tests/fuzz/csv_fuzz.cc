// Input: a byte each for separator, comment, header and types, then the file.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "framework/data/table/csv.h"
#include "tests/framework/base/same_bits.h"
#include "tests/fuzz/fuzz.h"

namespace belfry::data {
namespace {

std::string Quoted(const std::string& text) {
  return absl::StrFormat("\"%s\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}));
}

std::string FieldText(const Table& table, size_t column, int64_t row) {
  const Tensor& values = table.values[column];
  switch (values.dtype()) {
    case DType::kInt64: return absl::StrCat(values.data<int64_t>()[row]);
    case DType::kInt32: return Quoted(table.columns[column].vocabulary[values.data<int32_t>()[row]]);
    case DType::kFloat32: return absl::StrFormat("%.17g", values.data<float>()[row]);
    default: return absl::StrFormat("%.17g", values.data<double>()[row]);
  }
}

std::string Print(const Table& table) {
  std::string text;
  for (int64_t row = -1; row < table.rows(); ++row) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ",", row < 0 ? Quoted(table.columns[i].name) : FieldText(table, i, row));
    }
    absl::StrAppend(&text, "\r\n");
  }
  return text;
}

}  // namespace
}  // namespace belfry::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::data;
  fuzz::Input input(data, size);
  CsvOptions options{.separator = static_cast<char>(input.Byte()), .comment = static_cast<char>(input.Byte())};
  if (const int header = input.Byte() % 3; header < 2) options.header = header == 1;
  const int types = input.Byte();
  options.dtype = types % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
  options.missing_numbers = types / 2 % 2 == 1;
  if (const int others = types / 4 % 4; others > 0) options.others = static_cast<ColumnType>(others - 1);
  const auto table = ParseCsv(input.Rest(), "input", options);
  if (!table.ok()) {
    BELFRY_CHECK(table.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  // The printed file would seem to be separated otherwise.
  if (table->columns.size() == 1 && table->columns[0].name.find_first_of(";\t") != std::string::npos) return 0;
  io::Metadata metadata;
  PutColumns(table->columns, metadata);
  const auto columns = TakeColumns(metadata);
  BELFRY_CHECK(columns.ok());
  const CsvOptions same = {
      .header = true, .columns = *columns, .dtype = options.dtype, .missing_numbers = options.missing_numbers};
  const auto again = ParseCsv(Print(*table), "printed", same);
  BELFRY_CHECK(again.ok());
  for (size_t i = 0; i < table->columns.size(); ++i) {
    BELFRY_CHECK(SameBits(table->values[i], again->values[i]));
    BELFRY_CHECK(table->columns[i].name == again->columns[i].name);
    BELFRY_CHECK(table->columns[i].vocabulary == again->columns[i].vocabulary);
  }
  return 0;
}
