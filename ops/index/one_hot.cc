#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/index_type_impl.h"
#include "ops/copy/copy_impl.h"
#include "ops/index/index_ops.h"

namespace belfry::ops {
namespace {

constexpr DType kLabelTypes[] = {DType::kInt32, DType::kInt64, DType::kUInt8};

absl::StatusOr<std::vector<Shape>> OneHotShape(const ShapeArgs& args) {
  const int64_t depth = args.attrs.Int("depth");
  if (depth < 0) return absl::InvalidArgumentError(absl::StrCat("depth ", depth, " is negative"));
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), args.inputs[0].rank() + 1));
  return std::vector<Shape>{args.inputs[0].Insert(axis, depth)};
}

template <class Bits, class Index>
absl::StatusOr<Kernel> OneHotKernel(const KernelSpec& spec) {
  const TensorSpec& output = spec.outputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(spec.attrs.Int("axis"), output.shape.rank()));
  RawElement<Bits> on;
  on.bits = static_cast<Bits>(ElementBits(spec.attrs.Float("on_value"), output.dtype));
  return Kernel{[on, off = ElementBits(spec.attrs.Float("off_value"), output.dtype), n = output.shape.elements(),
                 outer = output.shape.elements(0, axis), depth = output.shape[axis],
                 inner = output.shape.elements(axis + 1, output.shape.rank())](const KernelContext& context) {
    const Index* indices = context.input<Index>(0);
    auto* y = context.output<RawElement<Bits>>(0);
    FillElements(y, n, sizeof(Bits), off);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        const auto index = static_cast<int64_t>(indices[o * inner + i]);
        if (index >= 0 && index < depth) y[(o * depth + index) * inner + i] = on;
      }
    }
    return absl::OkStatus();
  }};
}

template <class Bits>
absl::StatusOr<Kernel> OneHotOf(const KernelSpec& spec) {
  const DType labels = spec.inputs[0].dtype;
  if (labels == DType::kUInt8) return OneHotKernel<Bits, uint8_t>(spec);
  return WithIndexType(labels, [&](auto index) { return OneHotKernel<Bits, decltype(index)>(spec); });
}

absl::StatusOr<Kernel> MakeOneHot(const KernelSpec& spec) {
  switch (SizeOf(spec.outputs[0].dtype)) {
    case 1: return OneHotOf<uint8_t>(spec);
    case 2: return OneHotOf<uint16_t>(spec);
    case 4: return OneHotOf<uint32_t>(spec);
    default: return OneHotOf<uint64_t>(spec);
  }
}

}  // namespace

Output OneHot(OpScope scope, Output indices, int64_t depth, const OneHotOptions& options) {
  return scope.Add("OneHot", {indices},
                   {{"T", options.dtype},
                    {"depth", depth},
                    {"axis", options.axis},
                    {"on_value", options.on_value},
                    {"off_value", options.off_value}});
}

void RegisterOneHotOps(OpRegistry& registry) {
  registry.Add({.name = "OneHot",
                .inputs = {{.name = "indices", .type = "TI"}},
                .outputs = {{.name = "output"}},
                .types = {{"T", kAnyType}, {"TI", kLabelTypes}},
                .attrs = {{"depth", int64_t{0}, true}, {"axis", int64_t{-1}}, {"on_value", 1.0}, {"off_value", 0.0}},
                .shape = OneHotShape,
                .not_differentiable = true,
                .kernels = AnyTypeKernels(MakeOneHot)});
}

}  // namespace belfry::ops
