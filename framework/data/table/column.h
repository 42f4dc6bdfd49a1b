// The columns of a table: their names, types and vocabularies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/io/safetensors.h"

namespace belfry::data {

enum class ColumnType {
  kFloat,     // finite numbers
  kInteger,   // whole numbers from -2^63 to 2^63 - 1, exact
  kCategory,  // any text, as its id in a vocabulary
  kSkip,      // not read
};
absl::string_view ColumnTypeName(ColumnType type);  // "float", "integer", "category", "skip"

// The id of a field that is empty or whose text the vocabulary lacks.
inline constexpr int32_t kUnknownCategory = 0;

struct Column {
  std::string name = {};
  ColumnType type = ColumnType::kFloat;
  // The text of each id of a category column; empty for kUnknownCategory, which is the first.
  std::vector<std::string> vocabulary = {};
  double largest = 0;  // of a kFloat: a number of larger magnitude is an error; 0: only the dtype limits it
};

// Columns from text such as "price:float,city:category,7:skip". InvalidArgument: another type, or a part without one.
absl::StatusOr<std::vector<Column>> ParseColumns(absl::string_view text);

// The index of the column that `wanted` names or, failing that, whose number it is: from 0, or from -1 for the last one
// backwards. InvalidArgument begins with `file` and lists the columns.
absl::StatusOr<size_t> FindColumn(absl::Span<const std::string> names, absl::string_view wanted,
                                  absl::string_view file);

// A line for each column, for people: "city   category of 12: Bonn, Jena, "Kiel, North", ...". Texts that could be
// misread in such a list are quoted.
std::string ColumnsText(absl::Span<const Column> columns);

// Adds the columns that are not skipped to a checkpoint's metadata; TakeColumns returns them. A run that
// reads its data by the columns of its checkpoint (CsvOptions::columns) has the ids of the run before. Keys:
// "table.column.0" and so on; values are JSON, {"name": "city", "type": "category", "vocabulary": ["", "Bonn"]},
// without a vocabulary for other types. Text that is not UTF-8, which JSON cannot hold, makes it lines instead: the
// type, the name and the vocabulary, with C escapes, as all had before. InvalidArgument: there are none, or they are
// damaged.
void PutColumns(absl::Span<const Column> columns, io::Metadata& metadata);
absl::StatusOr<std::vector<Column>> TakeColumns(const io::Metadata& metadata);

}  // namespace belfry::data
