#include "framework/data/table/csv.h"

#include <algorithm>
#include <set>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/in_memory.h"
#include "framework/data/table/column_reader_impl.h"
#include "framework/data/table/csv_rows.h"
#include "framework/io/file.h"

namespace belfry::data {
namespace {

bool LooksLikeHeader(const std::vector<CsvField>& row) {
  return std::any_of(row.begin(), row.end(),
                     [](const CsvField& field) { return !field.text.empty() && !IsNumber(field.text); });
}

absl::Status CheckNames(const std::vector<std::string>& names, absl::string_view file) {
  std::set<absl::string_view> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": two columns are named '", name, "'; the ", names.size(),
                                                   " columns are ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

// A file whose rows are read several times.
struct CsvText {
  absl::string_view text, name;
  const CsvOptions& options;
  std::vector<std::string> names = {};
  bool header = false;

  // Calls `use` with each row after the header, and returns the number of comments between and after them.
  template <class Use>
  absl::StatusOr<int64_t> ForEachRow(const Use& use) const {
    CsvRows rows(text, name, options.separator, options.comment);
    std::vector<CsvField> row;
    for (int64_t i = 0;; ++i) {
      ASSIGN_OR_RETURN(const bool more, rows.Next(row));
      if (!more) return rows.comments();
      if (i == 0 && header) continue;
      if (row.size() != names.size()) {
        return rows.Error(row[0].line, row[0].column,
                          absl::StrCat("the row has ", Counted(static_cast<int64_t>(row.size()), "field"),
                                       "; expected ", names.size()));
      }
      RETURN_IF_ERROR(use(rows, row));
    }
  }
};

absl::StatusOr<CsvText> OpenText(absl::string_view text, absl::string_view name, const CsvOptions& options) {
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kFloat64) {
    return absl::InvalidArgumentError(
        absl::StrCat("CSV dtype is ", DTypeName(options.dtype), "; expected float32 or float64"));
  }
  RETURN_IF_ERROR(CheckText(text, name));
  CsvText csv{text, name, options};
  CsvRows rows(text, name, options.separator, options.comment);
  std::vector<CsvField> first;
  ASSIGN_OR_RETURN(const bool any, rows.Next(first));
  if (!any) return absl::InvalidArgumentError(absl::StrCat(name, ": no rows"));
  csv.header = options.header.value_or(LooksLikeHeader(first));
  for (size_t i = 0; i < first.size(); ++i) csv.names.push_back(csv.header ? first[i].text : absl::StrCat(i));
  RETURN_IF_ERROR(CheckNames(csv.names, name));
  const std::string hint = csv.names.size() == 1 ? SeparatorHint(csv.names[0], options.separator) : "";
  if (hint.empty()) return csv;
  return absl::InvalidArgumentError(absl::StrCat(name, ": only column '", csv.names[0], "'", hint));
}

// The columns with the types that the options give, and whether each has one.
absl::Status GivenColumns(const CsvText& csv, std::vector<Column>& columns, std::vector<bool>& given) {
  for (const std::string& name : csv.names) columns.push_back({.name = name});
  given.assign(columns.size(), false);
  for (const Column& column : csv.options.columns) {
    const bool may_lack = absl::c_linear_search(csv.options.may_lack, column.name);
    if (may_lack && !absl::c_linear_search(csv.names, column.name)) continue;
    ASSIGN_OR_RETURN(const size_t i, FindColumn(csv.names, column.name, csv.name));
    if (given[i]) {
      return absl::InvalidArgumentError(absl::StrCat(csv.name, ": the column '", csv.names[i], "' is given two types"));
    }
    given[i] = true;
    columns[i] = column;
    columns[i].name = csv.names[i];
  }
  if (!csv.options.others.has_value()) return absl::OkStatus();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!given[i]) columns[i].type = *csv.options.others;
  }
  given.assign(columns.size(), true);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Table> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options) {
  ASSIGN_OR_RETURN(const CsvText csv, OpenText(text, name, options));
  Table table;
  std::vector<bool> given;
  RETURN_IF_ERROR(GivenColumns(csv, table.columns, given));
  const size_t columns = table.columns.size();
  std::vector<TypeGuess> guesses(columns);
  const auto guess = [&](const CsvRows&, const std::vector<CsvField>& row) {
    for (size_t i = 0; i < columns; ++i) {
      if (!given[i]) guesses[i].Add(row[i], options);
    }
    table.lines.push_back(row[0].line);
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const int64_t comments, csv.ForEachRow(guess));
  if (comments > 0) {
    table.warnings.push_back(absl::StrCat(
        Counted(comments, "line"), " among the rows ", comments == 1 ? "begins" : "begin", " with '",
        std::string(1, options.comment), "' and ", comments == 1 ? "is" : "are",
        " left out as comments; if they are data, set CsvOptions::comment to '\\0' or to another character"));
  }
  if (table.rows() == 0) return absl::InvalidArgumentError(absl::StrCat(name, ": no rows after the header"));

  std::vector<ColumnReader> readers;
  for (size_t i = 0; i < columns; ++i) {
    if (!given[i]) {
      table.columns[i].type = guesses[i].type();
      if (std::string warning = guesses[i].Warning(csv.names[i]); !warning.empty()) {
        table.warnings.push_back(std::move(warning));
      }
    }
    readers.emplace_back(table.columns[i], table.rows(), options);
  }
  const auto read = [&](const CsvRows& rows, const std::vector<CsvField>& row) {
    for (size_t i = 0; i < columns; ++i) RETURN_IF_ERROR(readers[i].Add(rows, row[i]));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(csv.ForEachRow(read).status());
  table.values.resize(columns);
  for (size_t i = 0; i < columns; ++i) readers[i].Finish(table.columns[i], table.values[i]);
  return table;
}

absl::StatusOr<Table> ReadCsv(const std::string& path, const CsvOptions& options) {
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

absl::StatusOr<std::unique_ptr<Dataset>> ToDataset(const Table& table) {
  std::vector<TensorField> fields;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    if (column.type == ColumnType::kSkip) continue;
    fields.push_back({.name = column.name,
                      .examples = table.values[i],
                      .categories = static_cast<int64_t>(column.vocabulary.size()),
                      .category_names = column.vocabulary});
  }
  return FromTensors(std::move(fields));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& path, const CsvOptions& options) {
  ASSIGN_OR_RETURN(const Table table, ReadCsv(path, options));
  for (const std::string& warning : table.warnings) spdlog::warn("{}: {}", path, warning);
  return ToDataset(table);
}

}  // namespace belfry::data
