#include "framework/data/table/csv_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::data {

CsvRows::CsvRows(absl::string_view text, absl::string_view name, char separator, char comment)
    : text_(text), name_(name), separator_(separator), comment_(comment) {
  if (absl::StartsWith(text_, "\xEF\xBB\xBF")) at_ = line_start_ = 3;
}

absl::Status CsvRows::Error(int64_t line, int64_t column, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ":", line, ":", column, ": ", message));
}

absl::StatusOr<bool> CsvRows::Next(std::vector<CsvField>& row) {
  row.clear();
  while (at_ < text_.size() && SkipLine()) {
  }
  if (at_ >= text_.size()) return false;
  any_row_ = true;
  do {
    row.emplace_back();
    RETURN_IF_ERROR(ReadField(row.back()));
  } while (TakeSeparator());
  return true;
}

void CsvRows::StartLine() {
  at_ = std::min(at_ + 1, text_.size());
  line_start_ = at_;
  ++line_;
}

// Skips the current line if it is blank or a comment.
bool CsvRows::SkipLine() {
  size_t end = std::min(text_.find('\n', at_), text_.size());
  const absl::string_view line = absl::StripAsciiWhitespace(text_.substr(at_, end - at_));
  const bool comment = comment_ != '\0' && !line.empty() && line[0] == comment_;
  if (!line.empty() && !comment) return false;
  if (comment && any_row_) ++comments_;
  at_ = end;
  StartLine();
  return true;
}

bool CsvRows::TakeSeparator() {
  if (at_ < text_.size() && text_[at_] == separator_) {
    ++at_;
    return true;
  }
  if (at_ < text_.size()) StartLine();
  return false;
}

absl::Status CsvRows::ReadField(CsvField& field) {
  while (!AtLineEnd() && IsSpace(text_[at_])) ++at_;
  field.line = line_;
  field.column = column();
  if (!AtLineEnd() && text_[at_] == '"') return ReadQuoted(field);
  const size_t start = at_;
  while (!AtLineEnd() && text_[at_] != separator_) ++at_;
  field.text = std::string(absl::StripTrailingAsciiWhitespace(text_.substr(start, at_ - start)));
  const size_t cr = field.text.find('\r');
  if (cr == std::string::npos) return absl::OkStatus();
  return Error(line_, field.column + static_cast<int64_t>(cr),
               "a CR within the line: some lines of the file end in CR alone; expected LF or CR LF");
}

absl::Status CsvRows::ReadQuoted(CsvField& field) {
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
  if (AtLineEnd() || text_[at_] == separator_) return absl::OkStatus();
  return Error(
      line_, column(),
      absl::StrCat("text after a closing quote; expected '", std::string(1, separator_), "' or the end of the line"));
}

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

std::string SeparatorHint(absl::string_view text, char separator) {
  for (const auto& [other, name] : {std::pair(';', "';'"), std::pair('\t', "tabs")}) {
    if (other == separator || !absl::StrContains(text, other)) continue;
    return absl::StrCat(". The fields seem to be separated by ", name, "; expected '", std::string(1, separator), "'");
  }
  return "";
}

}  // namespace belfry::data
