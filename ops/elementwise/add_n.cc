#include "framework/base/status.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/elementwise/elementwise_ops.h"
#include "ops/elementwise/functors.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> AddNShape(const ShapeArgs& args) {
  if (args.inputs.empty()) return absl::InvalidArgumentError("needs at least one tensor, but was given none");
  Shape shape = args.inputs[0];
  for (const Shape& other : args.inputs) {
    ASSIGN_OR_RETURN(shape, shape.Merge(other));
  }
  return std::vector<Shape>{shape};
}

// Adds from left to right, block by block. A block of every input is read before the block of the output is written, so
// that the output may overwrite an input. 16-bit floats are rounded once.
template <class T>
void AddBlocks(const void* const* inputs, size_t count, T* y, int64_t begin, int64_t end) {
  using C = Compute<T>;
  C sum[kBlock], buffer[kBlock];
  const functor::Add<C> add;
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    const C* first = Widened(static_cast<const T*>(inputs[0]) + i, buffer, n);
    std::copy(first, first + n, sum);
    for (size_t k = 1; k < count; ++k) {
      const C* x = Widened(static_cast<const T*>(inputs[k]) + i, buffer, n);
      for (int64_t j = 0; j < n; ++j) sum[j] = add(sum[j], x[j]);
    }
    Store(sum, n, y + i);
  }
}

template <class T>
absl::StatusOr<Kernel> MakeAddN(const KernelSpec& spec) {
  const int64_t n = spec.outputs[0].shape.elements();
  const size_t count = spec.inputs.size();
  if (count == 2) {
    return Kernel{[n](const KernelContext& context) {
      const T* a = context.input<T>(0);
      const T* b = context.input<T>(1);
      T* y = context.output<T>(0);
      ParallelFor(n, 1, [=](int64_t begin, int64_t end) {
        ZipRun<1, 1>(functor::Add<Compute<T>>(), a + begin, b + begin, y + begin, end - begin);
      });
      return absl::OkStatus();
    }};
  }
  return Kernel{[n, count](const KernelContext& context) {
    ParallelFor(n, static_cast<double>(count), [&](int64_t begin, int64_t end) {
      AddBlocks(context.inputs, count, context.output<T>(0), begin, end);
    });
    return absl::OkStatus();
  }};
}

}  // namespace

Output AddN(OpScope scope, absl::Span<const Output> inputs) {
  return scope.Add("AddN", std::vector<Output>(inputs.begin(), inputs.end()));
}

void RegisterAddN(OpRegistry& registry) {
  registry.Add(
      {.name = "AddN",
       .inputs = {{.name = "inputs", .list = true}},
       .outputs = {{.name = "sum"}},
       .types = {{"T", kNumericTypes}},
       .shape = AddNShape,
       .gradient = [](const Scope&, const Node& node,
                      absl::Span<const Output> dy) { return std::vector<Output>(node.inputs().size(), dy[0]); },
       .role = OpRole::kAddN,
       .elementwise = true,
       .in_place = {{0, 0}},
       .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
           "CPU", [](auto tag) { return &MakeAddN<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
