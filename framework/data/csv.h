// Numbers from CSV files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// How a file is read. A column is chosen by its name in the header, else by its number from 0, written in decimal.
struct CsvOptions {
  char separator = ',';
  char comment = '#';                 // a line that begins with it is skipped, as blank lines are; '\0': no comments
  std::optional<bool> header;         // whether the first row names the columns; unset: it does if a field is no number
  std::vector<std::string> features;  // columns of the feature matrix; empty: all but the target
  std::string target;                 // empty: the last column
  DType dtype = DType::kFloat32;      // of the result: kFloat32 or kFloat64
  double largest_target = 0;          // a larger magnitude of the target is an error; 0: what the dtype holds
};

struct CsvTable {
  Tensor features;                         // [N, F]
  Tensor targets;                          // [N]
  std::vector<std::string> feature_names;  // F names from the header, or the columns' numbers
  std::string target_name;
};

// Fields as in RFC 4180: quoted with '"' if they hold separators, line ends or quotes (doubled); lines end in LF or
// CRLF. White space around an unquoted field and a UTF-8 byte order mark are ignored. Only chosen columns must be
// numbers. Errors are InvalidArgument (or what reading the file returns) and begin with file:line:column, both counted
// from 1, the column in bytes: a field that is empty, no number, NaN or infinite, or too large for the dtype; a row
// with more or fewer fields than the first; a quote that is not closed; a column that is not there; two columns of one
// name; no rows.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path, const CsvOptions& options = {});

// The same for `text`, which errors call `name`.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options = {});

// ReadCsv in float32 as a dataset of [F] features and numbers to predict.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& path, CsvOptions options = {});

}  // namespace belfry::data
