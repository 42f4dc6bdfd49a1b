// The gradient of Tile on GPUs; Tile itself is a box copy.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/copy/copy_ops.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

// Maps element i of an array with up to kMaxAxes axes to its offset in another.
struct Strides {
  static constexpr int kMaxAxes = 16;
  struct Axis {
    Divider extent;  // prepared for the number of all elements
    int64_t stride = 0;
  };
  int axes = 0;
  Axis axis[kMaxAxes];

  // Index is uint32_t if CountsIn32Bits(number of elements), otherwise int64_t.
  template <class Index>
  BELFRY_GPU int64_t Offset(Index i) const {
    int64_t offset = 0;
    for (int a = axes; a-- > 0;) {
      offset += static_cast<int64_t>(a == 0 ? i : axis[a].extent.Split(i)) * axis[a].stride;
    }
    return offset;
  }
};

// The gradient is n sums of `terms` elements of dy each, one element per tile. With few sums of many terms, each sum is
// split into parts: part p takes the tiles p, p + parts, ...
struct TileSums {
  int64_t n = 1, terms = 1, parts = 1;
  Strides within, tiles;  // offsets of an element within its tile, and of the tile
  Divider by_n;
  bool small = true;

  // Adds an axis, merged with the one before it if contiguous; false if there is no room. `limit` bounds the indices.
  static bool Append(Strides& strides, int64_t limit, int64_t extent, int64_t stride) {
    if (extent == 1) return true;
    if (strides.axes > 0) {
      Strides::Axis& outer = strides.axis[strides.axes - 1];
      if (outer.stride == extent * stride) {
        outer = {Divider(outer.extent.divisor() * extent, limit), stride};
        return true;
      }
    }
    if (strides.axes == Strides::kMaxAxes) return false;
    strides.axis[strides.axes++] = {Divider(extent, limit), stride};
    return true;
  }

  BELFRY_GPU int64_t Offset(const Strides& strides, int64_t i) const {
    return small ? strides.Offset(static_cast<uint32_t>(i)) : strides.Offset(i);
  }
};

absl::StatusOr<TileSums> PlanTileSums(const KernelSpec& spec) {
  constexpr int64_t kThreads = 1 << 18, kFewestTerms = 16, kMaxParts = 4096;
  const Shape &x = spec.outputs[0].shape, &dy = spec.inputs[0].shape;
  const std::vector<int64_t>& multiples = spec.attrs.Ints("multiples");
  TileSums sums;
  const int64_t limit = std::max(x.elements(), dy.elements());
  int64_t stride = dy.elements();
  for (int axis = 0; axis < x.rank(); ++axis) {
    stride = dy.elements(axis + 1, dy.rank());
    const int64_t multiple = multiples[static_cast<size_t>(axis)];
    sums.n *= x[axis];
    sums.terms *= multiple;
    if (!TileSums::Append(sums.within, limit, x[axis], stride) ||
        !TileSums::Append(sums.tiles, limit, multiple, x[axis] * stride)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the gradient of tiling ", x.ToString(), " has too many axes for a GPU"));
    }
  }
  if (sums.n > 0) {
    sums.parts = std::clamp<int64_t>(std::min({sums.terms / kFewestTerms, kThreads / sums.n, kMaxParts}), 1, kMaxParts);
  }
  sums.by_n = Divider(sums.n, sums.n * sums.parts);
  sums.small = CountsIn32Bits(std::max(sums.n * sums.parts, sums.n * sums.terms));
  return sums;
}

// to[p * n + i] = part p of sum i.
template <class T, class Out>
absl::Status SumTiles(Stream& stream, const TileSums& sums, const gpu::Stored<T>* dy, gpu::Stored<Out>* to) {
  using C = gpu::Compute<T>;
  return gpu::ForEach(stream, sums.n * sums.parts, [=] BELFRY_GPU(int64_t i) {
    const int64_t part = sums.by_n.Quotient(i), step = sums.parts;
    const gpu::Stored<T>* const from = dy + sums.Offset(sums.within, i - part * sums.n);
    C partial[4] = {0, 0, 0, 0};
    int64_t tile = part;
    for (; tile + 3 * step < sums.terms; tile += 4 * step) {
      for (int k = 0; k < 4; ++k) partial[k] += gpu::Widen(from[sums.Offset(sums.tiles, tile + k * step)]);
    }
    for (; tile < sums.terms; tile += step) partial[0] += gpu::Widen(from[sums.Offset(sums.tiles, tile)]);
    to[i] = gpu::Narrow<Out>((partial[0] + partial[1]) + (partial[2] + partial[3]));
  });
}

template <class T>
absl::Status JoinParts(Stream& stream, int64_t n, int64_t parts, const gpu::Compute<T>* from, gpu::Stored<T>* dx) {
  using C = gpu::Compute<T>;
  constexpr int64_t kFew = 64;
  if (parts <= kFew) {
    return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
      C sum = 0;
      for (int64_t p = 0; p < parts; ++p) sum += from[p * n + i];
      dx[i] = gpu::Narrow<T>(sum);
    });
  }
  return gpu::ForEachRow(stream, n, parts, [=] BELFRY_GPU(int64_t i, const gpu::Team& team) {
    C sum = 0;
    for (int64_t p = team.rank; p < parts; p += team.size) sum += from[p * n + i];
    sum = team.Sum(sum);
    if (team.rank == 0) dx[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::StatusOr<Kernel> MakeTileGrad(const KernelSpec& spec) {
  using C = gpu::Compute<T>;
  ASSIGN_OR_RETURN(const TileSums sums, PlanTileSums(spec));
  if (sums.n == 0) return NothingToDo();
  if (sums.parts == 1) {
    return Kernel{[sums](const KernelContext& context) {
      return SumTiles<T, T>(*context.stream, sums, context.input<gpu::Stored<T>>(0), context.output<gpu::Stored<T>>(0));
    }};
  }
  const auto run = [sums](const KernelContext& context) {
    auto* const parts = static_cast<C*>(context.workspace);
    RETURN_IF_ERROR((SumTiles<T, C>(*context.stream, sums, context.input<gpu::Stored<T>>(0), parts)));
    return JoinParts<T>(*context.stream, sums.n, sums.parts, parts, context.output<gpu::Stored<T>>(0));
  };
  return Kernel{run, static_cast<size_t>(sums.n * sums.parts) * sizeof(C)};
}

}  // namespace

void AddTileGpuKernels(KernelTable& table) {
  table.AddKernels("TileGrad", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeTileGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
