// The gradient of Gather, and ScatterRows, on GPUs, without atomics, so that it is reproducible: slices of dy with
// equal indices are summed in the order of the indices. The indices are sorted together with their positions, chunks of
// the sorted list are summed, and the sums of rows that span several chunks are then combined.
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/gpu/index_gpu_impl.h"
#include "ops/index/gather_impl.h"
#include "ops/index/index_ops.h"
#include "ops/index/sort_gpu_impl.h"

namespace belfry::ops {
namespace {

// The sort key: an index, then its position. Indices out of range are replaced by `rows`, so they come last.
template <class Index>
struct KeyAt {
  const Index* indices;
  int64_t rows;
  BELFRY_GPU uint64_t operator()(int64_t i) const {
    const auto index = static_cast<int64_t>(indices[i]);
    return (static_cast<uint64_t>(index >= 0 && index < rows ? index : rows) << 32) | static_cast<uint64_t>(i);
  }
};
BELFRY_GPU inline int64_t RowOf(uint64_t key) { return static_cast<int64_t>(key >> 32); }
BELFRY_GPU inline int64_t PositionOf(uint64_t key) { return static_cast<int64_t>(key & 0xffffffff); }

struct SumPlan {
  GatherLayout layout;
  int64_t chunk = 16, chunks = 0;  // keys per chunk of the sorted list, and number of chunks
  int64_t columns = 0;             // sums per chunk: outer * inner
  Divider inner, per_chunk;

  explicit SumPlan(const GatherLayout& given) : layout(given), columns(given.outer * given.inner) {
    constexpr int64_t kEnoughThreads = 1 << 18;
    while (chunk < 256 && layout.count / chunk * columns > kEnoughThreads) chunk *= 2;
    chunks = (layout.count + chunk - 1) / chunk;
    inner = Divider(layout.inner, columns);
    per_chunk = Divider(columns, chunks * columns);
  }

  struct Position {
    int64_t chunk, begin, end;  // keys
    int64_t outer, inner;
  };
  BELFRY_GPU Position Find(int64_t i) const {
    Position at;
    at.outer = per_chunk.Split(i);
    at.chunk = i;
    at.inner = inner.Split(at.outer);
    at.begin = at.chunk * chunk;
    at.end = at.begin + chunk < layout.count ? at.begin + chunk : layout.count;
    return at;
  }
};

// Stores the sums of rows that lie within one chunk. If a row started in an earlier chunk, this chunk's part of the sum
// goes to `head`; if a row continues in the next chunk, its first part goes to `tail`.
template <class T>
absl::Status SumChunks(Stream& stream, const SumPlan& plan, const uint64_t* keys, const gpu::Stored<T>* dy,
                       gpu::Compute<T>* head, gpu::Compute<T>* tail, gpu::Stored<T>* dx) {
  return gpu::ForEach(stream, plan.chunks * plan.columns, [=] BELFRY_GPU(int64_t i) {
    const auto at = plan.Find(i);
    const GatherLayout& layout = plan.layout;
    const int64_t before = at.begin > 0 ? RowOf(keys[at.begin - 1]) : -1;
    const int64_t after = at.end < layout.count ? RowOf(keys[at.end]) : -1;
    int64_t row = RowOf(keys[at.begin]);
    gpu::Compute<T> sum = 0;
    for (int64_t k = at.begin; k < at.end; ++k) {
      const uint64_t key = keys[k];
      if (RowOf(key) != row) {
        if (row == before) {
          head[i] = sum;
        } else {
          dx[(at.outer * layout.rows + row) * layout.inner + at.inner] = gpu::Narrow<T>(sum);
        }
        row = RowOf(key);
        sum = 0;
      }
      if (row == layout.rows) break;
      sum += gpu::Widen(dy[(at.outer * layout.count + PositionOf(key)) * layout.inner + at.inner]);
    }
    if (row == before) {
      head[i] = sum;
    } else if (row == after) {
      tail[i] = sum;
    } else if (row < layout.rows) {
      dx[(at.outer * layout.rows + row) * layout.inner + at.inner] = gpu::Narrow<T>(sum);
    }
  });
}

// Combines the sums of each row that spans several chunks. The chunk in which the row starts does the work.
template <class T>
absl::Status JoinChunks(Stream& stream, const SumPlan& plan, const uint64_t* keys, const gpu::Compute<T>* head,
                        const gpu::Compute<T>* tail, gpu::Stored<T>* dx) {
  return gpu::ForEach(stream, plan.chunks * plan.columns, [=] BELFRY_GPU(int64_t i) {
    const auto at = plan.Find(i);
    const GatherLayout& layout = plan.layout;
    const int64_t row = RowOf(keys[at.end - 1]);
    if (row == layout.rows || at.end == layout.count || RowOf(keys[at.end]) != row) return;
    if (at.begin > 0 && RowOf(keys[at.begin - 1]) == row) return;
    const uint64_t next_row = static_cast<uint64_t>(row + 1) << 32;
    const int64_t shared = CountLess(keys, at.end, layout.count, next_row);
    const int64_t more = (shared + plan.chunk - 1) / plan.chunk;
    gpu::Compute<T> sums[4] = {tail[i], 0, 0, 0};
    const gpu::Compute<T>* from = head + i + plan.columns;
    int64_t c = 0;
    for (; c + 4 <= more; c += 4) {
      for (int k = 0; k < 4; ++k) sums[k] += from[(c + k) * plan.columns];
    }
    for (; c < more; ++c) sums[0] += from[c * plan.columns];
    dx[(at.outer * layout.rows + row) * layout.inner + at.inner] =
        gpu::Narrow<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  });
}

template <class T, class Index>
Kernel GatherGradKernel(const GatherLayout& layout) {
  using C = gpu::Compute<T>;
  const SumPlan plan(layout);
  const auto keys = static_cast<size_t>(layout.count), sums = static_cast<size_t>(plan.chunks * plan.columns);
  Kernel kernel;
  kernel.workspace_bytes = 2 * keys * sizeof(uint64_t) + 2 * sums * sizeof(C);
  kernel.run = [plan, keys, sums](const KernelContext& context) {
    Stream& stream = *context.stream;
    const GatherLayout& layout = plan.layout;
    auto* const dx = context.output<gpu::Stored<T>>(0);
    const auto elements = static_cast<size_t>(layout.outer * layout.rows * layout.inner);
    RETURN_IF_ERROR(gpu::SetBytes(stream, dx, 0, elements * sizeof(gpu::Stored<T>)));
    if (elements == 0 || sums == 0) return absl::OkStatus();
    auto* const a = static_cast<uint64_t*>(context.workspace);
    uint64_t* const b = a + keys;
    C *const head = reinterpret_cast<C*>(b + keys), *const tail = head + sums;
    RETURN_IF_ERROR(SortKeys(stream, layout.count, KeyAt<Index>{context.input<Index>(1), layout.rows}, a, b));
    const uint64_t* const sorted = SortedIn(layout.count, a, b);
    RETURN_IF_ERROR(SumChunks<T>(stream, plan, sorted, context.input<gpu::Stored<T>>(0), head, tail, dx));
    return JoinChunks<T>(stream, plan, sorted, head, tail, dx);
  };
  return kernel;
}

template <class T>
absl::StatusOr<Kernel> AddRows(const KernelSpec& spec, const GatherLayout& layout) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (layout.rows > kMax || layout.count > kMax) {
    return absl::UnimplementedError(absl::StrCat("adding ", layout.count, " slices to ", layout.rows,
                                                 " (the gradient of a gather): a GPU supports at most ", kMax,
                                                 " of each"));
  }
  return spec.inputs[1].dtype == DType::kInt32 ? GatherGradKernel<T, int32_t>(layout)
                                               : GatherGradKernel<T, int64_t>(layout);
}

template <class T>
absl::StatusOr<Kernel> MakeGatherGrad(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GatherLayout layout,
                   MakeGatherLayout(spec.attrs, spec.outputs[0].shape, spec.inputs[1].shape));
  return AddRows<T>(spec, layout);
}

template <class T>
absl::StatusOr<Kernel> MakeScatterRows(const KernelSpec& spec) {
  return AddRows<T>(spec, ScatterLayout(spec));
}

}  // namespace

void AddGatherGradGpuKernels(KernelTable& table) {
  table.AddKernels("ScatterRows", Kernels<float, double, Half, BFloat16, int32_t, int64_t>(
                                      "GPU", [](auto tag) { return &MakeScatterRows<typename decltype(tag)::type>; }));
  table.AddKernels("GatherGrad", Kernels<float, double, Half, BFloat16>(
                                     "GPU", [](auto tag) { return &MakeGatherGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
