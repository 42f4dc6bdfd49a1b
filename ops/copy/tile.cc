#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/box_copy.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"

namespace belfry::ops {
namespace {

constexpr int64_t kTileBlock = 64;

absl::StatusOr<Shape> Tiled(const Shape& x, const std::vector<int64_t>& multiples) {
  if (static_cast<int>(multiples.size()) != x.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs one multiple per axis of ", x.ToString(), ", but was given ", multiples.size()));
  }
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (multiples[axis] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("multiple ", multiples[axis], " is negative"));
    }
    if (dims[axis] != Shape::kUnknown) dims[axis] = MultiplyExtents(dims[axis], multiples[axis]);
  }
  return Shape::Make(dims);
}

absl::StatusOr<std::vector<Shape>> TileShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape to, Tiled(args.inputs[0], args.attrs.Ints("multiples")));
  return std::vector<Shape>{to};
}

absl::StatusOr<std::vector<Shape>> TileGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape tiled, Tiled(args.inputs[1], args.attrs.Ints("multiples")));
  RETURN_IF_ERROR(tiled.Merge(args.inputs[0]).status());
  return std::vector<Shape>{args.inputs[1]};
}

// Sums dy over its tiles. The offset of an element of dy is its offset within a tile plus the offset of the tile. Both
// are counted in rows along the last axis, where tiles are adjacent.
template <class T>
class TileSum {
 public:
  TileSum(const Shape& x, const Shape& dy, const std::vector<int64_t>& multiples) {
    const std::vector<int64_t> strides = RowMajorStrides(dy);
    width_ = x.rank() == 0 ? 1 : x[-1];
    repeats_ = x.rank() == 0 ? 1 : multiples.back();
    for (int axis = 0; axis + 1 < x.rank(); ++axis) {
      rows_.push_back({x[axis], strides[axis], 0});
      tiles_.push_back({multiples[axis], x[axis] * strides[axis], 0});
      row_count_ *= x[axis];
      tile_count_ *= multiples[axis];
    }
  }

  void Run(const T* dy, T* dx) const {
    ParallelFor(row_count_, static_cast<double>(width_ * repeats_ * tile_count_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* source = dy + Offset(rows_, row);
        for (int64_t at = 0; at < width_; at += kTileBlock) {
          SumBlock(source + at, std::min(kTileBlock, width_ - at), dx + row * width_ + at);
        }
      }
    });
  }

 private:
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;

  static int64_t Offset(const std::vector<CopyAxis>& axes, int64_t index) {
    int64_t offset = 0;
    for (size_t axis = axes.size(); axis-- > 0;) {
      offset += index % axes[axis].extent * axes[axis].from;
      index /= axes[axis].extent;
    }
    return offset;
  }

  void SumBlock(const T* dy, int64_t n, T* dx) const {
    Sum sums[kTileBlock] = {};
    for (int64_t tile = 0; tile < tile_count_; ++tile) {
      const T* source = dy + Offset(tiles_, tile);
      for (int64_t repeat = 0; repeat < repeats_; ++repeat, source += width_) {
        for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(source[i]);
      }
    }
    for (int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(sums[i]);
  }

  std::vector<CopyAxis> rows_, tiles_;  // axes of dy except the last; `to` is unused
  int64_t row_count_ = 1, tile_count_ = 1, width_ = 1, repeats_ = 1;
};

template <class T>
absl::StatusOr<Kernel> MakeTileGrad(const KernelSpec& spec) {
  TileSum<T> sum(spec.outputs[0].shape, spec.inputs[0].shape, spec.attrs.Ints("multiples"));
  return Kernel{[sum = std::move(sum)](const KernelContext& context) {
    sum.Run(context.input<T>(0), context.output<T>(0));
    return absl::OkStatus();
  }};
}

std::vector<Output> TileGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  return {scope.Add("TileGrad", {dy[0], node.input(0)}, {{"multiples", node.attrs().Ints("multiples")}})};
}

std::vector<Output> TileGradGrad(const Scope& scope, const Node& node, absl::Span<const Output> ddx) {
  return {Tile(scope, ddx[0], node.attrs().Ints("multiples")), Output()};
}

}  // namespace

absl::StatusOr<BoxCopy> PlanTile(const KernelSpec& spec) {
  const Shape& from = spec.inputs[0].shape;
  const std::vector<int64_t>& multiples = spec.attrs.Ints("multiples");
  const std::vector<int64_t> strides = RowMajorStrides(from);
  BoxCopy box;
  for (int axis = 0; axis < from.rank(); ++axis) {
    box.axes.push_back(WholeAxis(multiples[axis], 0));
    box.axes.push_back(WholeAxis(from[axis], strides[axis]));
  }
  return box;
}

Output Tile(OpScope scope, Output x, std::vector<int64_t> multiples) {
  return scope.Add("Tile", {x}, {{"multiples", std::move(multiples)}});
}

void RegisterTileOps(OpRegistry& registry) {
  registry.Add({.name = "Tile",
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", kAnyType}},
                .attrs = {{"multiples", std::vector<int64_t>(), true}},
                .shape = TileShape,
                .gradient = TileGrad,
                .kernels = BoxCopyKernels(PlanTile)});
  registry.Add({.name = "TileGrad",
                .inputs = {{.name = "dy"}, {.name = "x", .shape_only = true}},
                .outputs = {{.name = "dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"multiples", std::vector<int64_t>(), true}},
                .shape = TileGradShape,
                .gradient = TileGradGrad,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeTileGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
