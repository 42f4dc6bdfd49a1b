#include "benchmarks/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/machine.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::benchmarks {
namespace {

constexpr char kMin[] = "_min", kMax[] = "_max";
constexpr size_t kMaxWidth = 110, kMaxKeysWidth = 70;  // of a table, and of its columns that each part repeats

std::string Cell(const nlohmann::ordered_json& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end() || found->is_null()) return "-";
  if (found->is_string()) return found->get<std::string>();
  const std::string text = found->is_number_float() ? ShortNumber(found->get<double>()) : found->dump();
  if (!row.contains(column + kMin) || row[column + kMin] == row[column + kMax]) return text;
  return absl::StrCat(text, " [", Cell(row, column + kMin), " .. ", Cell(row, column + kMax), "]");
}

// Whether the cell of AddSpread's median shows the column, too.
bool IsShownByMedian(const nlohmann::ordered_json& row, absl::string_view column) {
  return (absl::ConsumeSuffix(&column, kMin) || absl::ConsumeSuffix(&column, kMax)) &&
         row.contains(std::string(column));
}

struct Column {
  std::string name;
  size_t width = 0;
  bool is_text = false, is_measured = false;  // measured: any of its numbers has a fraction
};

// Of the columns, each followed by two spaces.
size_t WidthOf(const std::vector<Column>& columns) {
  size_t width = 0;
  for (const Column& column : columns) width += column.width + 2;
  return width;
}

void AppendRows(const std::vector<Column>& columns, const std::vector<nlohmann::ordered_json>& rows,
                std::string& text) {
  const auto line = [&](const auto& cell) {
    std::string cells;
    for (const Column& column : columns) {
      absl::StrAppend(&cells, absl::StrFormat(column.is_text ? "%-*s  " : "%*s  ", static_cast<int>(column.width),
                                              cell(column.name)));
    }
    cells.erase(cells.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, cells, "\n");
  };
  line([](const std::string& column) { return column; });
  for (const nlohmann::ordered_json& row : rows) line([&](const std::string& column) { return Cell(row, column); });
}

// The text in lines of at most kMaxWidth, broken between words.
std::string Wrapped(const std::string& text) {
  std::string lines;
  size_t used = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool fits = used + 1 + word.size() <= kMaxWidth;
    absl::StrAppend(&lines, used == 0 ? "" : fits ? " " : "\n", word);
    used = used > 0 && fits ? used + 1 + word.size() : word.size();
  }
  return lines;
}

}  // namespace

std::string ShortNumber(double value) {
  const double size = std::abs(value);
  if (size >= 1e7 || (size > 0 && size < 1e-4)) return absl::StrFormat("%.3g", value);
  return size >= 100 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.3g", value);
}

void AddSpread(nlohmann::ordered_json& row, const std::string& key, const std::vector<double>& values) {
  row[key] = Median(values);
  row[key + kMin] = *std::min_element(values.begin(), values.end());
  row[key + kMax] = *std::max_element(values.begin(), values.end());
}

std::vector<std::string> Report::Columns() const {
  std::vector<std::string> columns;
  for (const nlohmann::ordered_json& row : rows_) {
    for (const auto& [key, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
    }
  }
  return columns;
}

std::string Report::Table() const {
  std::string text = absl::StrCat(Wrapped(title_), "\n", Wrapped(MachineText()), "\n");
  std::vector<Column> columns;
  for (const std::string& name : Columns()) {
    if (std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) { return IsShownByMedian(row, name); })) continue;
    Column& column = columns.emplace_back(Column{.name = name, .width = name.size()});
    for (const nlohmann::ordered_json& row : rows_) {
      column.width = std::max(column.width, Cell(row, name).size());
      if (!row.contains(name)) continue;
      column.is_text = column.is_text || row[name].is_string();
      column.is_measured = column.is_measured || row[name].is_number_float();
    }
  }
  // Each part of a table that is too wide begins with the columns that tell the rows apart.
  std::vector<Column> part;
  for (const Column& column : columns) {
    if (column.is_measured || WidthOf(part) + column.width > kMaxKeysWidth) break;
    part.push_back(column);
  }
  const std::vector<Column> keys = part;
  for (size_t i = keys.size(); i < columns.size(); ++i) {
    if (part.size() > keys.size() && WidthOf(part) + columns[i].width > kMaxWidth) {
      AppendRows(part, rows_, text);
      absl::StrAppend(&text, "\n");
      part = keys;
    }
    part.push_back(columns[i]);
  }
  AppendRows(part, rows_, text);
  return text;
}

std::string Report::Csv() const {
  const std::vector<std::string> columns = Columns();
  std::string text;
  const auto add = [&](size_t i, const std::string& value) {
    const bool quote = value.find_first_of(",\"\n") != std::string::npos;
    absl::StrAppend(&text, quote ? absl::StrCat("\"", absl::StrReplaceAll(value, {{"\"", "\"\""}}), "\"") : value,
                    i + 1 < columns.size() ? "," : "\n");
  };
  for (size_t i = 0; i < columns.size(); ++i) add(i, columns[i]);
  for (const nlohmann::ordered_json& row : rows_) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto found = row.find(columns[i]);
      const bool none = found == row.end() || found->is_null();
      add(i, none ? "" : found->is_string() ? found->get<std::string>() : found->dump());
    }
  }
  return text;
}

nlohmann::ordered_json Report::Json() const {
  return {{"benchmark", name_},
          {"title", title_},
          {"machine", MachineText()},
          {"date", absl::FormatTime("%Y-%m-%d %H:%M", absl::Now(), absl::UTCTimeZone())},
          {"rows", rows_},
          {"summary", summary_}};
}

absl::Status Report::Finish(const std::string& directory) const {
  std::printf("%s", Table().c_str());
  for (const std::string& line : summary_) std::printf("%s\n", Wrapped(line).c_str());
  std::printf("\n");
  if (directory.empty()) return absl::OkStatus();
  const std::filesystem::path folder(directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot create ", directory, ": ", error.message()));
  RETURN_IF_ERROR(io::WriteFile(folder / (name_ + ".json"), Json().dump(1) + "\n"));
  return io::WriteFile(folder / (name_ + ".csv"), Csv());
}

}  // namespace belfry::benchmarks
