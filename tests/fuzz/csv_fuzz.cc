// Input: a byte each for separator, comment, header and dtype, then the file.
#include "framework/data/csv.h"

#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tests/framework/base/same_bits.h"
#include "tests/fuzz/fuzz.h"

namespace belfry::data {
namespace {

double Value(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kFloat32 ? tensor.data<float>()[i] : tensor.data<double>()[i];
}

std::string Quoted(const std::string& name) {
  return absl::StrFormat("\"%s\"", absl::StrReplaceAll(name, {{"\"", "\"\""}}));
}

std::string Print(const CsvTable& table) {
  std::string text;
  for (const std::string& name : table.feature_names) absl::StrAppend(&text, Quoted(name), ",");
  absl::StrAppend(&text, Quoted(table.target_name), "\n");
  const int64_t rows = table.features.shape().dim(0), columns = table.features.shape().dim(1);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i)
      absl::StrAppendFormat(&text, "%.17g,", Value(table.features, row * columns + i));
    absl::StrAppendFormat(&text, "%.17g\r\n", Value(table.targets, row));
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
  options.dtype = input.Byte() % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
  const auto table = ParseCsv(input.Rest(), "input", options);
  if (!table.ok()) {
    BELFRY_CHECK(table.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  const std::string printed = Print(*table);
  const auto again = ParseCsv(printed, "printed", {.header = true, .dtype = options.dtype});
  BELFRY_CHECK(again.ok());
  BELFRY_CHECK(SameBits(table->features, again->features) && SameBits(table->targets, again->targets));
  BELFRY_CHECK(table->feature_names == again->feature_names && table->target_name == again->target_name);
  return 0;
}
