#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/math.h"
#include "ops/onednn/matmul.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/product/blocked_product_impl.h"
#include "ops/product/gemm_impl.h"
#include "ops/product/product_ops.h"
#include "ops/product/tile_product_impl.h"

namespace belfry::ops {
namespace {

constexpr DType kMatMulTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                  DType::kBFloat16, DType::kInt32,   DType::kInt64};

absl::StatusOr<std::vector<Shape>> MatMulShape(const ShapeArgs& args) {
  const Shape& a = args.inputs[0];
  const Shape& b = args.inputs[1];
  const bool transpose_a = args.attrs.Bool("transpose_a"), transpose_b = args.attrs.Bool("transpose_b");
  const std::string both = absl::StrCat(a.ToString(), transpose_a ? " (transposed) and " : " and ", b.ToString(),
                                        transpose_b ? " (transposed)" : "");
  if (a.rank() < 2 || b.rank() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("needs tensors of rank 2 or more, but was given ", both));
  }
  const int64_t m = a[transpose_a ? -1 : -2], ka = a[transpose_a ? -2 : -1];
  const int64_t kb = b[transpose_b ? -1 : -2], n = b[transpose_b ? -2 : -1];
  if (ka != kb && ka != Shape::kUnknown && kb != Shape::kUnknown) {
    return absl::InvalidArgumentError(absl::StrCat("the inner extents of ", both, " differ: ", ka, " and ", kb));
  }
  ASSIGN_OR_RETURN(const Shape batch, BroadcastShapes(BatchOf(a), BatchOf(b)));
  return std::vector<Shape>{batch.Insert(batch.rank(), m).Insert(batch.rank() + 1, n)};
}

// An operand in the form that Gemm reads: transposed into the workspace if necessary.
template <class T>
struct StoredMatrix {
  int64_t rows, columns;  // as stored
  bool transpose;

  int64_t elements() const { return rows * columns; }
  int64_t workspace() const { return transpose ? elements() : 0; }
  const T* Prepare(const T* x, T* space) const {
    if (!transpose) return x;
    TransposeMatrix(x, space, rows, columns);
    return space;
  }
};

// A kernel that runs oneDNN, or nothing if our own loops must or should be used.
absl::StatusOr<std::optional<Kernel>> MakePrimitive(const KernelSpec& spec, int64_t k) {
  const Shape& y = spec.outputs[0].shape;
  const DType dtype = spec.outputs[0].dtype;
  if (!OneDnnComputes(dtype) || !onednn::ProductsRepeat(dtype) || !HasElements(spec) ||
      y.elements() * k < kSmallProduct) {
    return std::optional<Kernel>();
  }
  return PrimitiveKernel(spec,
                         onednn::MatMul({.a_batch = BatchOf(spec.inputs[0].shape),
                                         .b_batch = BatchOf(spec.inputs[1].shape),
                                         .m = y[-2],
                                         .k = k,
                                         .n = y[-1],
                                         .transpose_a = spec.attrs.Bool("transpose_a"),
                                         .transpose_b = spec.attrs.Bool("transpose_b"),
                                         .dtype = dtype,
                                         .output_dtype = dtype}),
                         {0, 1}, {0});
}

// The matrices of a and b, by their numbers, whose product is each matrix of the result.
struct Pair {
  int64_t a, b;
};
absl::StatusOr<std::vector<Pair>> PairsOf(const BroadcastPlan& batch) {
  constexpr int64_t kMostMatrices = int64_t{1} << 28;  // 4 GiB of pairs
  if (batch.inner > kMostMatrices / std::max<int64_t>(batch.rows, 1)) {
    return absl::UnimplementedError(absl::StrCat("products of more than ", kMostMatrices, " matrices"));
  }
  std::vector<Pair> pairs;
  batch.ForRows(0, batch.rows, [&](int64_t, int64_t a, int64_t b) {
    for (int64_t i = 0; i < batch.inner; ++i) pairs.push_back({a + i * batch.stride_a, b + i * batch.stride_b});
  });
  return pairs;
}

// Threads share the products of a batch or, if there are few, each product. `make` makes one, a BlockedProduct or a
// TileProduct.
template <class T, class Make>
Kernel MakeBlocked(const KernelSpec& spec, std::vector<Pair> pairs, int64_t m, int64_t n, int64_t k, const Make& make) {
  const auto count = static_cast<int64_t>(pairs.size());
  const int64_t sharers = count >= 2 * ParallelThreads() ? ParallelThreads() : 1;
  const ScopedParallelThreads threads(sharers > 1 ? 1 : ParallelThreads());
  const auto product = make();
  using C = typename decltype(product)::C;
  const bool one_b = std::all_of(pairs.begin(), pairs.end(), [](const Pair& pair) { return pair.b == 0; });
  const C* const ready = one_b ? PackedConstant<T>(spec, 1, product) : nullptr;
  const int64_t elements = ready == nullptr ? product.workspace_elements() : product.packed_workspace_elements();
  const auto own = static_cast<int64_t>(AlignUp(static_cast<size_t>(elements)));
  Kernel kernel;
  kernel.workspace_bytes = sizeof(C) * static_cast<size_t>(sharers * own);
  kernel.run = [=, pairs = std::move(pairs)](const KernelContext& context) {
    const T *const a = context.input<T>(0), *const b = context.input<T>(1);
    T* const y = context.output<T>(0);
    C* const workspace = static_cast<C*>(context.workspace);
    const auto for_part = [&](int64_t begin, int64_t end) {
      for (int64_t sharer = begin; sharer < end; ++sharer) {
        for (int64_t i = count * sharer / sharers; i < count * (sharer + 1) / sharers; ++i) {
          const T* const factor = a + pairs[i].a * m * k;
          T* const to = y + i * m * n;
          C* const space = workspace + sharer * own;
          if (ready != nullptr) {
            product.RunPacked(factor, ready, nullptr, to, space);
          } else {
            product.Run(factor, b + pairs[i].b * k * n, nullptr, to, space);
          }
        }
      }
    };
    ParallelFor(sharers, static_cast<double>(count * m * n) * static_cast<double>(k) / 8, for_part);
    return absl::OkStatus();
  };
  return kernel;
}

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeMatMul(const KernelSpec& spec) {
  const Shape& sa = spec.inputs[0].shape;
  const Shape& sb = spec.inputs[1].shape;
  const Shape& sy = spec.outputs[0].shape;
  const StoredMatrix<T> a{sa[-2], sa[-1], spec.attrs.Bool("transpose_a")};
  const StoredMatrix<T> b{sb[-2], sb[-1], spec.attrs.Bool("transpose_b")};
  const int64_t m = sy[-2], n = sy[-1], k = a.transpose ? a.rows : a.columns;
  if (sy.elements() == 0) return NothingToDo();
  if constexpr (std::is_same_v<T, BFloat16>) {
    // One b for all matrices: a single tall product.
    const bool tall = BatchOf(sb).elements() == 1 && !a.transpose;
    const int64_t rows = tall ? sy.elements() / n : m;
    if (const simd::Tiles tiles = TileProduct::Tiles(rows, n, k, a.transpose); tiles != simd::Tiles::kNone) {
      std::vector<Pair> pairs(1);
      if (!tall) {
        ASSIGN_OR_RETURN(const BroadcastPlan batch, PlanBroadcast(BatchOf(sa), BatchOf(sb)));
        ASSIGN_OR_RETURN(pairs, PairsOf(batch));
      }
      Kernel kernel = MakeBlocked<T>(spec, std::move(pairs), rows, n, k,
                                     [&] { return TileProduct(tiles, rows, n, k, a.transpose, b.transpose); });
      kernel.engine = "tiles";
      return kernel;
    }
  }
  ASSIGN_OR_RETURN(std::optional<Kernel> primitive, MakePrimitive(spec, k));
  if (primitive) return *std::move(primitive);
  ASSIGN_OR_RETURN(const BroadcastPlan batch, PlanBroadcast(BatchOf(sa), BatchOf(sb)));
  const auto blocked = [&] { return BlockedProduct<T>(m, n, k, a.transpose, b.transpose); };
  if constexpr (kIsSixteenBit<T>) {
    ASSIGN_OR_RETURN(std::vector<Pair> pairs, PairsOf(batch));
    return MakeBlocked<T>(spec, std::move(pairs), m, n, k, blocked);
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (m * n * k >= kSmallProduct) {
        ASSIGN_OR_RETURN(std::vector<Pair> pairs, PairsOf(batch));
        return MakeBlocked<T>(spec, std::move(pairs), m, n, k, blocked);
      }
    }
    Kernel kernel;
    kernel.workspace_bytes = sizeof(T) * static_cast<size_t>(a.workspace() + b.workspace());
    kernel.run = [=](const KernelContext& context) {
      T* const space = static_cast<T*>(context.workspace);
      batch.ForRows(0, batch.rows, [&](int64_t row, int64_t offset_a, int64_t offset_b) {
        for (int64_t i = 0; i < batch.inner; ++i) {
          const T* pa = a.Prepare(context.input<T>(0) + (offset_a + i * batch.stride_a) * a.elements(), space);
          const T* pb =
              b.Prepare(context.input<T>(1) + (offset_b + i * batch.stride_b) * b.elements(), space + a.workspace());
          Gemm(pa, pb, context.output<T>(0) + (row * batch.inner + i) * m * n, m, n, k);
        }
      });
      return absl::OkStatus();
    };
    return kernel;
  }
}

template absl::StatusOr<Kernel> MakeMatMul<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeMatMul<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeMatMul<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeMatMul<BFloat16>(const KernelSpec& spec);

namespace {

std::vector<Output> MatMulGradient(const Scope& scope, const Node& node, absl::Span<const Output> dys) {
  const Output a = node.input(0), b = node.input(1), dy = dys[0];
  const bool ta = node.attrs().Bool("transpose_a"), tb = node.attrs().Bool("transpose_b");
  Output da =
      ta ? MatMul(scope, b, dy, {.transpose_a = tb, .transpose_b = true}) : MatMul(scope, dy, b, {.transpose_b = !tb});
  Output db =
      tb ? MatMul(scope, dy, a, {.transpose_a = true, .transpose_b = ta}) : MatMul(scope, a, dy, {.transpose_a = !ta});
  if (!scope.status().ok()) return {da, db};
  if (dy.shape().rank() > 2) {
    da = SumLike(scope, da, a);
    db = SumLike(scope, db, b);
  }
  return {da, db};
}

}  // namespace

Output MatMul(OpScope scope, Output a, Output b, const MatMulOptions& options) {
  return scope.Add("MatMul", {a, b}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}});
}

double MatMulFlops(const KernelSpec& of) {
  const Shape& a = of.inputs[0].shape;
  const int64_t summed = a.dim(a.rank() - (of.attrs.Bool("transpose_a") ? 2 : 1));
  return 2.0 * static_cast<double>(of.outputs[0].shape.elements()) * static_cast<double>(summed);
}

void RegisterMatMul(OpRegistry& registry) {
  registry.Add({.name = "MatMul",
                .inputs = {{.name = "a"}, {.name = "b"}},
                .outputs = {{.name = "product"}},
                .types = {{"T", kMatMulTypes}},
                .attrs = {{"transpose_a", false}, {"transpose_b", false}},
                .shape = MatMulShape,
                .flops = MatMulFlops,
                .gradient = MatMulGradient,
                .kernels = Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
                    "CPU", [](auto tag) { return &MakeMatMul<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
