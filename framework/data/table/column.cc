#include "framework/data/table/column.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/json_impl.h"

namespace belfry::data {
namespace {

constexpr ColumnType kTypes[] = {ColumnType::kFloat, ColumnType::kInteger, ColumnType::kCategory, ColumnType::kSkip};
constexpr char kKey[] = "table.column.";

// Of a vocabulary, in ColumnsText.
constexpr size_t kTextsShown = 5, kLongestShown = 20;

absl::StatusOr<ColumnType> ParseType(absl::string_view text) {
  for (const ColumnType type : kTypes) {
    if (text == ColumnTypeName(type)) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no type of a column; expected float, integer, category or skip"));
}

// Cut between two characters of UTF-8, and quoted where a list would be misread.
std::string Shown(const std::string& text) {
  size_t length = std::min(text.size(), kLongestShown);
  while (length > 0 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  const std::string shown =
      absl::StrCat(absl::Utf8SafeCHexEscape(text.substr(0, length)), length < text.size() ? "..." : "");
  const bool plain = !shown.empty() && shown == absl::StripAsciiWhitespace(shown) &&
                     shown.find_first_of(",:\"\\") == std::string::npos;
  return plain ? shown : absl::StrCat("\"", shown, "\"");
}

std::string VocabularyText(const Column& column) {
  const size_t known = column.vocabulary.empty() ? 0 : column.vocabulary.size() - 1;
  std::string text = absl::StrCat(" of ", known);
  for (size_t i = 1; i <= std::min(known, kTextsShown); ++i) {
    absl::StrAppend(&text, i == 1 ? ": " : ", ", Shown(column.vocabulary[i]));
  }
  return known > kTextsShown ? text + ", ..." : text;
}

std::string ToText(const Column& column) {
  nlohmann::ordered_json json = {{"name", column.name}, {"type", std::string(ColumnTypeName(column.type))}};
  if (column.type == ColumnType::kCategory) json["vocabulary"] = column.vocabulary;
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  // Bytes that are not UTF-8 were replaced, so the text does not parse back to the same column.
  if (nlohmann::ordered_json::parse(text) == json) return text;
  text = absl::StrCat(ColumnTypeName(column.type), "\n", absl::CHexEscape(column.name));
  for (const std::string& entry : column.vocabulary) absl::StrAppend(&text, "\n", absl::CHexEscape(entry));
  return text;
}

std::optional<Column> FromJson(const std::string& text) {
  const nlohmann::json json = io::ParseJson(text);
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() || !json.contains("type") ||
      !json["type"].is_string()) {
    return std::nullopt;
  }
  const absl::StatusOr<ColumnType> type = ParseType(json["type"].get<std::string>());
  if (!type.ok()) return std::nullopt;
  Column column{.name = json["name"].get<std::string>(), .type = *type};
  if (!json.contains("vocabulary")) return column;
  if (!json["vocabulary"].is_array()) return std::nullopt;
  for (const nlohmann::json& entry : json["vocabulary"]) {
    if (!entry.is_string()) return std::nullopt;
    column.vocabulary.push_back(entry.get<std::string>());
  }
  return column;
}

std::optional<Column> FromLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  bool whole = lines.size() >= 2;
  for (std::string& line : lines) whole = whole && absl::CUnescape(line, &line);
  if (!whole) return std::nullopt;
  const absl::StatusOr<ColumnType> type = ParseType(lines[0]);
  if (!type.ok()) return std::nullopt;
  return Column{.name = lines[1], .type = *type, .vocabulary = {lines.begin() + 2, lines.end()}};
}

}  // namespace

absl::string_view ColumnTypeName(ColumnType type) {
  switch (type) {
    case ColumnType::kFloat: return "float";
    case ColumnType::kInteger: return "integer";
    case ColumnType::kCategory: return "category";
    case ColumnType::kSkip: return "skip";
  }
  return "";
}

absl::StatusOr<std::vector<Column>> ParseColumns(absl::string_view text) {
  std::vector<Column> columns;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const size_t colon = part.rfind(':');
    if (colon == part.npos || colon == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "' does not give a column's type; expected NAME:TYPE, such as price:float"));
    }
    ASSIGN_OR_RETURN(const ColumnType type, ParseType(part.substr(colon + 1)));
    columns.push_back({.name = std::string(part.substr(0, colon)), .type = type});
  }
  return columns;
}

absl::StatusOr<size_t> FindColumn(absl::Span<const std::string> names, absl::string_view wanted,
                                  absl::string_view file) {
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  const auto size = static_cast<int64_t>(names.size());
  int64_t number;
  if (absl::SimpleAtoi(wanted, &number) && -size <= number && number < size) {
    return static_cast<size_t>(number < 0 ? number + size : number);
  }
  return absl::InvalidArgumentError(absl::StrCat(file, ": no column '", wanted, "'; the ", names.size(),
                                                 " columns are ", absl::StrJoin(names, ", ")));
}

std::string ColumnsText(absl::Span<const Column> columns) {
  size_t width = 0;
  for (const Column& column : columns) width = std::max(width, Shown(column.name).size());
  std::string text;
  for (const Column& column : columns) {
    absl::StrAppendFormat(&text, "%-*s  %s%s\n", static_cast<int>(width), Shown(column.name),
                          ColumnTypeName(column.type),
                          column.type == ColumnType::kCategory ? VocabularyText(column) : "");
  }
  return text;
}

void PutColumns(absl::Span<const Column> columns, io::Metadata& metadata) {
  int number = 0;
  for (const Column& column : columns) {
    if (column.type != ColumnType::kSkip) metadata[absl::StrCat(kKey, number++)] = ToText(column);
  }
}

absl::StatusOr<std::vector<Column>> TakeColumns(const io::Metadata& metadata) {
  std::vector<Column> columns;
  while (true) {
    const auto found = metadata.find(absl::StrCat(kKey, columns.size()));
    if (found == metadata.end()) break;
    std::optional<Column> column =
        absl::StartsWith(found->second, "{") ? FromJson(found->second) : FromLines(found->second);
    // Without a vocabulary a category would get another one from new data.
    if (!column.has_value() ||
        (column->type == ColumnType::kCategory && (column->vocabulary.empty() || !column->vocabulary[0].empty()))) {
      return absl::InvalidArgumentError(absl::StrCat("The checkpoint's \"", found->first, "\" is damaged"));
    }
    columns.push_back(*std::move(column));
  }
  if (!columns.empty()) return columns;
  return absl::InvalidArgumentError("The checkpoint has no columns of a table: its model was trained on other data");
}

}  // namespace belfry::data
