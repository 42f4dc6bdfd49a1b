// The rows of CSV files as examples for a model of tables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/dataset.h"
#include "framework/data/table/csv.h"
#include "framework/io/safetensors.h"

namespace belfry::trainers {

enum class TableTask {
  kBinary,      // one logit, of the second of two classes
  kClasses,     // a logit for each class
  kRegression,  // a number, in deviations from the mean
};
absl::string_view TableTaskName(TableTask task);  // "binary", "classes", "regression"

// The training rows' mean and deviation of a column of numbers.
struct NumberScale {
  double mean = 0;
  double deviation = 1;    // 1 if the column is constant
  bool some_lack = false;  // some training rows lack the number
  bool operator==(const NumberScale&) const = default;
};

// All that a model knows of a table's columns. A checkpoint keeps it.
struct TableSchema {
  std::vector<data::Column> features;  // of types kFloat and kCategory
  std::vector<NumberScale> numbers;    // of the features of type kFloat, in their order
  data::Column target;                 // kFloat, or kCategory whose first text, of no class, is empty
  TableTask task = TableTask::kBinary;
  NumberScale target_scale;  // for kRegression

  // The texts of the classes, in ascending order; empty for kRegression.
  absl::Span<const std::string> classes() const {
    return absl::MakeConstSpan(target.vocabulary).subspan(target.vocabulary.empty() ? 0 : 1);
  }
};
void PutSchema(const TableSchema& schema, io::Metadata& metadata);
// InvalidArgument if there is none, or if it is damaged.
absl::StatusOr<TableSchema> TakeSchema(const io::Metadata& metadata);

// How files are read.
struct TableFormat {
  char separator = ',';
  uint64_t max_bytes = data::CsvOptions().max_bytes;
};

struct TabularDataOptions {
  std::string path = {};  // empty: a generated table
  TableFormat format = {};
  std::string target = {};                 // a column, as data::FindColumn does; empty: the last
  std::string task = "auto";               // or "classification", "regression"
  std::vector<data::Column> columns = {};  // with types of their own
  int64_t min_category_count = 2;          // a category that fewer training rows have is kUnknownCategory
  std::string validation = {};             // a file; empty: validation_fraction
  double validation_fraction = 0.1;        // of the rows, drawn by `seed`; 0: none, and the training rows are evaluated
  uint64_t seed = 1;
};

// Examples have the fields "numbers" [F], of mean 0 and deviation 1 in the training rows, if there are any; then
// "category.<column>", ids; the training ones also "target": an int32 class, from 0, or a float32 in deviations from
// the mean. F counts each column of numbers, with 0 where the number lacks, and after these a column of ones and zeros
// for each that some training rows lack: 1 where it lacks.
struct TabularData {
  TableSchema schema;
  std::unique_ptr<data::Dataset> train;
  std::unique_ptr<data::Dataset> validation;  // without the target
  std::vector<double> truth;                  // of the validation rows: the class, from 0, or the target's number
  bool held_out = true;                       // false: the validation rows are the training rows
  double entropy = 0;                         // of a generated target (data::Customers::entropy); 0: unknown
};
// Errors: those of ReadCsv; InvalidArgument for no feature, a target of one class, a row without a target or of a class
// that the training file lacks, numbers whose range overflows, or too few rows to hold some out.
absl::StatusOr<TabularData> OpenTabularData(const TabularDataOptions& options);

struct TableRows {
  std::unique_ptr<data::Dataset> examples;  // without the target
  std::vector<double> truth;                // as TabularData::truth; empty unless all rows have the target
};
// The rows of a file by a schema. The file may lack the target, and have other columns besides. Errors: those of
// ReadCsv, as for a column that is not there.
absl::StatusOr<TableRows> OpenTableRows(const std::string& path, const TableFormat& format, const TableSchema& schema);

// The fields of OpenTableRows.
std::vector<data::Field> TableFields(const TableSchema& schema);

}  // namespace belfry::trainers
