#include "models/layers/embedding.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers_impl.h"
#include "ops/array.h"

namespace belfry::models {

Variable EmbeddingTable(OpScope scope, absl::string_view name, int64_t rows, int64_t width,
                        const EmbeddingOptions& options) {
  if (rows < 1 || width < 1) {
    Reject(scope, "Embedding", name, absl::StrCat("has ", rows, " rows of width ", width), Output());
    return Variable();
  }
  const DType dtype = options.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return GetVariable(scope.VariableScope(name), "table", {rows, width}, options.table, {.dtype = dtype});
}

Output Embed(OpScope scope, const Variable& table, Output ids, DType dtype) {
  if (!table.valid()) return Reject(scope, "Embed", "", "has an invalid Variable as its table", Output());
  const Output rows = ops::Gather(scope, table, ids);
  return rows.valid() && rows.dtype() != dtype ? ops::Cast(scope, rows, dtype) : rows;
}

Output Embedding(OpScope scope, absl::string_view name, Output ids, int64_t rows, int64_t width,
                 const EmbeddingOptions& options) {
  if (!ids.valid()) return Reject(scope, "Embedding", name, "has an invalid Output as input", ids);
  if (ids.dtype() != DType::kInt32 && ids.dtype() != DType::kInt64) {
    return Reject(scope, "Embedding", name, "needs ids of int32 or int64", ids);
  }
  const Variable table = EmbeddingTable(scope, name, rows, width, options);
  return Embed(scope.NameScope(name), table, ids, options.dtype);
}

}  // namespace belfry::models
