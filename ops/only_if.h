// Support for ops that update a variable only if a condition holds (Scope::OnlyIf). Internal to ops/.
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// The condition, which is the last input of such an op.
inline ArgDef OnlyIfArg() { return {.name = kOnlyIf, .type = "bool", .list = true}; }

// Checks the condition in the shape rules of ops with `fixed` other inputs.
inline absl::Status CheckOnlyIf(const ShapeArgs& args, size_t fixed) {
  if (args.inputs.size() <= fixed) return absl::OkStatus();
  if (args.inputs.size() > fixed + 1) return absl::InvalidArgumentError("there is more than one condition");
  if (args.inputs[fixed].rank() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the condition must be a scalar, but has shape ", args.inputs[fixed].ToString()));
}

// The condition of a node, in its device's memory. Null if there is none, and the node always updates.
class Condition {
 public:
  Condition(const KernelSpec& spec, int fixed) : input_(static_cast<int>(spec.inputs.size()) > fixed ? fixed : -1) {}

  bool given() const { return input_ >= 0; }
  const bool* At(const KernelContext& context) const { return given() ? context.input<bool>(input_) : nullptr; }

 private:
  int input_;
};

// Wraps CPU kernels that always update so that they obey the condition.
inline std::vector<KernelDef> Conditional(std::vector<KernelDef> kernels, int fixed) {
  for (KernelDef& kernel : kernels) {
    kernel.make = [make = std::move(kernel.make), fixed](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
      absl::StatusOr<Kernel> made = make(spec);
      const Condition condition(spec, fixed);
      if (!made.ok() || !condition.given()) return made;
      made->run = [run = std::move(made->run), condition](const KernelContext& context) {
        return *condition.At(context) ? run(context) : absl::OkStatus();
      };
      return made;
    };
  }
  return kernels;
}

}  // namespace belfry::ops
