#include <utility>

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/json_impl.h"
#include "trainers/tabular/tabular_data.h"

namespace belfry::trainers {
namespace {

constexpr TableTask kTasks[] = {TableTask::kBinary, TableTask::kClasses, TableTask::kRegression};
constexpr char kSchemaKey[] = "tabular.schema";

nlohmann::json ToJson(const NumberScale& scale) {
  return nlohmann::json::array({scale.mean, scale.deviation, scale.some_lack});
}

bool FromJson(const nlohmann::json& json, NumberScale& scale) {
  if (!json.is_array() || json.size() != 3 || !json[0].is_number() || !json[1].is_number() || !json[2].is_boolean()) {
    return false;
  }
  scale = {json[0].get<double>(), json[1].get<double>(), json[2].get<bool>()};
  return scale.deviation > 0;
}

// The parts of the schema beside the columns.
bool FromText(const std::string& text, TableSchema& schema) {
  const nlohmann::json json = io::ParseJson(text);
  if (!json.is_object() || !json.contains("task") || !json.contains("numbers") || !json["numbers"].is_array()) {
    return false;
  }
  const auto* const task =
      absl::c_find_if(kTasks, [&](TableTask one) { return json["task"] == std::string(TableTaskName(one)); });
  if (task == std::end(kTasks) || !FromJson(json.value("target", nlohmann::json()), schema.target_scale)) return false;
  schema.task = *task;
  for (const nlohmann::json& number : json["numbers"]) {
    if (!FromJson(number, schema.numbers.emplace_back())) return false;
  }
  const auto is_number = [](const data::Column& column) { return column.type == data::ColumnType::kFloat; };
  const size_t classes = schema.classes().size();
  return schema.numbers.size() == static_cast<size_t>(absl::c_count_if(schema.features, is_number)) &&
         !schema.features.empty() &&
         (schema.task == TableTask::kRegression
              ? is_number(schema.target)
              : classes >= 2 && (classes == 2) == (schema.task == TableTask::kBinary));
}

}  // namespace

absl::string_view TableTaskName(TableTask task) {
  switch (task) {
    case TableTask::kBinary: return "binary";
    case TableTask::kClasses: return "classes";
    case TableTask::kRegression: return "regression";
  }
  return "";
}

void PutSchema(const TableSchema& schema, io::Metadata& metadata) {
  std::vector<data::Column> columns = schema.features;
  columns.push_back(schema.target);
  data::PutColumns(columns, metadata);
  nlohmann::json json = {{"task", std::string(TableTaskName(schema.task))},
                         {"numbers", nlohmann::json::array()},
                         {"target", ToJson(schema.target_scale)}};
  for (const NumberScale& scale : schema.numbers) json["numbers"].push_back(ToJson(scale));
  metadata[kSchemaKey] = json.dump();
}

absl::StatusOr<TableSchema> TakeSchema(const io::Metadata& metadata) {
  TableSchema schema;
  ASSIGN_OR_RETURN(schema.features, data::TakeColumns(metadata));
  schema.target = std::move(schema.features.back());
  schema.features.pop_back();
  const auto text = metadata.find(kSchemaKey);
  if (text != metadata.end() && FromText(text->second, schema)) return schema;
  return absl::InvalidArgumentError(absl::StrCat("The checkpoint's \"", kSchemaKey, "\" is missing or damaged"));
}

std::vector<data::Field> TableFields(const TableSchema& schema) {
  const auto lacking = absl::c_count_if(schema.numbers, [](const NumberScale& scale) { return scale.some_lack; });
  std::vector<data::Field> fields;
  if (!schema.numbers.empty()) {
    fields.push_back({.name = "numbers", .shape = {static_cast<int64_t>(schema.numbers.size()) + lacking}});
  }
  for (const data::Column& column : schema.features) {
    if (column.type != data::ColumnType::kCategory) continue;
    fields.push_back({.name = absl::StrCat("category.", column.name),
                      .dtype = DType::kInt32,
                      .categories = static_cast<int64_t>(column.vocabulary.size())});
  }
  return fields;
}

}  // namespace belfry::trainers
