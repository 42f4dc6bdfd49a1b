#include "framework/base/alignment.h"
#include "ops/reduction/reduce_gpu_impl.h"
#include "ops/reduction/reduction_ops.h"
#include "ops/reduction/reductions.h"
#include "ops/reduction/visit_gpu_impl.h"

namespace belfry::ops {
namespace {

template <class T, template <class> class R>
absl::StatusOr<Kernel> MakeReduction(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(spec));
  return GpuReduceKernel<T>(plan, R<gpu::Compute<T>>());
}

// --- The gradient of Max and Min: dy is divided evenly among the elements of x that equal y ---

template <class T>
struct Wins {
  const gpu::Stored<T>* x;
  const gpu::Stored<T>* y;
  BELFRY_GPU int64_t operator()(int64_t at, int64_t output, int64_t) const {
    const gpu::Compute<T> a = gpu::Widen(x[at]), b = gpu::Widen(y[output]);
    return a == b || (a != a && b != b) ? 1 : 0;
  }
};
template <class T>
struct StoreShare {
  const gpu::Stored<T>* dy;
  gpu::Compute<T>* share;
  BELFRY_GPU void operator()(int64_t output, int64_t winners) const {
    share[output] = gpu::Widen(dy[output]) / static_cast<gpu::Compute<T>>(winners);
  }
};
template <class T>
struct GiveShare {
  Wins<T> wins;
  const gpu::Compute<T>* share;
  gpu::Stored<T>* dx;
  BELFRY_GPU void operator()(int64_t i, int64_t output) const {
    dx[i] = gpu::Narrow<T>(wins(i, output, 0) != 0 ? share[output] : gpu::Compute<T>(0));
  }
};
struct CountReduction {
  using Lane = int64_t;
  using Acc = int64_t;

  static constexpr int64_t Start() { return 0; }
  static constexpr int64_t Step(int64_t lane, int64_t x) { return lane + x; }
  static constexpr int64_t Begin() { return 0; }
  static constexpr int64_t Merge(int64_t acc, int64_t lane) { return acc + lane; }
  static constexpr int64_t Join(int64_t a, int64_t b) { return a + b; }
};

template <class T>
absl::StatusOr<Kernel> MakeExtremeGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t n = spec.inputs[0].shape.elements();
  if (n == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(spec));
  ASSIGN_OR_RETURN(const GpuBroadcast visit, PlanGpuVisit(spec, spec.inputs[0].shape));
  const size_t parts_at = AlignUp(sizeof(gpu::Compute<T>) * static_cast<size_t>(plan.outputs()));
  Kernel kernel;
  kernel.workspace_bytes = parts_at + plan.WorkspaceBytes<CountReduction>();
  kernel.run = [=](const KernelContext& at) {
    auto* const share = static_cast<gpu::Compute<T>*>(at.workspace);
    const Wins<T> wins{at.input<S>(0), at.input<S>(1)};
    RETURN_IF_ERROR(GpuReduce(*at.stream, plan, CountReduction(), wins, StoreShare<T>{at.input<S>(2), share},
                              static_cast<char*>(at.workspace) + parts_at));
    return GpuVisit(*at.stream, n, visit, GiveShare<T>{wins, share, at.output<S>(0)});
  };
  return kernel;
}

// --- The gradient of Prod: dy times the product of all other elements ---

struct StoreFactors {
  Factors* factors;
  BELFRY_GPU void operator()(int64_t output, Factors result) const { factors[output] = result; }
};
template <class T>
struct MultiplyOthers {
  const gpu::Stored<T>* x;
  const gpu::Stored<T>* dy;
  const Factors* factors;
  gpu::Stored<T>* dx;
  BELFRY_GPU void operator()(int64_t i, int64_t output) const {
    const auto value = static_cast<double>(gpu::Widen(x[i]));
    const double others = factors[output].Without(value);
    dx[i] = gpu::Narrow<T>(static_cast<gpu::Compute<T>>(others * static_cast<double>(gpu::Widen(dy[output]))));
  }
};

template <class T>
absl::StatusOr<Kernel> MakeProdGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const int64_t n = spec.inputs[0].shape.elements();
  if (n == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const GpuReducePlan plan, PlanGpuReduce(spec));
  ASSIGN_OR_RETURN(const GpuBroadcast visit, PlanGpuVisit(spec, spec.inputs[0].shape));
  const size_t parts_at = AlignUp(sizeof(Factors) * static_cast<size_t>(plan.outputs()));
  Kernel kernel;
  kernel.workspace_bytes = parts_at + plan.WorkspaceBytes<FactorReduction>();
  kernel.run = [=](const KernelContext& at) {
    auto* const factors = static_cast<Factors*>(at.workspace);
    RETURN_IF_ERROR(GpuReduce(*at.stream, plan, FactorReduction(), GpuLoad<T>{at.input<S>(0)}, StoreFactors{factors},
                              static_cast<char*>(at.workspace) + parts_at));
    return GpuVisit(*at.stream, n, visit, MultiplyOthers<T>{at.input<S>(0), at.input<S>(1), factors, at.output<S>(0)});
  };
  return kernel;
}

template <template <class> class R>
std::vector<KernelDef> NumericReductions() {
  return Kernels<float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(
      "GPU", [](auto tag) { return &MakeReduction<typename decltype(tag)::type, R>; });
}

}  // namespace

void AddExtremeGpuKernels(KernelTable& table) {
  table.AddKernels("Max", NumericReductions<MaxReduction>());
  table.AddKernels("Min", NumericReductions<MinReduction>());
  table.AddKernels("Prod", NumericReductions<ProductReduction>());
  table.AddKernels("Any", Kernels<bool>("GPU", [](auto) { return &MakeReduction<bool, AnyReduction>; }));
  table.AddKernels("All", Kernels<bool>("GPU", [](auto) { return &MakeReduction<bool, AllReduction>; }));
  for (const char* op : {"MaxGrad", "MinGrad"}) {
    table.AddKernels(op, Kernels<float, double, Half, BFloat16>(
                             "GPU", [](auto tag) { return &MakeExtremeGrad<typename decltype(tag)::type>; }));
  }
  table.AddKernels("ProdGrad", Kernels<float, double, Half, BFloat16>(
                                   "GPU", [](auto tag) { return &MakeProdGrad<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
