// The rows and fields of CSV text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::data {

struct CsvField {
  std::string text = {};
  int64_t line = 0, column = 0;  // position of the first byte, counted from 1
};

// Splits text into rows of fields, as framework/data/table/csv.h describes them. `text` and `name`, which errors call
// it, must outlive the reader. Not thread-safe.
class CsvRows {
 public:
  // `comment`: '\0' for none.
  CsvRows(absl::string_view text, absl::string_view name, char separator, char comment);

  // Reads the next row that is neither blank nor a comment; false at the end. InvalidArgument: malformed quotes or line
  // ends.
  absl::StatusOr<bool> Next(std::vector<CsvField>& row);

  // InvalidArgument "name:line:column: message".
  absl::Status Error(int64_t line, int64_t column, absl::string_view message) const;
  char separator() const { return separator_; }
  int64_t comments() const { return comments_; }  // lines skipped as comments so far, after the first row

 private:
  int64_t column() const { return static_cast<int64_t>(at_ - line_start_) + 1; }
  bool AtLineEnd() const { return at_ >= text_.size() || text_[at_] == '\n'; }
  bool IsSpace(char c) const { return c != separator_ && (c == ' ' || c == '\t' || c == '\r'); }
  void StartLine();
  bool SkipLine();
  bool TakeSeparator();
  absl::Status ReadField(CsvField& field);
  absl::Status ReadQuoted(CsvField& field);

  const absl::string_view text_, name_;
  const char separator_, comment_;
  size_t at_ = 0, line_start_ = 0;
  int64_t line_ = 1;
  int64_t comments_ = 0;
  bool any_row_ = false;
};

// InvalidArgument for a file that is not text of this kind: in UTF-16, binary, or with line ends of CR alone.
absl::Status CheckText(absl::string_view text, absl::string_view name);

// A hint to append to an error about text that another character than the separator seems to divide; empty if there is
// none.
std::string SeparatorHint(absl::string_view text, char separator);

}  // namespace belfry::data
