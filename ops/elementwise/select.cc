#include <array>
#include <utility>

#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/copy_impl.h"
#include "ops/elementwise/elementwise_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> SelectShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape choices, BroadcastShapes(args.inputs[1], args.inputs[2]));
  ASSIGN_OR_RETURN(const Shape to, BroadcastShapes(args.inputs[0], choices));
  return std::vector<Shape>{to};
}

constexpr int kSelectOperands = 3;  // the condition, then the two choices

// An axis of the result with the operands' strides along it; 0 where an operand is stretched.
struct SelectAxis {
  int64_t extent = 1;
  std::array<int64_t, kSelectOperands> strides = {};
};

// The axes of the result, outermost first, merged where every operand allows it. At least one.
std::vector<SelectAxis> MergedSelectAxes(const KernelSpec& spec) {
  const Shape& to = spec.outputs[0].shape;
  std::array<std::vector<int64_t>, kSelectOperands> strides;
  for (int i = 0; i < kSelectOperands; ++i) strides[i] = RowMajorStrides(spec.inputs[i].shape);
  std::vector<SelectAxis> axes;
  for (int at = 0; at < to.rank(); ++at) {
    if (to[at] == 1) continue;
    SelectAxis axis = {to[at], {}};
    bool merges = !axes.empty();
    for (int i = 0; i < kSelectOperands; ++i) {
      const Shape& from = spec.inputs[i].shape;
      const int own = at - (to.rank() - from.rank());
      axis.strides[i] = own < 0 || from[own] == 1 ? 0 : strides[i][own];
      merges = merges && axes.back().strides[i] == axis.extent * axis.strides[i];
    }
    if (merges) axis.extent *= axes.back().extent;
    if (merges) axes.pop_back();
    axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back({});
  return axes;
}

template <class U>
void SelectRow(const bool* condition, const U* a, const U* b, const SelectAxis& axis, int64_t n, U* y) {
  if (axis.strides == std::array<int64_t, kSelectOperands>{1, 1, 1}) {
    for (int64_t i = 0; i < n; ++i) {
      const U yes = a[i], no = b[i];
      y[i] = condition[i] ? yes : no;
    }
    return;
  }
  const auto [cs, as, bs] = axis.strides;
  for (int64_t i = 0; i < n; ++i) y[i] = condition[i * cs] ? a[i * as] : b[i * bs];
}

template <class Bits>
absl::StatusOr<Kernel> SelectKernel(const KernelSpec& spec) {
  using U = RawElement<Bits>;
  std::vector<SelectAxis> outer = MergedSelectAxes(spec);
  const SelectAxis inner = outer.back();
  outer.pop_back();
  const int64_t n = spec.outputs[0].shape.elements();
  const int64_t rows = n == 0 ? 0 : n / inner.extent;
  return Kernel{[outer = std::move(outer), inner, rows](const KernelContext& context) {
    const bool* condition = context.input<bool>(0);
    const U *a = context.input<U>(1), *b = context.input<U>(2);
    U* y = context.output<U>(0);
    const auto [cs, as, bs] = inner.strides;
    if (rows == 1) {
      ParallelFor(inner.extent, 1, [&, cs = cs, as = as, bs = bs](int64_t begin, int64_t end) {
        SelectRow(condition + begin * cs, a + begin * as, b + begin * bs, inner, end - begin, y + begin);
      });
      return absl::OkStatus();
    }
    ParallelFor(rows, static_cast<double>(inner.extent), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::array<int64_t, kSelectOperands> at = {};
        int64_t rest = row;
        for (size_t axis = outer.size(); axis-- > 0; rest /= outer[axis].extent) {
          for (int i = 0; i < kSelectOperands; ++i) at[i] += rest % outer[axis].extent * outer[axis].strides[i];
        }
        SelectRow(condition + at[0], a + at[1], b + at[2], inner, inner.extent, y + row * inner.extent);
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeSelect(const KernelSpec& spec) {
  switch (SizeOf(spec.outputs[0].dtype)) {
    case 1: return SelectKernel<uint8_t>(spec);
    case 2: return SelectKernel<uint16_t>(spec);
    case 4: return SelectKernel<uint32_t>(spec);
    default: return SelectKernel<uint64_t>(spec);
  }
}

std::vector<Output> SelectGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output condition = node.input(0), zero = Fill(scope, {}, 0, dy[0].dtype());
  return {Output(), SumToShapeOf(scope, Select(scope, condition, dy[0], zero), node.input(1)),
          SumToShapeOf(scope, Select(scope, condition, zero, dy[0]), node.input(2))};
}

}  // namespace

Output Select(OpScope scope, Output condition, const Operand& a, const Operand& b) {
  std::vector<Output> inputs = Tensors(scope, "Select", a, b);
  inputs.insert(inputs.begin(), condition);
  return scope.Add("Select", std::move(inputs));
}

void RegisterSelectOps(OpRegistry& registry) {
  registry.Add({.name = "Select",
                .inputs = {{.name = "condition", .type = "bool"}, {.name = "t"}, {.name = "e"}},
                .outputs = {{.name = "output"}},
                .types = {{"T", kAnyType}},
                .shape = SelectShape,
                .gradient = SelectGrad,
                .elementwise = true,
                .in_place = {{1, 0}, {2, 0}},
                .kernels = AnyTypeKernels(MakeSelect)});
}

}  // namespace belfry::ops
