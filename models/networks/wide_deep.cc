#include "models/networks/wide_deep.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/layers/embedding.h"
#include "models/layers/layers.h"
#include "models/layers/layers_impl.h"
#include "models/towers/batch.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

// Whether the columns can be used; otherwise the scope has an error.
bool Check(const Scope& scope, const TableInput& table, const WideDeepOptions& options) {
  const auto reject = [&](absl::string_view name, absl::string_view what, const Output& x) {
    Reject(scope, "WideDeep", name, what, x);
    return false;
  };
  if (!table.numbers.has_value() && table.categories.empty()) return reject("", "has no column", Output());
  if (options.outputs < 1) return reject("", absl::StrCat("has ", options.outputs, " outputs"), Output());
  if (table.numbers.has_value()) {
    const Output& x = *table.numbers;
    const bool matrix = x.valid() && x.shape().rank() == 2 && x.shape()[1] != Shape::kUnknown;
    if (!matrix || x.dtype() != options.dtype) {
      return reject("numbers", absl::StrCat("needs ", DTypeName(options.dtype), " [N, F] with known F"), x);
    }
  }
  for (const CategoryInput& column : table.categories) {
    if (!column.ids.valid() || column.ids.shape().rank() != 1) return reject(column.name, "needs ids [N]", column.ids);
    if (column.categories >= 1) continue;
    return reject(column.name, "needs the size of its vocabulary, Field::categories", Output());
  }
  return true;
}

Output Wide(const Scope& scope, const TableInput& table, const WideDeepOptions& options) {
  std::vector<Output> terms;
  if (table.numbers.has_value()) {
    terms.push_back(
        Dense(scope, "numbers", *table.numbers, options.outputs, {.use_bias = false, .weights = ZerosInitializer()}));
  }
  for (const CategoryInput& column : table.categories) {
    terms.push_back(Embedding(scope, NodeName(column.name), column.ids, column.categories, options.outputs,
                              {.table = ZerosInitializer(), .dtype = options.dtype}));
  }
  return ops::AddN(scope, terms);
}

// An initializer whose first row is zeros: the category that is not known. It is rarely trained, since training data
// have no category that their own vocabulary lacks, so a random row would add noise to what the other columns say.
Initializer ZeroForUnknown(Initializer others) {
  return [others = std::move(others)](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    const Output all = others(scope, name, dtype, shape);
    if (!all.valid()) return all;
    const Output unknown = ops::Fill(scope, {1, shape[1]}, 0, dtype);
    return ops::Concat(scope, {unknown, ops::Slice(scope, all, {1, 0}, {shape[0] - 1, shape[1]})}, 0);
  };
}

Output Deep(const Scope& scope, const TableInput& table, const WideDeepOptions& options) {
  std::vector<Output> parts;
  for (const CategoryInput& column : table.categories) {
    const int64_t width = column.width > 0 ? column.width : options.width;
    const double stddev = 1 / std::sqrt(static_cast<double>(width));
    parts.push_back(Embedding(scope, NodeName(column.name), column.ids, column.categories, width,
                              {.table = ZeroForUnknown(NormalInitializer(stddev)), .dtype = options.dtype}));
  }
  if (table.numbers.has_value()) parts.push_back(*table.numbers);
  Output y = ops::Concat(scope, parts, 1);
  for (size_t i = 1; i <= options.hidden.size(); ++i) {
    y = Dense(scope, absl::StrCat("hidden", i), y, options.hidden[i - 1],
              {.activation = Activation::kRelu, .weights = HeNormalInitializer()});
    if (options.dropout > 0) y = Dropout(scope, absl::StrCat("dropout", i), y, options.dropout, options.training);
  }
  return Dense(scope, "output", y, options.outputs);
}

}  // namespace

Output WideDeep(OpScope scope, const TableInput& table, const WideDeepOptions& options) {
  if (!Check(scope, table, options)) return Output();
  if (!options.wide) return Deep(scope.VariableScope("deep"), table, options);
  const Output wide = Wide(scope.VariableScope("wide"), table, options);
  return ops::Add(scope, wide, Deep(scope.VariableScope("deep"), table, options));
}

}  // namespace belfry::models
