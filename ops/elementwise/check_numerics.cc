#include <cmath>
#include <cstring>

#include "ops/common/op_rules_impl.h"
#include "ops/elementwise/check_numerics_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/nn.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeCheckNumerics(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[n = spec.outputs[0].shape.elements(), tensor = CheckedTensor(spec)](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    // x - x is 0 for finite numbers and NaN otherwise, so one vectorised pass handles the usual case.
    int bad = 0;
    for (int64_t i = 0; i < n; ++i) {
      const C value = static_cast<C>(x[i]);
      bad |= value - value != 0;
    }
    if (bad != 0) {
      uint64_t nans = 0, infinities = 0;
      for (int64_t i = 0; i < n; ++i) {
        nans += std::isnan(static_cast<C>(x[i]));
        infinities += std::isinf(static_cast<C>(x[i]));
      }
      return NumericsError(tensor, nans, infinities, n);
    }
    if (x != y && n > 0) std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
    return absl::OkStatus();
  }};
}

std::vector<Output> CheckNumericsGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  return {
      scope.Add("CheckNumerics", {dy[0]}, {{"message", absl::StrCat("gradient of ", node.attrs().String("message"))}})};
}

}  // namespace

Output CheckNumerics(OpScope scope, Output x, absl::string_view message) {
  return scope.Add("CheckNumerics", {x}, {{"message", std::string(message)}});
}

void RegisterCheckNumerics(OpRegistry& registry) {
  registry.Add({.name = "CheckNumerics",
                .inputs = {{"x"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"message", std::string()}},
                .shape = SameAsFirst,
                .gradient = CheckNumericsGradient,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeCheckNumerics<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
