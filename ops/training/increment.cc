#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/only_if.h"
#include "ops/training.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> CounterShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckOnlyIf(args, 1));
  if (args.inputs[0].rank() == 0) return std::vector<Shape>{Shape()};
  return absl::InvalidArgumentError(
      absl::StrCat("the counter has shape ", args.inputs[0].ToString(), ", but must be a scalar"));
}

constexpr DType kCounterTypes[] = {DType::kInt64};

absl::StatusOr<Kernel> MakeIncrement(const KernelSpec&) {
  return Kernel{[](const KernelContext& context) {
    ++*context.ref<int64_t>(0);
    return absl::OkStatus();
  }};
}

}  // namespace

Output Increment(OpScope scope, const Variable& counter) { return scope.Add("Increment", {counter}); }

void RegisterIncrementOps(OpRegistry& registry) {
  registry.Add({.name = "Increment",
                .inputs = {{.name = "counter", .ref = true}, OnlyIfArg()},
                .outputs = {{.name = "updated", .ref = true}},
                .types = {{"T", kCounterTypes}},
                .shape = CounterShape,
                .not_differentiable = true,
                .stateful = true,
                .kernels = Conditional({{"CPU", DType::kInt64, &MakeIncrement}}, 1)});
}

}  // namespace belfry::ops
