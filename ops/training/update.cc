#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
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

OpDef UpdateOpDef(absl::string_view name, const UpdateInputs& inputs, std::vector<AttrDef> attrs,
                  std::vector<KernelDef> kernels) {
  std::vector<ArgDef> args = {{.name = "variable", .ref = true}};
  for (const std::string& slot : inputs.slots) args.push_back({.name = slot, .ref = true});
  if (inputs.step) args.push_back({.name = "step", .type = "int64"});
  args.push_back({.name = "learning_rate", .type = "float32"});
  args.push_back({.name = "gradient"});
  const auto fixed = static_cast<int>(args.size());
  std::vector<ArgDef> with_condition = args;
  with_condition.push_back(OnlyIfArg());
  attrs.push_back({"weight_decay", 0.0});
  return {.name = std::string(name),
          .inputs = std::move(with_condition),
          .outputs = {{.name = "updated", .ref = true}},
          .types = {{"T", kFloatTypes}},
          .attrs = std::move(attrs),
          .shape = [args](const ShapeArgs& given) -> absl::StatusOr<std::vector<Shape>> {
            RETURN_IF_ERROR(CheckRates(given.attrs));
            for (size_t i = 0; i < args.size(); ++i) {
              RETURN_IF_ERROR(CheckInput(args[i], given.inputs[i], given.inputs[0]));
            }
            RETURN_IF_ERROR(CheckOnlyIf(given, args.size()));
            return std::vector<Shape>{given.inputs[0]};
          },
          .not_differentiable = true,
          .elementwise = true,
          .stateful = true,
          .kernels = Conditional(std::move(kernels), fixed)};
}

}  // namespace belfry::ops
