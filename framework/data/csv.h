// Reading numbers from CSV files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// Options for reading a file. A column is chosen by its name in the header or, failing that, by its decimal number from
// 0.
struct CsvOptions {
  char separator = ',';
  char comment = '#';                 // starts a line to skip, as blank lines are; '\0': no comments
  std::optional<bool> header;         // whether the first row names the columns; unset: yes if any of its fields is not
                                      // a number
  std::vector<std::string> features;  // columns of the feature matrix; empty: all but the target
  std::string target;                 // empty: the last column
  DType dtype = DType::kFloat32;      // dtype of the result: kFloat32 or kFloat64
  double largest_target = 0;          // a target of larger magnitude is an error; 0: only the dtype limits it
  uint64_t max_bytes = uint64_t{1} << 30;  // ReadCsv: a larger file is an error, since it is held in memory with the
                                           // table, which may take several times as much
};

struct CsvTable {
  Tensor features;                         // [N, F]
  Tensor targets;                          // [N]
  std::vector<std::string> feature_names;  // F names from the header, or else column numbers
  std::string target_name;
};

// Fields follow RFC 4180: quoted with '"' if they contain separators, line ends or quotes (doubled); lines end in LF or
// CRLF. White space around an unquoted field and a UTF-8 byte order mark are ignored. Only the chosen columns must be
// numbers. Errors are InvalidArgument (or those of reading the file) and begin with file:line:column, both counted from
// 1, the column in bytes: a field that is empty, not a number, NaN, infinite or too large for the dtype; a row with
// more or fewer fields than the first; an unclosed quote; a missing column; two columns of the same name; no rows;
// UTF-16, a NUL byte, or lines that end in CR alone, with the command that converts the file. ResourceExhausted for a
// file of more than max_bytes.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path, const CsvOptions& options = {});

// Like ReadCsv, but parses `text`, which errors call `name`.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options = {});

// ReadCsv in float32, as a dataset with the fields "features" [F] and "target" [].
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& path, CsvOptions options = {});

}  // namespace belfry::data
