// From the fields of a column to its type and its values.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/table/csv.h"
#include "framework/data/table/csv_rows.h"

namespace belfry::data {

// Infers the type of a column from all of its fields.
class TypeGuess {
 public:
  void Add(const CsvField& field, const CsvOptions& options);
  ColumnType type() const;
  // About a column that is nearly one of numbers; empty for others.
  std::string Warning(const std::string& column) const;

 private:
  int64_t numbers_ = 0, others_ = 0;
  bool integers_ = true;
  CsvField first_other_;
};

// Converts the fields of a column, row by row. Not thread-safe.
class ColumnReader {
 public:
  // `options` must outlive the reader.
  ColumnReader(Column column, int64_t rows, const CsvOptions& options);

  // Converts the next field. REQUIRES: as many calls as rows. InvalidArgument, with the field's place in `rows`.
  absl::Status Add(const CsvRows& rows, const CsvField& field);
  // Moves the results out, after the last row.
  void Finish(Column& column, Tensor& values);

 private:
  absl::Status AddFloat(const CsvRows& rows, const CsvField& field);
  absl::Status AddInteger(const CsvRows& rows, const CsvField& field);
  void AddCategory(const CsvField& field);
  absl::Status Error(const CsvRows& rows, const CsvField& field, absl::string_view what) const;
  void DropRareCategories();
  void RenumberCategories(absl::Span<const int32_t> ids);
  void SortVocabulary();

  Column column_;
  const CsvOptions& options_;
  Tensor values_;
  int64_t row_ = 0;
  bool grows_ = false;                            // whether the vocabulary comes from this file
  std::unordered_map<std::string, int32_t> ids_;  // by text
};

bool IsNumber(const std::string& text);

}  // namespace belfry::data
