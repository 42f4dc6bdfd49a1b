#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/elementwise/define_impl.h"
#include "ops/math.h"
#include "ops/reduction/reduce_pieces_impl.h"
#include "ops/reduction/reduction_ops.h"
#include "ops/reduction/reductions.h"

namespace belfry::ops {
namespace {

// Matches the elements of x with the outputs of its reduction: operand a is the outputs, operand b is x.
absl::StatusOr<BroadcastPlan> PlanGradient(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  return PlanBroadcast(KeepReduced(x, reduced), x);
}

// Calls body(element of x, its output) for rows [begin, end) of the plan.
template <class Body>
void ForElements(const BroadcastPlan& plan, int64_t begin, int64_t end, Body&& body) {
  plan.ForRows(begin, end, [&](int64_t row, int64_t output, int64_t) {
    for (int64_t i = 0; i < plan.inner; ++i) body(row * plan.inner + i, output + i * plan.stride_a);
  });
}

// Inputs: x, y = its maximum or minimum, dy. dy is divided evenly among the elements of x that equal y.
template <class T>
absl::StatusOr<Kernel> MakeExtremeGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  if (spec.inputs[0].shape.elements() == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanGradient(spec));
  const int64_t outputs = spec.inputs[1].shape.elements();
  Kernel kernel;
  kernel.workspace_bytes = static_cast<size_t>(outputs) * sizeof(C);
  kernel.run = [plan, outputs](const KernelContext& context) {
    const T* x = context.input<T>(0);
    const T* y = context.input<T>(1);
    const T* dy = context.input<T>(2);
    T* dx = context.output<T>(0);
    C* share = static_cast<C*>(context.workspace);
    const auto wins = [=](int64_t i, int64_t output) {
      const C a = static_cast<C>(x[i]), b = static_cast<C>(y[output]);
      return a == b || (a != a && b != b);
    };
    std::fill(share, share + outputs, C(0));
    ForElements(plan, 0, plan.rows, [&](int64_t i, int64_t output) { share[output] += wins(i, output) ? C(1) : C(0); });
    for (int64_t o = 0; o < outputs; ++o) share[o] = static_cast<C>(dy[o]) / share[o];
    ParallelFor(plan.rows, static_cast<double>(plan.inner), [&](int64_t begin, int64_t end) {
      ForElements(plan, begin, end,
                  [&](int64_t i, int64_t output) { dx[i] = static_cast<T>(wins(i, output) ? share[output] : C(0)); });
    });
    return absl::OkStatus();
  };
  return kernel;
}

// Inputs: x, dy. dx[i] is dy times the product of all other elements.
template <class T>
absl::StatusOr<Kernel> MakeProdGrad(const KernelSpec& spec) {
  if (spec.inputs[0].shape.elements() == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanGradient(spec));
  const int64_t outputs = spec.inputs[1].shape.elements();
  Kernel kernel;
  kernel.workspace_bytes = static_cast<size_t>(outputs) * sizeof(Factors);
  kernel.run = [plan, outputs](const KernelContext& context) {
    const T* x = context.input<T>(0);
    const T* dy = context.input<T>(1);
    T* dx = context.output<T>(0);
    auto* const factors = static_cast<Factors*>(context.workspace);
    std::fill_n(factors, outputs, Factors());
    ForElements(plan, 0, plan.rows, [&](int64_t i, int64_t output) {
      factors[output] = FactorReduction::Step(factors[output], static_cast<double>(x[i]));
    });
    ForElements(plan, 0, plan.rows, [&](int64_t i, int64_t output) {
      const double others = factors[output].Without(static_cast<double>(x[i]));
      dx[i] = static_cast<T>(static_cast<Compute<T>>(others * static_cast<double>(dy[output])));
    });
    return absl::OkStatus();
  };
  return kernel;
}

Attrs SameAxes(const Node& node) {
  return {{"axes", node.attrs().Ints("axes")}, {"keep_dims", node.attrs().Bool("keep_dims")}};
}

// Rows of the factors of each product, [..., n]: the reduced axes come last, as one.
struct FactorRows {
  std::vector<int64_t> order, inverse;  // of the axes
  int64_t kept = 0;                     // axes that stay

  explicit FactorRows(const Node& node) {
    const int rank = node.input(0).shape().rank();
    const std::vector<bool> reduced = ReducedAxes(node.attrs().Ints("axes"), rank).value();
    inverse.resize(static_cast<size_t>(rank));
    for (const bool last : {false, true}) {
      for (int axis = 0; axis < rank; ++axis) {
        if (reduced[axis] != last) continue;
        inverse[static_cast<size_t>(axis)] = static_cast<int64_t>(order.size());
        order.push_back(axis);
      }
      if (!last) kept = static_cast<int64_t>(order.size());
    }
  }
  Output Of(const Scope& scope, Output x) const {
    const Output ordered = Transpose(scope, x, order);
    const int64_t rank = static_cast<int64_t>(order.size());
    return kept == rank ? ExpandDims(scope, ordered, -1) : MergeAxes(scope, ordered, kept, rank - 1);
  }
  Output Back(const Scope& scope, Output rows, Output x) const {
    return Transpose(scope, ReshapeLike(scope, rows, Transpose(scope, x, order)), inverse);
  }
};

// dx[i] = dy P[i], where P[i] is the product of row i of a matrix that holds the factors in each row and 1 on its
// diagonal. So it is for every factor, be it 0, and has all further derivatives, each of n times as many elements.
std::vector<Output> ProdGradGradient(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  const Output x = node.input(0), dy = node.input(1);
  const FactorRows rows(node);
  const Output factors = rows.Of(scope, x);
  const Output index = Cumsum(scope, Cast(scope, OnesLike(scope, factors), DType::kInt64), -1);
  const Output diagonal = Equal(scope, ExpandDims(scope, index, -1), ExpandDims(scope, index, -2));
  const Output one = Fill(scope, {}, 1, x.dtype()), zero = Fill(scope, {}, 0, x.dtype());
  const Output matrix = Select(scope, diagonal, one, ExpandDims(scope, factors, -2));
  const Output slope = Mul(scope, ddx[0], scope.Add("SumGrad", {dy, x}, SameAxes(node)));
  const Attrs along = {{"axes", std::vector<int64_t>{-1}}};
  const Output others = scope.Add("ProdGrad", {matrix, rows.Of(scope, slope)}, along);
  const Output dfactors = Sum(scope, Select(scope, diagonal, zero, others), -2);
  const Output products = rows.Back(scope, scope.Add("Prod", {matrix}, along), x);
  return {rows.Back(scope, dfactors, x), scope.Add("Sum", {Mul(scope, ddx[0], products)}, SameAxes(node))};
}

OpDef ReductionOp(absl::string_view name, absl::Span<const DType> types, std::vector<KernelDef> kernels) {
  return {.name = std::string(name),
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "y"}},
          .types = {{"T", types}},
          .attrs = {{"axes", std::vector<int64_t>(), true}, {"keep_dims", false}},
          .shape = ReduceShape,
          .kernels = std::move(kernels)};
}

template <template <class> class R>
void RegisterExtreme(OpRegistry& registry, const std::string& name) {
  const std::string gradient_name = name + "Grad";
  OpDef op = ReductionOp(name, kNumericTypes,
                         ReduceKernels<R, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(&PlanOfAxes));
  op.gradient = [=](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
    return std::vector<Output>{scope.Add(gradient_name, {node.input(0), node.output(0), dy[0]}, SameAxes(node))};
  };
  OpDef gradient = ReductionOp(gradient_name, kFloatTypes, Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                                 return &MakeExtremeGrad<typename decltype(tag)::type>;
                               }));
  gradient.inputs = {{.name = "x"}, {.name = "y"}, {.name = "dy"}};
  gradient.outputs = {{.name = "dx"}};
  gradient.shape = SameShape;
  gradient.gradient = [=](const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
    const Output ones = OnesLike(scope, node.input(2));
    const Output shares = scope.Add(gradient_name, {node.input(0), node.input(1), ones}, SameAxes(node));
    return std::vector<Output>{Output(), Output(), scope.Add("Sum", {Mul(scope, ddx[0], shares)}, SameAxes(node))};
  };
  registry.Add(std::move(op));
  registry.Add(std::move(gradient));
}

}  // namespace

Output Max(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("Max", {x}, ReduceAttrs(axes, x, keep_dims));
}
Output Min(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("Min", {x}, ReduceAttrs(axes, x, keep_dims));
}
Output Prod(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("Prod", {x}, ReduceAttrs(axes, x, keep_dims));
}
Output Any(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("Any", {x}, ReduceAttrs(axes, x, keep_dims));
}
Output All(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("All", {x}, ReduceAttrs(axes, x, keep_dims));
}

void RegisterExtremes(OpRegistry& registry) {
  RegisterExtreme<MaxReduction>(registry, "Max");
  RegisterExtreme<MinReduction>(registry, "Min");
  OpDef prod = ReductionOp(
      "Prod", kNumericTypes,
      ReduceKernels<ProductReduction, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(&PlanOfAxes));
  prod.gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
    return std::vector<Output>{scope.Add("ProdGrad", {node.input(0), dy[0]}, SameAxes(node))};
  };
  OpDef prod_grad = ReductionOp("ProdGrad", kFloatTypes, Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                                  return &MakeProdGrad<typename decltype(tag)::type>;
                                }));
  prod_grad.inputs = {{.name = "x"}, {.name = "dy"}};
  prod_grad.outputs = {{.name = "dx"}};
  prod_grad.shape = SameShape;
  prod_grad.gradient = ProdGradGradient;
  registry.Add(std::move(prod));
  registry.Add(std::move(prod_grad));

  static constexpr DType kBool[] = {DType::kBool};
  OpDef any = ReductionOp("Any", kBool, ReduceKernels<AnyReduction, bool>(&PlanOfAxes));
  OpDef all = ReductionOp("All", kBool, ReduceKernels<AllReduction, bool>(&PlanOfAxes));
  any.not_differentiable = all.not_differentiable = true;
  registry.Add(std::move(any));
  registry.Add(std::move(all));
}

}  // namespace belfry::ops
