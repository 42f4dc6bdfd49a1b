// Shape rules, gradient rules and element-wise kernels shared by the op families. Internal: it includes Eigen.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"
#include "ops/common/compute_impl.h"

namespace belfry::ops {

template <class C>
using ArrayMap = Eigen::Map<Eigen::Array<C, Eigen::Dynamic, 1>>;
template <class C>
using ConstArrayMap = Eigen::Map<const Eigen::Array<C, Eigen::Dynamic, 1>>;

// ParallelFor over n elements in ranges of whole blocks. Eigen rounds elements that do not fill a vector differently,
// so their position must not depend on the number of threads. For the same reason its buffers are aligned.
template <class Body>
void ParallelBlocks(int64_t n, double cost, const Body& body) {
  ParallelFor((n + kBlock - 1) / kBlock, cost * static_cast<double>(std::min(n, kBlock)),
              [&](int64_t begin, int64_t end) { body(begin * kBlock, std::min(end * kBlock, n)); });
}

// Kernel of z = f(x, y), element by element. F is constructed from the node's attributes; f(n, x, y, z) computes n
// elements in float or double, and z may be x or y. F::kCost is the approximate number of scalar operations per
// element.
template <class T, class F>
absl::StatusOr<Kernel> MakeBinary(const KernelSpec& spec) {
  return Kernel{[n = spec.outputs[0].shape.elements(), f = F(spec.attrs)](const KernelContext& context) {
    const T *x = context.input<T>(0), *y = context.input<T>(1);
    T* z = context.output<T>(0);
    ParallelBlocks(n, F::kCost, [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<T, Compute<T>>) {
        f(end - begin, x + begin, y + begin, z + begin);
      } else {
        alignas(64) Compute<T> x_block[kBlock], y_block[kBlock];
        for (int64_t i = begin; i < end; i += kBlock) {
          const int64_t size = std::min(kBlock, end - i);
          Load(x + i, size, x_block);
          Load(y + i, size, y_block);
          f(size, x_block, y_block, x_block);
          Store(x_block, size, z + i);
        }
      }
    });
    return absl::OkStatus();
  }};
}

template <class F>
std::vector<KernelDef> BinaryKernels() {
  return Kernels<float, double, Half, BFloat16>("CPU",
                                                [](auto tag) { return &MakeBinary<typename decltype(tag)::type, F>; });
}

// Shape rules: SameAsFirst gives the shape of input 0. SameAsAll, for gradients, requires all inputs to have one shape.
absl::StatusOr<std::vector<Shape>> SameAsFirst(const ShapeArgs& args);
absl::StatusOr<std::vector<Shape>> SameAsAll(const ShapeArgs& args);

// The gradient rule of a non-differentiable op: Gradients() fails, and reports why.
GradientFunction NoGradient(std::string why);
inline constexpr char kByThePass[] =
    "the fusion pass creates it after gradients are taken; differentiate the ops that it replaces";
inline constexpr char kOfUpdates[] = "it serves updates of variables, through which no gradient flows";
// That of dx = slope(v) dy, of inputs dy and v: again `op`, with the attributes `attrs`, and slope'(v), which
// `curvature` makes of ops with derivatives. Without one it is 0.
using Curvature = std::function<Output(const Scope& scope, const Node& node, Output v)>;
GradientFunction GradientOfSlope(std::string op, std::vector<std::string> attrs, Curvature curvature);

// Tensors ys, computed by ops that have derivatives, and gradients dys with respect to them. Results of a gradient op
// are the gradients with respect to the xs, in this order.
struct Differentiable {
  std::vector<Output> ys, xs, dys;
};
// The gradient rule of a gradient op: the op's results are derived again from what `forward` makes of its inputs, and
// differentiated with respect to these. `inputs` are the node's, or `sources` in their place, with those of 16 bits
// cast to float32. An input from which ys and dys are not computed gets no gradient.
using Forward = std::function<Differentiable(const Scope& scope, const Node& node, absl::Span<const Output> inputs)>;
using Sources = std::function<std::vector<Output>(const Scope& scope, const Node& node)>;
GradientFunction GradientOfGradient(Forward forward, Sources sources = nullptr);

// The gradient rule of y = f(x, ...) whose gradient is the op `gradient` applied to (dy, y) if from_output, otherwise
// to (dy, x), with the forward op's attributes `attrs`.
GradientFunction GradientFrom(std::string gradient, bool from_output, std::vector<std::string> attrs = {});

// Checks the epsilon of a normalisation, whose variance may be 0: it must be finite and not negative.
absl::Status CheckEpsilon(const Attrs& attrs);

}  // namespace belfry::ops
