#include "framework/data/csv.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/in_memory.h"
#include "framework/io/file.h"

namespace belfry::data {
namespace {

struct CsvField {
  std::string text;
  int64_t line = 0, column = 0;  // position of the first byte, counted from 1
};

// Splits the text into rows of fields.
class RowReader {
 public:
  RowReader(absl::string_view text, absl::string_view name, const CsvOptions& options)
      : text_(text), name_(name), options_(options) {
    if (absl::StartsWith(text_, "\xEF\xBB\xBF")) at_ = line_start_ = 3;
  }

  // Reads the next row that is neither blank nor a comment; false at the end.
  absl::StatusOr<bool> Next(std::vector<CsvField>& row) {
    row.clear();
    while (at_ < text_.size() && SkipLine()) {
    }
    if (at_ >= text_.size()) return false;
    do {
      row.emplace_back();
      RETURN_IF_ERROR(ReadField(row.back()));
    } while (TakeSeparator());
    return true;
  }

  absl::Status Error(int64_t line, int64_t column, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line, ":", column, ": ", message));
  }

 private:
  int64_t column() const { return static_cast<int64_t>(at_ - line_start_) + 1; }
  bool AtLineEnd() const { return at_ >= text_.size() || text_[at_] == '\n'; }
  bool IsSpace(char c) const { return c != options_.separator && (c == ' ' || c == '\t' || c == '\r'); }

  void StartLine() {
    at_ = std::min(at_ + 1, text_.size());
    line_start_ = at_;
    ++line_;
  }

  // Skips the current line if it is blank or a comment.
  bool SkipLine() {
    size_t end = std::min(text_.find('\n', at_), text_.size());
    const absl::string_view line = absl::StripAsciiWhitespace(text_.substr(at_, end - at_));
    const bool comment = options_.comment != '\0' && !line.empty() && line[0] == options_.comment;
    if (!line.empty() && !comment) return false;
    at_ = end;
    StartLine();
    return true;
  }

  bool TakeSeparator() {
    if (at_ < text_.size() && text_[at_] == options_.separator) {
      ++at_;
      return true;
    }
    if (at_ < text_.size()) StartLine();
    return false;
  }

  absl::Status ReadField(CsvField& field) {
    while (!AtLineEnd() && IsSpace(text_[at_])) ++at_;
    field.line = line_;
    field.column = column();
    if (!AtLineEnd() && text_[at_] == '"') return ReadQuoted(field);
    const size_t start = at_;
    while (!AtLineEnd() && text_[at_] != options_.separator) ++at_;
    field.text = std::string(absl::StripTrailingAsciiWhitespace(text_.substr(start, at_ - start)));
    const size_t cr = field.text.find('\r');
    if (cr == std::string::npos) return absl::OkStatus();
    return Error(line_, field.column + static_cast<int64_t>(cr),
                 "a CR within the line: some lines of the file end in CR alone; expected LF or CR LF");
  }

  absl::Status ReadQuoted(CsvField& field) {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      field.text.push_back(text_[at_]);
      if (text_[at_] == '\n') {
        line_start_ = at_ + 1;
        ++line_;
      }
    }
    if (at_ >= text_.size()) return Error(field.line, field.column, "this quote is not closed");
    ++at_;
    while (!AtLineEnd() && IsSpace(text_[at_])) ++at_;
    if (AtLineEnd() || text_[at_] == options_.separator) return absl::OkStatus();
    return Error(line_, column(),
                 absl::StrCat("text after a closing quote; expected '", std::string(1, options_.separator),
                              "' or the end of the line"));
  }

  const absl::string_view text_;
  const absl::string_view name_;
  const CsvOptions& options_;
  size_t at_ = 0, line_start_ = 0;
  int64_t line_ = 1;
};

// An error for a file that is not text of this kind: in UTF-16, binary, or with line ends of CR alone.
absl::Status CheckText(absl::string_view text, absl::string_view name) {
  const auto error = [&](auto&&... what) { return absl::InvalidArgumentError(absl::StrCat(name, what...)); };
  for (const auto& [mark, bytes] : {std::pair("\xFF\xFE", "FF FE"), std::pair("\xFE\xFF", "FE FF")}) {
    if (!absl::StartsWith(text, mark)) continue;
    return error(": the text is UTF-16, as it begins with the byte order mark ", bytes, "; save it as UTF-8, as by ",
                 "iconv -f UTF-16 -t UTF-8 ", name, " > utf8.csv");
  }
  if (const size_t at = text.find('\0'); at != text.npos) {
    const size_t line_end = text.rfind('\n', at);
    const int64_t line = 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n');
    return error(":", line, ":", line_end == text.npos ? at + 1 : at - line_end,
                 ": a byte of value 0 (NUL), which no text has: the file is damaged, binary, or UTF-16 without a byte ",
                 "order mark; if it is UTF-16, save it as UTF-8, as by iconv -f UTF-16LE -t UTF-8 ", name,
                 " > utf8.csv");
  }
  const absl::string_view inner = absl::StripAsciiWhitespace(text);
  if (inner.find('\n') == inner.npos && inner.find('\r') != inner.npos) {
    return error(": the lines end in CR alone; expected LF or CR LF. Convert them, as by tr '\\r' '\\n' < ", name,
                 " > lines.csv");
  }
  return absl::OkStatus();
}

bool IsNumber(const std::string& text) {
  double value;
  return absl::SimpleAtod(text, &value);
}

// A hint for text that another character than the separator seems to divide.
std::string SeparatorHint(absl::string_view text, char separator) {
  for (const auto& [other, name] : {std::pair(';', "';'"), std::pair('\t', "tabs")}) {
    if (other == separator || !absl::StrContains(text, other)) continue;
    return absl::StrCat(". The fields seem to be separated by ", name, "; expected '", std::string(1, separator), "'");
  }
  return "";
}

absl::StatusOr<double> ParseNumber(const RowReader& reader, const CsvField& field, const std::string& column,
                                   const CsvOptions& options) {
  const DType dtype = options.dtype;
  const auto error = [&](absl::string_view what) {
    return reader.Error(field.line, field.column, absl::StrCat("column '", column, "': ", what));
  };
  if (field.text.empty()) return error("the field is empty; expected a number");
  double value;
  if (!absl::SimpleAtod(field.text, &value)) {
    return error(absl::StrCat("'", field.text, "' is not a number", SeparatorHint(field.text, options.separator)));
  }
  const double largest =
      dtype == DType::kFloat32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  // An identifier that is rounded would become another one.
  const bool integer = field.text.find_first_not_of("+-0123456789") == std::string::npos;
  if (integer && dtype == DType::kFloat32 && std::abs(value) <= largest && static_cast<float>(value) != value) {
    return error(absl::StrCat(field.text, " has more digits than ", DTypeName(dtype), " holds (", 1 << 24,
                              " is the largest integer up to which all are exact); use float64, or drop the column"));
  }
  if (std::abs(value) <= largest) return value;
  const bool digits = absl::ascii_isdigit(static_cast<unsigned char>(field.text.back())) || field.text.back() == '.';
  return error(digits ? absl::StrCat(field.text, " is too large for ", DTypeName(dtype))
                      : absl::StrCat("'", field.text, "' is not a finite number"));
}

// The index of the column that `wanted` names, or whose number it is.
absl::StatusOr<size_t> FindColumn(const std::vector<std::string>& names, const std::string& wanted,
                                  absl::string_view file) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == wanted) return i;
  }
  uint32_t number;
  if (absl::SimpleAtoi(wanted, &number) && number < names.size()) return number;
  return absl::InvalidArgumentError(absl::StrCat(file, ": no column '", wanted, "'; the ", names.size(),
                                                 " columns are ", absl::StrJoin(names, ", ")));
}

struct Columns {
  std::vector<size_t> features;
  size_t target = 0;
};

absl::Status CheckNames(const std::vector<std::string>& names, absl::string_view file) {
  std::set<absl::string_view> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": two columns are named '", name, "'; the ", names.size(),
                                                   " columns are ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<Columns> ChooseColumns(const std::vector<std::string>& names, absl::string_view file,
                                      const CsvOptions& options) {
  Columns columns;
  columns.target = names.size() - 1;
  if (!options.target.empty()) {
    ASSIGN_OR_RETURN(columns.target, FindColumn(names, options.target, file));
  }
  for (const std::string& feature : options.features) {
    ASSIGN_OR_RETURN(const size_t column, FindColumn(names, feature, file));
    columns.features.push_back(column);
  }
  if (options.features.empty()) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (i != columns.target) columns.features.push_back(i);
    }
  }
  if (columns.features.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": only column '", names[columns.target],
                                                   "', the target; expected at least one feature",
                                                   SeparatorHint(names[columns.target], options.separator)));
  }
  return columns;
}

std::vector<std::string> ColumnNames(const std::vector<CsvField>& row, bool header) {
  std::vector<std::string> names;
  for (const CsvField& field : row) names.push_back(header ? field.text : absl::StrCat(names.size()));
  return names;
}

Tensor ToTensor(const std::vector<double>& values, const Shape& shape, DType dtype) {
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFloat32) {
      tensor.data<float>()[i] = static_cast<float>(values[i]);
    } else {
      tensor.data<double>()[i] = values[i];
    }
  }
  return tensor;
}

bool LooksLikeHeader(const std::vector<CsvField>& row) {
  for (const CsvField& field : row) {
    if (!field.text.empty() && !IsNumber(field.text)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options) {
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kFloat64) {
    return absl::InvalidArgumentError(
        absl::StrCat("CSV dtype is ", DTypeName(options.dtype), "; expected float32 or float64"));
  }
  RETURN_IF_ERROR(CheckText(text, name));
  RowReader reader(text, name, options);
  std::vector<CsvField> row;
  ASSIGN_OR_RETURN(bool more, reader.Next(row));
  if (!more) return absl::InvalidArgumentError(absl::StrCat(name, ": no rows"));
  const bool header = options.header.value_or(LooksLikeHeader(row));
  const std::vector<std::string> names = ColumnNames(row, header);
  RETURN_IF_ERROR(CheckNames(names, name));
  ASSIGN_OR_RETURN(const Columns columns, ChooseColumns(names, name, options));
  if (header) {
    ASSIGN_OR_RETURN(more, reader.Next(row));
    if (!more) return absl::InvalidArgumentError(absl::StrCat(name, ": no rows after the header"));
  }

  std::vector<double> features, targets;
  while (more) {
    if (row.size() != names.size()) {
      return reader.Error(row[0].line, row[0].column,
                          absl::StrCat("the row has ", Counted(static_cast<int64_t>(row.size()), "field"),
                                       "; expected ", names.size()));
    }
    for (size_t column : columns.features) {
      ASSIGN_OR_RETURN(const double value, ParseNumber(reader, row[column], names[column], options));
      features.push_back(value);
    }
    ASSIGN_OR_RETURN(const double target, ParseNumber(reader, row[columns.target], names[columns.target], options));
    if (options.largest_target > 0 && std::abs(target) > options.largest_target) {
      const CsvField& field = row[columns.target];
      return reader.Error(field.line, field.column,
                          absl::StrCat("column '", names[columns.target], "': ", field.text,
                                       " is too large to predict; magnitudes go up to ", options.largest_target));
    }
    targets.push_back(target);
    ASSIGN_OR_RETURN(more, reader.Next(row));
  }

  CsvTable table;
  const auto rows = static_cast<int64_t>(targets.size());
  table.features = ToTensor(features, Shape{rows, static_cast<int64_t>(columns.features.size())}, options.dtype);
  table.targets = ToTensor(targets, Shape{rows}, options.dtype);
  for (size_t column : columns.features) table.feature_names.push_back(names[column]);
  table.target_name = names[columns.target];
  return table;
}

absl::StatusOr<CsvTable> ReadCsv(const std::string& path, const CsvOptions& options) {
  const absl::StatusOr<std::string> text = io::ReadFile(path, options.max_bytes);
  if (absl::IsResourceExhausted(text.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(text.status().message(),
                     "; cut the file, or raise the limit (--csv_limit, CsvOptions::max_bytes) if the "
                     "memory holds several times that"));
  }
  RETURN_IF_ERROR(text.status());
  return ParseCsv(*text, path, options);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& path, CsvOptions options) {
  options.dtype = DType::kFloat32;
  ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(path, options));
  return FromTensors({{"features", table.features}, {"target", table.targets}});
}

}  // namespace belfry::data
