#include "trainers/tabular/tabular_data.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/in_memory.h"
#include "trainers/datasets/customers.h"
#include "trainers/moments.h"
#include "trainers/row_split.h"

namespace belfry::trainers {
namespace {

using data::ColumnType;

constexpr int64_t kGeneratedRows = 20'000;
constexpr size_t kMostWholeClasses = 20;  // of different whole numbers, by which --task=auto takes them for classes

// Reads the table with the given columns; those that are not given are skipped or inferred.
using ReadTable = std::function<absl::StatusOr<data::Table>(data::CsvOptions)>;

data::CsvOptions ReadOptions(const TableFormat& format, std::vector<data::Column> columns,
                             std::optional<ColumnType> others = std::nullopt) {
  return {.separator = format.separator,
          .columns = std::move(columns),
          .others = others,
          .dtype = DType::kFloat64,
          .missing_numbers = true,
          .max_bytes = format.max_bytes};
}

void Warn(const std::string& name, const data::Table& table) {
  for (const std::string& warning : table.warnings) spdlog::warn("{}: {}", name, warning);
}

absl::StatusOr<data::Table> ReadFile(const std::string& path, const data::CsvOptions& options) {
  ASSIGN_OR_RETURN(data::Table table, data::ReadCsv(path, options));
  Warn(path, table);
  return table;
}

size_t IndexOf(const data::Table& table, absl::string_view name) {
  return static_cast<size_t>(absl::c_find_if(table.columns, [&](const auto& column) { return column.name == name; }) -
                             table.columns.begin());
}

// The type of the target's column, for the task.
absl::StatusOr<ColumnType> TargetType(const data::Table& table, size_t target, const std::string& task) {
  if (task == "regression") return ColumnType::kFloat;
  const ColumnType type = table.columns[target].type;
  if (task == "classification" || type == ColumnType::kCategory) return ColumnType::kCategory;
  if (type != ColumnType::kInteger) return ColumnType::kFloat;
  const absl::Span<const int64_t> values = table.values[target].span<int64_t>();
  const std::set<int64_t> different(values.begin(), values.end());
  return different.size() <= kMostWholeClasses ? ColumnType::kCategory : ColumnType::kFloat;
}

struct TargetTable {
  data::Table table;
  size_t target = 0;  // its column
};

// The whole table, with categories of all texts, and whole numbers as kFloat.
absl::StatusOr<TargetTable> ReadAll(const TabularDataOptions& options, const std::string& name, const ReadTable& read) {
  ASSIGN_OR_RETURN(data::Table table, read(ReadOptions(options.format, options.columns)));
  Warn(name, table);
  std::vector<std::string> names;
  for (const data::Column& column : table.columns) names.push_back(column.name);
  ASSIGN_OR_RETURN(const size_t target, data::FindColumn(names, options.target.empty() ? "-1" : options.target, name));
  std::vector<data::Column> columns = table.columns;
  for (data::Column& column : columns) {
    if (column.type == ColumnType::kInteger) column.type = ColumnType::kFloat;
  }
  ASSIGN_OR_RETURN(columns[target].type, TargetType(table, target, options.task));
  const auto same = [](const data::Column& a, const data::Column& b) { return a.type == b.type; };
  if (!absl::c_equal(columns, table.columns, same)) {
    ASSIGN_OR_RETURN(table, read(ReadOptions(options.format, columns)));
  }
  return TargetTable{std::move(table), target};
}

// Categories that fewer than `least` of the rows have become kUnknownCategory.
void DropRare(absl::Span<const int64_t> rows, int64_t least, data::Column& column, Tensor& values) {
  std::vector<int64_t> counts(column.vocabulary.size());
  for (const int64_t row : rows) ++counts[values.data<int32_t>()[row]];
  std::vector<int32_t> ids(counts.size(), data::kUnknownCategory);
  std::vector<std::string> kept = {""};
  for (size_t id = 1; id < counts.size(); ++id) {
    if (counts[id] < least) continue;
    ids[id] = static_cast<int32_t>(kept.size());
    kept.push_back(column.vocabulary[id]);
  }
  column.vocabulary = std::move(kept);
  for (int64_t i = 0; i < values.elements(); ++i) values.data<int32_t>()[i] = ids[values.data<int32_t>()[i]];
}

absl::StatusOr<NumberScale> ScaleOf(absl::string_view name, const std::string& column, const Tensor& values,
                                    absl::Span<const int64_t> rows) {
  std::vector<double> numbers;
  for (const int64_t row : rows) {
    if (const double value = values.data<double>()[row]; !std::isnan(value)) numbers.push_back(value);
  }
  NumberScale scale{.some_lack = numbers.size() < rows.size()};
  if (numbers.empty()) return scale;
  const Moments moments = MomentsOf(numbers);
  if (!std::isfinite(moments.spread) || !std::isnormal(moments.deviation)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": column '", column, "': the range of its numbers, ",
                                                   moments.spread, ", is too large or too small; scale them"));
  }
  return NumberScale{moments.mean, moments.deviation, scale.some_lack};
}

// The fields of the rows that the schema describes, in the order of TableFields.
std::vector<data::TensorField> FeaturesOf(const TableSchema& schema, const data::Table& table,
                                          absl::Span<const int64_t> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  std::vector<data::TensorField> fields;
  for (const data::Field& field : TableFields(schema)) {
    fields.push_back({.name = field.name,
                      .examples = Tensor::Zeros(field.dtype, field.shape.Insert(0, n)),
                      .categories = field.categories});
  }
  size_t number = 0, category = schema.numbers.empty() ? 0 : 1;
  auto lacks = static_cast<int64_t>(schema.numbers.size());
  for (const data::Column& column : schema.features) {
    const Tensor& values = table.values[IndexOf(table, column.name)];
    if (column.type == ColumnType::kCategory) {
      int32_t* const ids = fields[category++].examples.data<int32_t>();
      for (int64_t i = 0; i < n; ++i) ids[i] = values.data<int32_t>()[rows[i]];
      continue;
    }
    const NumberScale& scale = schema.numbers[number];
    Tensor& all = fields[0].examples;
    for (int64_t i = 0; i < n; ++i) {
      const double value = values.data<double>()[rows[i]];
      float* const row = all.data<float>() + i * all.shape()[1];
      if (!std::isnan(value)) row[number] = static_cast<float>((value - scale.mean) / scale.deviation);
      if (std::isnan(value) && scale.some_lack) row[lacks] = 1;
    }
    ++number;
    lacks += scale.some_lack ? 1 : 0;
  }
  return fields;
}

// The class, from 0, or the number of the target in each of the rows.
absl::StatusOr<std::vector<double>> TruthOf(const TableSchema& schema, absl::string_view name, const data::Table& table,
                                            absl::Span<const int64_t> rows) {
  const Tensor& values = table.values[IndexOf(table, schema.target.name)];
  std::vector<double> truth;
  for (const int64_t row : rows) {
    const bool regression = schema.task == TableTask::kRegression;
    truth.push_back(regression ? values.data<double>()[row] : values.data<int32_t>()[row] - 1.0);
    if (regression ? !std::isnan(truth.back()) : truth.back() >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", table.lines[row], ": the target '", schema.target.name,
                     regression ? "' lacks its number" : "' is empty, or a class that the training rows do not have",
                     "; remove the row, or give it a target"));
  }
  return truth;
}

data::TensorField TargetField(const TableSchema& schema, absl::Span<const double> truth) {
  const bool regression = schema.task == TableTask::kRegression;
  data::TensorField field{
      .name = "target",
      .examples = Tensor(regression ? DType::kFloat32 : DType::kInt32, {static_cast<int64_t>(truth.size())}),
      .categories = static_cast<int64_t>(schema.classes().size())};
  for (size_t i = 0; i < truth.size(); ++i) {
    if (regression) {
      field.examples.data<float>()[i] =
          static_cast<float>((truth[i] - schema.target_scale.mean) / schema.target_scale.deviation);
    } else {
      field.examples.data<int32_t>()[i] = static_cast<int32_t>(truth[i]);
    }
  }
  return field;
}

// The schema of a table by its training rows. Rare categories leave the table, too.
absl::StatusOr<TableSchema> SchemaOf(const TabularDataOptions& options, const std::string& name, size_t target,
                                     absl::Span<const int64_t> rows, data::Table& table) {
  TableSchema schema;
  schema.target = table.columns[target];
  for (size_t i = 0; i < table.columns.size(); ++i) {
    data::Column& column = table.columns[i];
    if (i == target || column.type == ColumnType::kSkip) continue;
    if (column.type == ColumnType::kCategory) {
      DropRare(rows, options.min_category_count, column, table.values[i]);
      if (column.vocabulary.size() == 1) {
        spdlog::warn("{}: column '{}' is left out, since no text is in {} or more training rows", name, column.name,
                     options.min_category_count);
        continue;
      }
    }
    if (column.type == ColumnType::kFloat) {
      ASSIGN_OR_RETURN(schema.numbers.emplace_back(), ScaleOf(name, column.name, table.values[i], rows));
    }
    schema.features.push_back(column);
  }
  if (schema.features.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": only column '", schema.target.name, "', the target; expected at least one feature"));
  }
  if (schema.target.type == ColumnType::kFloat) {
    schema.task = TableTask::kRegression;
    ASSIGN_OR_RETURN(schema.target_scale, ScaleOf(name, schema.target.name, table.values[target], rows));
    return schema;
  }
  const size_t classes = schema.classes().size();
  schema.task = classes == 2 ? TableTask::kBinary : TableTask::kClasses;
  if (classes >= 2) return schema;
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": the target '", schema.target.name, "' has ",
      classes == 1 ? absl::StrCat("one class, ", schema.classes()[0], ",") : "no class",
      " in all rows, so there is nothing to learn; choose another column by --target, or --task=regression"));
}

// Sets the rows that are evaluated.
absl::Status SetValidation(absl::string_view name, const data::Table& table, absl::Span<const int64_t> rows,
                           TabularData& data) {
  ASSIGN_OR_RETURN(data.truth, TruthOf(data.schema, name, table, rows));
  ASSIGN_OR_RETURN(data.validation, data::FromTensors(FeaturesOf(data.schema, table, rows)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TabularData> OpenTabularData(const TabularDataOptions& options) {
  TabularData data;
  ReadTable read = [&](const data::CsvOptions& csv) { return data::ReadCsv(options.path, csv); };
  const std::string name = options.path.empty() ? "the generated table" : options.path;
  if (options.path.empty()) {
    data::Customers customers = data::GenerateCustomers(kGeneratedRows, options.seed);
    data.entropy = customers.entropy;
    read = [text = std::move(customers.csv), name](data::CsvOptions csv) {
      csv.separator = ',';
      return data::ParseCsv(text, name, csv);
    };
  }
  ASSIGN_OR_RETURN(TargetTable all, ReadAll(options, name, read));
  data::Table& table = all.table;
  data.held_out = !options.validation.empty() || options.validation_fraction > 0;
  const double fraction = options.validation.empty() ? options.validation_fraction : 0;
  const auto [training, held_out] = SplitRows(table.rows(), fraction, options.seed);
  if (training.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", Counted(table.rows(), "row"),
                                                   ", too few to hold some out; use --validation_fraction=0"));
  }
  ASSIGN_OR_RETURN(data.schema, SchemaOf(options, name, all.target, training, table));
  ASSIGN_OR_RETURN(const std::vector<double> truth, TruthOf(data.schema, name, table, training));
  std::vector<data::TensorField> fields = FeaturesOf(data.schema, table, training);
  fields.push_back(TargetField(data.schema, truth));
  ASSIGN_OR_RETURN(data.train, data::FromTensors(std::move(fields)));
  if (options.validation.empty()) {
    RETURN_IF_ERROR(SetValidation(name, table, data.held_out ? held_out : training, data));
    return data;
  }
  std::vector<data::Column> columns = data.schema.features;
  columns.push_back(data.schema.target);
  ASSIGN_OR_RETURN(const data::Table validation,
                   ReadFile(options.validation, ReadOptions(options.format, columns, ColumnType::kSkip)));
  RETURN_IF_ERROR(SetValidation(options.validation, validation, SplitRows(validation.rows(), 0, 0).training, data));
  return data;
}

absl::StatusOr<TableRows> OpenTableRows(const std::string& path, const TableFormat& format, const TableSchema& schema) {
  std::vector<data::Column> columns = schema.features;
  columns.push_back(schema.target);
  columns.back().type = ColumnType::kCategory;  // any text, as a mark for what is not known yet
  data::CsvOptions options = ReadOptions(format, std::move(columns), ColumnType::kSkip);
  options.may_lack = {schema.target.name};
  ASSIGN_OR_RETURN(const data::Table table, ReadFile(path, options));
  TableRows rows;
  ASSIGN_OR_RETURN(rows.examples, data::FromTensors(FeaturesOf(schema, table, SplitRows(table.rows(), 0, 0).training)));
  const size_t column = IndexOf(table, schema.target.name);
  for (int64_t row = 0; row < table.rows() && column < table.columns.size(); ++row) {
    const int32_t id = table.values[column].data<int32_t>()[row];
    double value = id - 1;
    const bool known = schema.task == TableTask::kRegression
                           ? absl::SimpleAtod(table.columns[column].vocabulary[id], &value) && std::isfinite(value)
                           : id != data::kUnknownCategory;
    if (!known) return TableRows{std::move(rows.examples), {}};
    rows.truth.push_back(value);
  }
  return rows;
}

}  // namespace belfry::trainers
