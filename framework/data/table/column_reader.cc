#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/data/table/column_reader_impl.h"

namespace belfry::data {
namespace {

// Digits, perhaps after a sign.
bool IsWhole(absl::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

// A whole number that is written as int64 would be, so that the number is all that the text says.
bool IsPlainInteger(const std::string& text) {
  int64_t value;
  if (!IsWhole(text) || !absl::SimpleAtoi(text, &value)) return false;
  const size_t digits = absl::ascii_isdigit(static_cast<unsigned char>(text[0])) ? 0 : 1;
  return text[digits] != '0' || text.size() == digits + 1;
}

bool IsMissing(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower.empty() || lower == "na" || lower == "nan" || lower == "null";
}

}  // namespace

bool IsNumber(const std::string& text) {
  double value;
  return absl::SimpleAtod(text, &value);
}

void TypeGuess::Add(const CsvField& field, const CsvOptions& options) {
  if (options.missing_numbers && IsMissing(field.text)) {
    integers_ = false;
    return;
  }
  if (field.text.empty()) return;
  const bool integer = IsPlainInteger(field.text);
  if (!integer) integers_ = false;
  if (integer || (!IsWhole(field.text) && IsNumber(field.text))) {
    ++numbers_;
    return;
  }
  if (others_++ == 0) first_other_ = field;
}

ColumnType TypeGuess::type() const {
  if (others_ > 0 || numbers_ == 0) return ColumnType::kCategory;
  return integers_ ? ColumnType::kInteger : ColumnType::kFloat;
}

std::string TypeGuess::Warning(const std::string& column) const {
  if (others_ == 0 || numbers_ <= others_) return "";
  return absl::StrCat("column '", column, "' is read as categories, because '", first_other_.text, "' in line ",
                      first_other_.line, " is not a number, although ", numbers_, " of its fields are");
}

ColumnReader::ColumnReader(Column column, int64_t rows, const CsvOptions& options)
    : column_(std::move(column)), options_(options) {
  if (column_.type == ColumnType::kFloat) values_ = Tensor(options.dtype, {rows});
  if (column_.type == ColumnType::kInteger) values_ = Tensor(DType::kInt64, {rows});
  if (column_.type != ColumnType::kCategory) return;
  values_ = Tensor(DType::kInt32, {rows});
  grows_ = column_.vocabulary.empty();
  if (grows_) column_.vocabulary = {""};
  for (size_t i = 0; i < column_.vocabulary.size(); ++i) ids_.emplace(column_.vocabulary[i], static_cast<int32_t>(i));
}

absl::Status ColumnReader::Add(const CsvRows& rows, const CsvField& field) {
  absl::Status status;
  switch (column_.type) {
    case ColumnType::kFloat: status = AddFloat(rows, field); break;
    case ColumnType::kInteger: status = AddInteger(rows, field); break;
    case ColumnType::kCategory: AddCategory(field); break;
    case ColumnType::kSkip: break;
  }
  ++row_;
  return status;
}

absl::Status ColumnReader::Error(const CsvRows& rows, const CsvField& field, absl::string_view what) const {
  return rows.Error(field.line, field.column, absl::StrCat("column '", column_.name, "': ", what));
}

absl::Status ColumnReader::AddFloat(const CsvRows& rows, const CsvField& field) {
  const auto error = [&](const auto&... what) { return Error(rows, field, absl::StrCat(what...)); };
  const bool narrow = options_.dtype == DType::kFloat32;
  const absl::string_view dtype = DTypeName(options_.dtype);
  double value = std::nan("");
  if (!options_.missing_numbers || !IsMissing(field.text)) {
    if (field.text.empty()) return error("the field is empty; expected a number");
    if (!absl::SimpleAtod(field.text, &value)) {
      return error("'", field.text, "' is not a number", SeparatorHint(field.text, rows.separator()));
    }
    const double largest = narrow ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
    // An identifier that is rounded would become another one.
    if (narrow && IsWhole(field.text) && std::abs(value) <= largest && static_cast<float>(value) != value) {
      return error(field.text, " has more digits than ", dtype, " holds (", 1 << 24,
                   " is the largest integer up to which all are exact); use the type integer, or float64");
    }
    if (!(std::abs(value) <= largest)) {
      const bool digits =
          absl::ascii_isdigit(static_cast<unsigned char>(field.text.back())) || field.text.back() == '.';
      if (digits) return error(field.text, " is too large for ", dtype);
      return error("'", field.text, "' is not a finite number");
    }
    if (column_.largest > 0 && std::abs(value) > column_.largest) {
      return error(field.text, " is too large to predict; magnitudes go up to ", column_.largest);
    }
  }
  if (narrow) {
    values_.data<float>()[row_] = static_cast<float>(value);
  } else {
    values_.data<double>()[row_] = value;
  }
  return absl::OkStatus();
}

absl::Status ColumnReader::AddInteger(const CsvRows& rows, const CsvField& field) {
  if (field.text.empty()) return Error(rows, field, "the field is empty; expected an integer");
  if (IsWhole(field.text) && absl::SimpleAtoi(field.text, &values_.data<int64_t>()[row_])) return absl::OkStatus();
  return Error(rows, field,
               absl::StrCat(IsWhole(field.text) ? "" : "'", field.text,
                            IsWhole(field.text) ? " is too large for int64" : "' is not an integer",
                            SeparatorHint(field.text, rows.separator())));
}

void ColumnReader::AddCategory(const CsvField& field) {
  int32_t id = kUnknownCategory;
  if (grows_) {
    const auto [found, added] = ids_.emplace(field.text, static_cast<int32_t>(column_.vocabulary.size()));
    if (added) column_.vocabulary.push_back(field.text);
    id = found->second;
  } else if (const auto found = ids_.find(field.text); found != ids_.end()) {
    id = found->second;
  }
  values_.data<int32_t>()[row_] = id;
}

// Gives the category with id i the id ids[i].
void ColumnReader::RenumberCategories(absl::Span<const int32_t> ids) {
  for (int64_t i = 0; i < values_.elements(); ++i) {
    values_.data<int32_t>()[i] = ids[values_.data<int32_t>()[i]];
  }
}

void ColumnReader::DropRareCategories() {
  std::vector<int64_t> counts(column_.vocabulary.size());
  for (int64_t i = 0; i < values_.elements(); ++i) ++counts[values_.data<int32_t>()[i]];
  std::vector<int32_t> ids(counts.size(), kUnknownCategory);
  std::vector<std::string> kept = {""};
  ids_ = {{"", kUnknownCategory}};
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i] < options_.min_category_count) continue;
    ids[i] = static_cast<int32_t>(kept.size());
    ids_.emplace(column_.vocabulary[i], ids[i]);
    kept.push_back(std::move(column_.vocabulary[i]));
  }
  column_.vocabulary = std::move(kept);
  RenumberCategories(ids);
}

// The order of a file's rows decides nothing.
void ColumnReader::SortVocabulary() {
  std::vector<std::string>& texts = column_.vocabulary;
  const auto before = [](const std::string& a, const std::string& b) {
    const bool numbers = IsPlainInteger(a), other = IsPlainInteger(b);
    if (numbers != other) return numbers;
    int64_t x = 0, y = 0;
    if (numbers && absl::SimpleAtoi(a, &x) && absl::SimpleAtoi(b, &y) && x != y) return x < y;
    return a < b;
  };
  std::sort(texts.begin() + 1, texts.end(), before);
  std::vector<int32_t> ids(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) ids[ids_.at(texts[i])] = static_cast<int32_t>(i);
  RenumberCategories(ids);
}

void ColumnReader::Finish(Column& column, Tensor& values) {
  if (grows_ && options_.min_category_count > 1) DropRareCategories();
  if (grows_) SortVocabulary();
  column = std::move(column_);
  values = std::move(values_);
}

}  // namespace belfry::data
