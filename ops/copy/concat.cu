#include <algorithm>
#include <vector>

#include "framework/base/status.h"
#include "ops/copy/copy_ops.h"
#include "ops/copy/join_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

// Adjacent parts of the whole, as many as one launch can move.
struct GpuParts {
  static constexpr int kMax = 32;
  int count = 0;
  int64_t column = 0;            // column of the whole at which the first part begins
  int64_t begin[kMax + 1] = {};  // first column of each part relative to `column`; the last entry is the total
  Divider width;                 // divides by the total number of columns
  void* part[kMax] = {};
};

// Copies the rows of the parts into the whole, or the rows of the whole into the parts.
template <bool join, int bytes, class Index>
absl::Status MoveParts(Stream& stream, int64_t rows, int64_t width, const GpuParts& parts, GpuUnit<bytes>* whole) {
  const int64_t columns = parts.begin[parts.count];
  return gpu::ForEach(stream, rows * columns, [=] BELFRY_GPU(int64_t i) {
    const auto row = static_cast<int64_t>(parts.width.Quotient(static_cast<Index>(i)));
    const int64_t column = i - row * columns;
    int p = 0;
    for (int end = parts.count; end - p > 1;) {
      const int middle = (p + end) / 2;
      if (parts.begin[middle] <= column) {
        p = middle;
      } else {
        end = middle;
      }
    }
    const int64_t begin = parts.begin[p];
    auto* const part =
        static_cast<GpuUnit<bytes>*>(parts.part[p]) + row * (parts.begin[p + 1] - begin) + column - begin;
    GpuUnit<bytes>* const in_whole = whole + row * width + parts.column + column;
    if constexpr (join) {
      *in_whole = *part;
    } else {
      *part = *in_whole;
    }
  });
}

struct Launch {
  GpuParts parts;
  int number[GpuParts::kMax];  // index of the node's input or output, by part
};

// Groups the parts into launches. Column counts are in the units of `plan`; empty parts are skipped.
std::vector<Launch> Launches(const JoinPlan& plan) {
  std::vector<Launch> launches;
  int64_t column = 0;
  for (size_t i = 0; i < plan.columns.size(); ++i) {
    if (plan.columns[i] == 0) continue;
    if (launches.empty() || launches.back().parts.count == GpuParts::kMax) {
      launches.push_back({});
      launches.back().parts.column = column;
    }
    GpuParts& parts = launches.back().parts;
    launches.back().number[parts.count] = static_cast<int>(i);
    parts.begin[parts.count + 1] = parts.begin[parts.count] + plan.columns[i];
    ++parts.count;
    parts.width = Divider(parts.begin[parts.count], plan.rows * plan.width);
    column += plan.columns[i];
  }
  return launches;
}

template <bool join, int bytes, class Index>
Kernel MoveKernel(const JoinPlan& plan) {
  return Kernel{[launches = Launches(plan), rows = plan.rows, width = plan.width](const KernelContext& context) {
    using Unit = GpuUnit<bytes>;
    for (const Launch& launch : launches) {
      GpuParts parts = launch.parts;
      for (int i = 0; i < parts.count; ++i) {
        const int number = launch.number[i];
        parts.part[i] = join ? const_cast<void*>(context.inputs[number]) : context.outputs[number];
      }
      auto* const whole = static_cast<Unit*>(join ? context.outputs[0] : const_cast<void*>(context.inputs[0]));
      RETURN_IF_ERROR((MoveParts<join, bytes, Index>(*context.stream, rows, width, parts, whole)));
    }
    return absl::OkStatus();
  }};
}

template <bool join>
Kernel MakeMove(JoinPlan plan, size_t size) {
  if (plan.rows == 0 || plan.width == 0) return NothingToDo();
  const auto even = [](int64_t columns) { return columns % 2 == 0; };
  while (size < kWidestUnit && std::all_of(plan.columns.begin(), plan.columns.end(), even)) {
    for (int64_t& columns : plan.columns) columns /= 2;
    plan.width /= 2;
    size *= 2;
  }
  const bool small = CountsIn32Bits(plan.rows * plan.width);
  return WithUnit(size, [&](auto bytes) {
    constexpr int kBytes = decltype(bytes)::value;
    return small ? MoveKernel<join, kBytes, uint32_t>(plan) : MoveKernel<join, kBytes, int64_t>(plan);
  });
}

absl::StatusOr<Kernel> MakeJoin(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(JoinPlan plan, PlanJoin(spec));
  return MakeMove<true>(std::move(plan), SizeOf(spec.outputs[0].dtype));
}
absl::StatusOr<Kernel> MakeSplit(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(JoinPlan plan, PlanSplit(spec));
  return MakeMove<false>(std::move(plan), SizeOf(spec.inputs[0].dtype));
}

}  // namespace

void AddConcatGpuKernels(KernelTable& table) {
  for (const absl::string_view op : {"Concat", "Stack"}) table.AddKernels(op, AnyTypeGpuKernels(MakeJoin));
  for (const absl::string_view op : {"Split", "SplitLike", "Unstack"}) {
    table.AddKernels(op, AnyTypeGpuKernels(MakeSplit));
  }
}

}  // namespace belfry::ops
