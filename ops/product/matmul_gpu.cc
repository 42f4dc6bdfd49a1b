#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "framework/base/status.h"
#include "ops/activation/epilogue_gpu_impl.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/cublas/matmul.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/product/matmul_gpu_impl.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {
namespace {

// A kernel that runs cuBLASLt. Inputs: a, b and, if `bias`, the bias.
absl::StatusOr<Kernel> MakeByLibrary(const KernelSpec& spec, bool bias, bool relu) {
  const Shape &a = spec.inputs[0].shape, &b = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  GpuMatMul product{.m = y[-2],
                    .n = y[-1],
                    .transpose_a = spec.attrs.Bool("transpose_a"),
                    .transpose_b = spec.attrs.Bool("transpose_b"),
                    .dtype = spec.inputs[0].dtype,
                    .bias = bias,
                    .relu = relu,
                    .wide = spec.outputs[0].dtype != spec.inputs[0].dtype};
  product.k = a[product.transpose_a ? -2 : -1];
  if (y.elements() == 0 || product.k == 0) return absl::UnimplementedError("no elements");
  ASSIGN_OR_RETURN(const BroadcastPlan batch, PlanBroadcast(BatchOf(a), BatchOf(b)));
  product.batch = batch.inner;
  product.same_a = batch.stride_a == 0;
  product.same_b = batch.stride_b == 0;
  const auto size = static_cast<int64_t>(SizeOf(product.dtype));
  const int64_t step_a = a[-2] * a[-1] * size, step_b = b[-2] * b[-1] * size;
  const int64_t step_y = product.m * product.n * batch.inner * static_cast<int64_t>(SizeOf(product.result()));
  if (batch.rows > 1) {
    for (const int64_t step : {step_a, step_b, step_y}) product.alignment = std::gcd(product.alignment, step);
  }
  ASSIGN_OR_RETURN(GpuMatMulCore core, MakeLibraryGpuMatMul(product, *spec.device));
  const size_t bytes = core.workspace_bytes;
  return Kernel{[core = std::move(core), batch, bias, step_a, step_b, step_y](const KernelContext& at) {
                  absl::Status status;
                  batch.ForRows(0, batch.rows, [&](int64_t row, int64_t offset_a, int64_t offset_b) {
                    if (!status.ok()) return;
                    status = core.run(*at.stream,
                                      {at.input<char>(0) + offset_a * step_a, at.input<char>(1) + offset_b * step_b,
                                       bias ? at.inputs[2] : nullptr, at.output<char>(0) + row * step_y, at.workspace});
                  });
                  return status;
                },
                bytes};
}

template <class T>
absl::StatusOr<Kernel> MakeFused(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Epilogue epilogue, EpilogueOf(spec.attrs));
  if (FusedByGpuLibraries(epilogue)) {
    const bool relu = epilogue.activation == Activation::kRelu;
    absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, /*bias=*/true, relu);
    if (!absl::IsUnimplemented(kernel.status())) return kernel;
  }
  ASSIGN_OR_RETURN(Kernel kernel, MakeGpuMatMul<T>(spec));
  return WithGpuEpilogue(std::move(kernel), spec, epilogue);
}

}  // namespace

template <class T, class Result>
absl::StatusOr<Kernel> MakeGpuMatMul(const KernelSpec& spec) {
  absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, false, false);
  return absl::IsUnimplemented(kernel.status()) ? MakePlainGpuMatMul<T, Result>(spec) : std::move(kernel);
}

template absl::StatusOr<Kernel> MakeGpuMatMul<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeGpuMatMul<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeGpuMatMul<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeGpuMatMul<BFloat16>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeGpuMatMul<Half, float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeGpuMatMul<BFloat16, float>(const KernelSpec& spec);

void AddMatMulGpuKernels(KernelTable& table) {
  table.AddKernels("MatMul", Kernels<float, double, Half, BFloat16>(
                                 "GPU", [](auto tag) { return &MakeGpuMatMul<typename decltype(tag)::type>; }));
  table.AddKernels("FusedMatMul", Kernels<float, double, Half, BFloat16>(
                                      "GPU", [](auto tag) { return &MakeFused<typename decltype(tag)::type>; }));
}

}  // namespace belfry::ops
