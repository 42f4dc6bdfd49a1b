#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/box_copy.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

// The axes of x in the order of the result. An empty `perm` reverses them.
absl::StatusOr<std::vector<int>> Permutation(const std::vector<int64_t>& perm, int rank) {
  std::vector<int> order;
  std::vector<bool> seen(rank);
  for (int axis = rank - 1; perm.empty() && axis >= 0; --axis) order.push_back(axis);
  for (int64_t given : perm) {
    const absl::StatusOr<int> axis = CanonicalAxis(given, rank);
    if (!axis.ok() || seen[*axis]) break;
    seen[*axis] = true;
    order.push_back(*axis);
  }
  if (static_cast<int>(order.size()) != rank || (!perm.empty() && static_cast<int>(perm.size()) != rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat("perm [", absl::StrJoin(perm, ", "), "] does not name each of ", rank, " axes once"));
  }
  return order;
}

absl::StatusOr<std::vector<Shape>> TransposeShape(const ShapeArgs& args) {
  const Shape& from = args.inputs[0];
  ASSIGN_OR_RETURN(const std::vector<int> order, Permutation(args.attrs.Ints("perm"), from.rank()));
  Shape to = from;
  for (int axis = 0; axis < to.rank(); ++axis) to.set_dim(axis, from[order[axis]]);
  return std::vector<Shape>{to};
}

std::vector<Output> TransposeGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const int rank = node.input(0).shape().rank();
  const absl::StatusOr<std::vector<int>> order = Permutation(node.attrs().Ints("perm"), rank);
  std::vector<int64_t> inverse(rank);
  for (int axis = 0; axis < rank; ++axis) inverse[(*order)[axis]] = axis;
  return {Transpose(scope, dy[0], inverse)};
}

}  // namespace

absl::StatusOr<BoxCopy> PlanTranspose(const KernelSpec& spec) {
  const Shape& to = spec.outputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<int> order, Permutation(spec.attrs.Ints("perm"), to.rank()));
  const std::vector<int64_t> strides = RowMajorStrides(spec.inputs[0].shape);
  BoxCopy box;
  for (int axis = 0; axis < to.rank(); ++axis) box.axes.push_back(WholeAxis(to[axis], strides[order[axis]]));
  return box;
}

Output Transpose(OpScope scope, Output x, std::vector<int64_t> perm) {
  return scope.Add("Transpose", {x}, {{"perm", std::move(perm)}});
}

void RegisterTransposeOps(OpRegistry& registry) {
  registry.Add({.name = "Transpose",
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kAnyType}},
                .attrs = {{"perm", std::vector<int64_t>()}},
                .shape = TransposeShape,
                .gradient = TransposeGrad,
                .kernels = BoxCopyKernels(PlanTranspose)});
}

}  // namespace belfry::ops
