#include "benchmarks/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"

namespace belfry::benchmarks {
namespace {

constexpr char kMin[] = "_min", kMax[] = "_max";

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

absl::Status WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path.string()));
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
  std::string text = absl::StrCat(title_, "\n", MachineText(), "\n");
  std::vector<std::string> columns = Columns();
  std::erase_if(columns, [&](const std::string& column) {
    return std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) { return IsShownByMedian(row, column); });
  });
  std::vector<size_t> widths;
  std::vector<bool> left;
  for (const std::string& column : columns) {
    size_t width = column.size();
    bool is_text = false;
    for (const nlohmann::ordered_json& row : rows_) {
      width = std::max(width, Cell(row, column).size());
      is_text = is_text || (row.contains(column) && row[column].is_string());
    }
    widths.push_back(width);
    left.push_back(is_text);
  }
  const auto line = [&](const auto& cell) {
    std::string cells;
    for (size_t i = 0; i < columns.size(); ++i) {
      absl::StrAppend(&cells,
                      absl::StrFormat(left[i] ? "%-*s  " : "%*s  ", static_cast<int>(widths[i]), cell(columns[i])));
    }
    cells.erase(cells.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, cells, "\n");
  };
  line([](const std::string& column) { return column; });
  for (const nlohmann::ordered_json& row : rows_) line([&](const std::string& column) { return Cell(row, column); });
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
  for (const std::string& line : summary_) std::printf("%s\n", line.c_str());
  std::printf("\n");
  if (directory.empty()) return absl::OkStatus();
  const std::filesystem::path folder(directory);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot create ", directory, ": ", error.message()));
  RETURN_IF_ERROR(WriteText(folder / (name_ + ".json"), Json().dump(1) + "\n"));
  return WriteText(folder / (name_ + ".csv"), Csv());
}

}  // namespace belfry::benchmarks
