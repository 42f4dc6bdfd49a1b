#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/common/index_type_impl.h"
#include "ops/elementwise/define_impl.h"
#include "ops/math.h"
#include "ops/reduction/reduction_ops.h"

namespace belfry::ops {
namespace {

// A tensor viewed as [outer, extent, inner] around one axis.
struct AxisView {
  int64_t outer, extent, inner;
};

absl::StatusOr<AxisView> ViewAxis(const Shape& shape, int64_t axis) {
  ASSIGN_OR_RETURN(const int at, CanonicalAxis(axis, shape.rank()));
  return AxisView{shape.elements(0, at), shape[at], shape.elements(at + 1, shape.rank())};
}

template <class T, class Index, bool max>
Kernel ArgExtreme(const AxisView& view) {
  return Kernel{[view](const KernelContext& context) {
    const T* all = context.input<T>(0);
    Index* y = context.output<Index>(0);
    ParallelFor(view.outer * view.inner, static_cast<double>(view.extent), [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* x = all + o / view.inner * view.extent * view.inner + o % view.inner;
        int64_t best = 0;
        auto value = static_cast<Compute<T>>(x[0]);
        for (int64_t i = 1; i < view.extent && value == value; ++i) {
          const auto candidate = static_cast<Compute<T>>(x[i * view.inner]);
          if (max ? candidate > value : candidate < value) best = i, value = candidate;
          if (candidate != candidate) best = i, value = candidate;
        }
        y[o] = static_cast<Index>(best);
      }
    });
    return absl::OkStatus();
  }};
}

template <class T, bool max>
absl::StatusOr<Kernel> MakeArgExtreme(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const AxisView view, ViewAxis(spec.inputs[0].shape, spec.attrs.Int("axis")));
  return WithIndexType(spec.outputs[0].dtype, [&](auto index) { return ArgExtreme<T, decltype(index), max>(view); });
}

absl::StatusOr<std::vector<Shape>> ArgExtremeShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), args.inputs[0].rank()));
  if (args.inputs[0][axis] == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " of ", args.inputs[0].ToString(), " has no elements to choose from"));
  }
  return std::vector<Shape>{args.inputs[0].Remove(axis)};
}

template <bool max>
OpDef ArgExtremeOp(absl::string_view name) {
  return {.name = std::string(name),
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "index", .type = "output_type"}},
          .types = {{"T", kNumericTypes}, {"output_type", kIndexTypes}},
          .attrs = {{"axis", int64_t{0}, true}},
          .shape = ArgExtremeShape,
          .not_differentiable = true,
          .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
              "CPU", [](auto tag) { return &MakeArgExtreme<typename decltype(tag)::type, max>; })};
}

template <class T>
absl::StatusOr<Kernel> MakeCumsum(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const AxisView view, ViewAxis(spec.inputs[0].shape, spec.attrs.Int("axis")));
  const bool exclusive = spec.attrs.Bool("exclusive"), reverse = spec.attrs.Bool("reverse");
  return Kernel{[=](const KernelContext& context) {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    ParallelFor(view.outer * view.inner, static_cast<double>(view.extent), [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const int64_t first = o / view.inner * view.extent * view.inner + o % view.inner;
        Sum sum = 0;
        for (int64_t i = 0; i < view.extent; ++i) {
          const int64_t at = first + (reverse ? view.extent - 1 - i : i) * view.inner;
          const Sum next = sum + static_cast<Sum>(static_cast<Compute<T>>(x[at]));
          y[at] = static_cast<T>(static_cast<Compute<T>>(exclusive ? sum : next));
          sum = next;
        }
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> CumsumShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CanonicalAxis(args.attrs.Int("axis"), args.inputs[0].rank()).status());
  return std::vector<Shape>{args.inputs[0]};
}

Output AddCumsum(const Scope& scope, Output x, int64_t axis, bool exclusive, bool reverse) {
  return scope.Add("Cumsum", {x}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
}

}  // namespace

Output ArgMax(OpScope scope, Output x, int axis, DType index_type) {
  return scope.Add("ArgMax", {x}, {{"axis", int64_t{axis}}, {"output_type", index_type}});
}
Output ArgMin(OpScope scope, Output x, int axis, DType index_type) {
  return scope.Add("ArgMin", {x}, {{"axis", int64_t{axis}}, {"output_type", index_type}});
}
Output Cumsum(OpScope scope, Output x, int axis, const CumsumOptions& options) {
  return AddCumsum(scope, x, axis, options.exclusive, options.reverse);
}

void RegisterAxisScans(OpRegistry& registry) {
  registry.Add(ArgExtremeOp<true>("ArgMax"));
  registry.Add(ArgExtremeOp<false>("ArgMin"));
  registry.Add({.name = "Cumsum",
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kNumericTypes}},
                .attrs = {{"axis", int64_t{0}, true}, {"exclusive", false}, {"reverse", false}},
                .shape = CumsumShape,
                .gradient =
                    [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
                      const Attrs& attrs = node.attrs();
                      return std::vector<Output>{
                          AddCumsum(scope, dy[0], attrs.Int("axis"), attrs.Bool("exclusive"), !attrs.Bool("reverse"))};
                    },
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
                    "CPU", [](auto tag) { return &MakeCumsum<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
