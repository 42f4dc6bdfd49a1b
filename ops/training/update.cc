#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/common/op_rules_impl.h"
#include "ops/only_if.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

absl::Status CheckInput(const ArgDef& arg, const Shape& shape, const Shape& variable) {
  const bool scalar = arg.type != "T";
  if (scalar ? shape.rank() == 0 : shape.CompatibleWith(variable)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", arg.name, "' has shape ", shape.ToString(), ", but must ",
                   scalar ? "be a scalar" : absl::StrCat("have the variable's, ", variable.ToString())));
}

// The rows [K, ...] and indices [K] of a variable's sparse gradient.
absl::Status CheckRows(const Shape& variable, const Shape& rows, const Shape& indices) {
  const bool ranks = variable.rank() > 0 && rows.rank() == variable.rank() && indices.rank() == 1;
  if (ranks && rows.Remove(0).CompatibleWith(variable.Remove(0)) && Shape{rows[0]}.CompatibleWith(indices)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'rows' has shape ", rows.ToString(), " and 'indices' ",
                                                 indices.ToString(), ", but a sparse gradient of the variable, ",
                                                 variable.ToString(), ", has K rows of it and as many indices"));
}

std::vector<ArgDef> FirstArgs(const UpdateInputs& inputs) {
  std::vector<ArgDef> args = {{.name = "variable", .ref = true}};
  for (const std::string& slot : inputs.slots) args.push_back({.name = slot, .ref = true});
  if (inputs.step) args.push_back({.name = "step", .type = "int64"});
  args.push_back({.name = "learning_rate", .type = "float32"});
  return args;
}

// Without a shape rule.
OpDef Define(absl::string_view name, std::vector<ArgDef> args, std::vector<AttrDef> attrs,
             std::vector<KernelDef> kernels) {
  const auto fixed = static_cast<int>(args.size());
  args.push_back(OnlyIfArg());
  attrs.push_back({"weight_decay", 0.0});
  return {.name = std::string(name),
          .inputs = std::move(args),
          .outputs = {{.name = "updated", .ref = true}},
          .types = {{"T", kFloatTypes}},
          .attrs = std::move(attrs),
          .gradient = NoGradient(kOfUpdates),
          .stateful = true,
          .kernels = Conditional(std::move(kernels), fixed)};
}

}  // namespace

absl::Status CheckRates(const Attrs& attrs) {
  for (const char* name : {"momentum", "beta1", "beta2", "decay"}) {
    const AttrValue* value = attrs.Find(name);
    if (value == nullptr) continue;
    const double rate = std::get<double>(*value);
    if (rate >= 0 && rate < 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is ", rate, ", but must be in [0, 1)"));
  }
  for (const char* name : {"epsilon", "weight_decay", "trust_coefficient"}) {
    const AttrValue* value = attrs.Find(name);
    if (value == nullptr) continue;
    const double number = std::get<double>(*value);
    if (number >= 0 && std::isfinite(number)) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is ", number, ", but must be finite and at least 0"));
  }
  return absl::OkStatus();
}

UpdateRows RowsOf(const KernelSpec& spec, size_t gradient) {
  const Shape &rows = spec.inputs[gradient].shape, &variable = spec.inputs[0].shape;
  return {rows[0], rows.elements(1, rows.rank()), variable[0]};
}

absl::Status CheckRow(int64_t index, int64_t position, const UpdateRows& rows) {
  if (index < rows.rows) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("index ", index, " (at position ", position, ") is outside the variable's ", rows.rows, " rows"));
}

Output AddUpdate(const Scope& scope, const std::string& name, std::vector<Output> inputs, const Gradient& gradient,
                 Attrs attrs) {
  inputs.push_back(gradient.value);
  if (!gradient.sparse()) return scope.Add(name, std::move(inputs), std::move(attrs));
  inputs.push_back(gradient.indices);
  return scope.Add("Sparse" + name, std::move(inputs), std::move(attrs));
}

OpDef UpdateOpDef(absl::string_view name, const UpdateInputs& inputs, std::vector<AttrDef> attrs,
                  std::vector<KernelDef> kernels) {
  std::vector<ArgDef> args = FirstArgs(inputs);
  args.push_back({.name = "gradient"});
  OpDef op = Define(name, args, std::move(attrs), std::move(kernels));
  op.elementwise = true;
  op.shape = [args](const ShapeArgs& given) -> absl::StatusOr<std::vector<Shape>> {
    RETURN_IF_ERROR(CheckRates(given.attrs));
    for (size_t i = 0; i < args.size(); ++i) RETURN_IF_ERROR(CheckInput(args[i], given.inputs[i], given.inputs[0]));
    RETURN_IF_ERROR(CheckOnlyIf(given, args.size()));
    return std::vector<Shape>{given.inputs[0]};
  };
  return op;
}

OpDef SparseUpdateOpDef(absl::string_view name, const UpdateInputs& inputs, std::vector<AttrDef> attrs,
                        std::vector<KernelDef> kernels) {
  std::vector<ArgDef> args = FirstArgs(inputs);
  const size_t first = args.size();
  args.push_back({.name = "rows"});
  args.push_back({.name = "indices", .type = "Tindices"});
  OpDef op = Define(name, args, std::move(attrs), std::move(kernels));
  op.types.push_back({"Tindices", kIndexTypes});
  op.shape = [args, first](const ShapeArgs& given) -> absl::StatusOr<std::vector<Shape>> {
    RETURN_IF_ERROR(CheckRates(given.attrs));
    for (size_t i = 0; i < first; ++i) RETURN_IF_ERROR(CheckInput(args[i], given.inputs[i], given.inputs[0]));
    RETURN_IF_ERROR(CheckRows(given.inputs[0], given.inputs[first], given.inputs[first + 1]));
    RETURN_IF_ERROR(CheckOnlyIf(given, args.size()));
    return std::vector<Shape>{given.inputs[0]};
  };
  return op;
}

}  // namespace belfry::ops
