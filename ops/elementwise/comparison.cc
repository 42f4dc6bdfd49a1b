#include "ops/elementwise/define_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/step_functors.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

constexpr DType kBool[] = {DType::kBool};

template <template <class> class F, class... Ts>
OpDef Comparison(absl::string_view name, absl::Span<const DType> types) {
  return BinaryOp(name, types,
                  Kernels<Ts...>("CPU",
                                 [](auto tag) -> KernelFactory {
                                   using T = typename decltype(tag)::type;
                                   return
                                       [](const KernelSpec& spec) { return ZipKernel<T, bool>(spec, F<Compute<T>>()); };
                                 }),
                  nullptr, "bool");
}
template <template <class> class F>
OpDef Ordering(absl::string_view name) {
  return Comparison<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(name, kNumericTypes);
}
template <template <class> class F>
OpDef Equality(absl::string_view name) {
  return Comparison<F, float, double, Half, BFloat16, int32_t, int64_t, uint8_t, bool>(name, kAnyType);
}

template <template <class> class F>
OpDef Predicate(absl::string_view name) {
  return UnaryOp(name, kFloatTypes,
                 Kernels<float, double, Half, BFloat16>("CPU",
                                                        [](auto tag) -> KernelFactory {
                                                          using T = typename decltype(tag)::type;
                                                          return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                                                            return MapKernel<T, bool>(spec, F<Compute<T>>());
                                                          };
                                                        }),
                 nullptr, "bool");
}

}  // namespace

Output Equal(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Equal", a, b); }
Output NotEqual(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "NotEqual", a, b); }
Output Less(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Less", a, b); }
Output LessEqual(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "LessEqual", a, b); }
Output Greater(OpScope scope, const Operand& a, const Operand& b) { return AddBinary(scope, "Greater", a, b); }
Output GreaterEqual(OpScope scope, const Operand& a, const Operand& b) {
  return AddBinary(scope, "GreaterEqual", a, b);
}
Output LogicalAnd(OpScope scope, Output a, Output b) { return scope.Add("LogicalAnd", {a, b}); }
Output LogicalOr(OpScope scope, Output a, Output b) { return scope.Add("LogicalOr", {a, b}); }
Output LogicalXor(OpScope scope, Output a, Output b) { return scope.Add("LogicalXor", {a, b}); }
Output LogicalNot(OpScope scope, Output x) { return scope.Add("LogicalNot", {x}); }
Output IsNan(OpScope scope, Output x) { return scope.Add("IsNan", {x}); }
Output IsInf(OpScope scope, Output x) { return scope.Add("IsInf", {x}); }
Output IsFinite(OpScope scope, Output x) { return scope.Add("IsFinite", {x}); }

void RegisterComparisons(OpRegistry& registry) {
  registry.Add(Equality<functor::Equal>("Equal"));
  registry.Add(Equality<functor::NotEqual>("NotEqual"));
  registry.Add(Ordering<functor::Less>("Less"));
  registry.Add(Ordering<functor::LessEqual>("LessEqual"));
  registry.Add(Ordering<functor::Greater>("Greater"));
  registry.Add(Ordering<functor::GreaterEqual>("GreaterEqual"));
  registry.Add(
      WithRole(BinaryOp("LogicalAnd", kBool, ZipKernels<functor::LogicalAnd, bool>(), nullptr), OpRole::kLogicalAnd));
  registry.Add(BinaryOp("LogicalOr", kBool, ZipKernels<functor::LogicalOr, bool>(), nullptr));
  registry.Add(BinaryOp("LogicalXor", kBool, ZipKernels<functor::LogicalXor, bool>(), nullptr));
  registry.Add(UnaryOp("LogicalNot", kBool, MapKernels<functor::LogicalNot, bool>(), nullptr));
  registry.Add(Predicate<functor::IsNan>("IsNan"));
  registry.Add(Predicate<functor::IsInf>("IsInf"));
  registry.Add(Predicate<functor::IsFinite>("IsFinite"));
}

}  // namespace belfry::ops
