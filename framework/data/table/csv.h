// Reading tables from CSV files.
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
#include "framework/data/table/column.h"

namespace belfry::data {

struct CsvOptions {
  char separator = ',';
  char comment = '#';  // starts a line to skip, as blank lines are; '\0': no comments. Table::warnings counts those
                       // after the first row, which may be data
  std::optional<bool> header = {};  // whether the first row names the columns; unset: yes if any of its fields is not a
                                    // number. Without a header the names are decimal numbers from 0
  // Columns with given types, chosen as FindColumn does. A category with a vocabulary gets its ids; another one gets a
  // vocabulary from the file, in ascending order: whole numbers by value, then texts by bytes.
  std::vector<Column> columns = {};
  // A vocabulary from the file holds only texts that as many rows have or more: rarer ones have kUnknownCategory, which
  // so is trained, for texts that no training row has. 1: all.
  int64_t min_category_count = 1;
  // Names among `columns` that the file may lack, such as the label when a model predicts; the table then has no such
  // column.
  std::vector<std::string> may_lack = {};
  // The type of all other columns. Unset: kInteger where every field is a whole number, kFloat where every one is a
  // number, otherwise kCategory; empty fields do not count. Digits after a leading zero, and those beyond 64 bits, are
  // no number: they identify something.
  std::optional<ColumnType> others = {};
  DType dtype = DType::kFloat32;  // of kFloat columns: kFloat32 or kFloat64
  // Whether a field of a number column may lack its number: it is empty, NA, NaN or null, in letters of either case. It
  // is then NaN, in a kFloat column; a column of integers that lacks one is inferred as kFloat.
  bool missing_numbers = false;
  uint64_t max_bytes = uint64_t{1} << 30;  // ReadCsv: a larger file is an error, since it is held in memory with the
                                           // table, which may take several times as much
};

struct Table {
  std::vector<Column> columns;  // all of the file, in its order, with their types and vocabularies
  // By column, [N]: kFloat in CsvOptions::dtype; kInteger int64; kCategory int32 ids. A skipped column has an empty
  // one.
  std::vector<Tensor> values;
  std::vector<int64_t> lines;         // by row: of the file, from 1
  std::vector<std::string> warnings;  // about inferred types and skipped lines that may not be meant; OpenCsv logs them

  int64_t rows() const { return static_cast<int64_t>(lines.size()); }
};

// Fields follow RFC 4180: quoted with '"' if they contain separators, line ends or quotes (doubled); lines end in LF or
// CRLF. White space around an unquoted field and a UTF-8 byte order mark are ignored. Errors are InvalidArgument (or
// those of reading the file) and begin with path:line:column, both counted from 1, the column in bytes: a field of a
// number column that is empty, not a number, NaN, infinite, or too large for its type; an integer that float32 would
// round; a row with more or fewer fields than the first; an unclosed quote; a missing column; two columns of the same
// name; no rows; UTF-16, a NUL byte, or lines that end in CR alone, with the command that converts the file.
// ResourceExhausted for a file of more than max_bytes.
absl::StatusOr<Table> ReadCsv(const std::string& path, const CsvOptions& options = {});

// Like ReadCsv, but parses `text`, which errors call `name`.
absl::StatusOr<Table> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options = {});

// The rows of a table as a dataset with a field [] for each column that is not skipped, named after it; those of
// categories have the vocabulary as Field::category_names. InvalidArgument if all columns are skipped.
absl::StatusOr<std::unique_ptr<Dataset>> ToDataset(const Table& table);

// ReadCsv, as a dataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCsv(const std::string& path, const CsvOptions& options = {});

}  // namespace belfry::data
