#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/epilogue_gpu_impl.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/cublas/matmul.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/product/matmul_ends_impl.h"
#include "ops/product/matmul_gpu_impl.h"
#include "ops/product/product_ops.h"

namespace belfry::ops {
namespace {

using End = GpuMatMulEnd;

// The operands of an end, of which `at` has inputs and outputs (matmul_ends_impl.h).
void SetEnd(End end, const KernelContext& at, GpuMatMulOperands& operands) {
  switch (end) {
    case End::kNone: return;
    case End::kBias:
    case End::kBiasRelu:
    case End::kBiasGelu: operands.bias = at.inputs[2]; return;
    case End::kBiasKeepGelu:
      operands.bias = at.inputs[2];
      operands.x = at.outputs[0];
      operands.y = at.outputs[1];
      return;
    case End::kGeluGrad: operands.x = const_cast<void*>(at.inputs[2]); return;
    case End::kBiasGrad: operands.dbias = at.outputs[1]; return;
  }
}

// A kernel that runs cuBLASLt. Inputs: a, b and those of the end.
absl::StatusOr<Kernel> MakeByLibrary(const KernelSpec& spec, End end) {
  const Shape &a = spec.inputs[0].shape, &b = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  GpuMatMul product{.m = y[-2],
                    .n = y[-1],
                    .transpose_a = spec.attrs.Bool("transpose_a"),
                    .transpose_b = spec.attrs.Bool("transpose_b"),
                    .dtype = spec.inputs[0].dtype,
                    .end = end,
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
  return Kernel{[core = std::move(core), batch, end, step_a, step_b, step_y](const KernelContext& at) {
                  absl::Status status;
                  batch.ForRows(0, batch.rows, [&](int64_t row, int64_t offset_a, int64_t offset_b) {
                    if (!status.ok()) return;
                    GpuMatMulOperands operands{at.input<char>(0) + offset_a * step_a,
                                               at.input<char>(1) + offset_b * step_b, at.output<char>(0) + row * step_y,
                                               at.workspace};
                    SetEnd(end, at, operands);
                    status = core.run(*at.stream, operands);
                  });
                  return status;
                },
                bytes};
}

std::optional<End> EndOf(Activation activation) {
  switch (activation) {
    case Activation::kNone: return End::kBias;
    case Activation::kRelu: return End::kBiasRelu;
    case Activation::kGeluTanh: return End::kBiasGelu;
    default: return std::nullopt;
  }
}

template <class T>
absl::StatusOr<Kernel> MakeFused(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Epilogue epilogue, EpilogueOf(spec.attrs));
  if (const std::optional<End> end = EndOf(epilogue.activation)) {
    absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, *end);
    if (!absl::IsUnimplemented(kernel.status())) return kernel;
  }
  ASSIGN_OR_RETURN(Kernel kernel, MakeGpuMatMul<T>(spec));
  return WithGpuEpilogue(std::move(kernel), spec, epilogue);
}

// A kernel of cuBLASLt or, where it lacks this product with this end, two kernels.
template <class T>
absl::StatusOr<Kernel> MakeBiasGrad(const KernelSpec& spec) {
  absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, End::kBiasGrad);
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  return ProductThenBiasGrad(
      spec, [](const KernelSpec& of) { return MakeGpuMatMul<T>(of); }, &MakeGpuBiasAddGrad);
}
template <class T>
absl::StatusOr<Kernel> MakeBiasGelu(const KernelSpec& spec, const KernelFactory& gelu) {
  absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, End::kBiasKeepGelu);
  return absl::IsUnimplemented(kernel.status()) ? ProductThenGelu(spec, &MakeFused<T>, gelu) : std::move(kernel);
}
template <class T>
absl::StatusOr<Kernel> MakeGeluGrad(const KernelSpec& spec, const KernelFactory& gelu_grad) {
  absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, End::kGeluGrad);
  if (!absl::IsUnimplemented(kernel.status())) return kernel;
  return ProductThenGeluGrad(
      spec, [](const KernelSpec& of) { return MakeGpuMatMul<T>(of); }, gelu_grad);
}

// Makes the kernel of an op that the table has, for the dtype of its first input.
KernelFactory FactoryIn(const KernelTable& table, absl::string_view op) {
  return [kernels = table.Find(op)](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    for (const KernelDef& kernel : kernels) {
      if (kernel.dtype == spec.inputs[0].dtype) return kernel.make(spec);
    }
    return absl::UnimplementedError("there is no such kernel");
  };
}

}  // namespace

template <class T, class Result>
absl::StatusOr<Kernel> MakeGpuMatMul(const KernelSpec& spec) {
  absl::StatusOr<Kernel> kernel = MakeByLibrary(spec, End::kNone);
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
  table.AddKernels("MatMulBiasGrad", Kernels<float, double, Half, BFloat16>(
                                         "GPU", [](auto tag) { return &MakeBiasGrad<typename decltype(tag)::type>; }));
  const auto with_gelu = [&](absl::string_view op, absl::string_view end, const auto& make) {
    table.AddKernels(op, Kernels<float, double, Half, BFloat16>("GPU", [&](auto tag) -> KernelFactory {
                       return [make = make(tag), end = FactoryIn(table, end)](const KernelSpec& spec) {
                         return make(spec, end);
                       };
                     }));
  };
  with_gelu("MatMulBiasGelu", "Gelu", [](auto tag) { return &MakeBiasGelu<typename decltype(tag)::type>; });
  with_gelu("MatMulGeluGrad", "GeluGrad", [](auto tag) { return &MakeGeluGrad<typename decltype(tag)::type>; });
}

}  // namespace belfry::ops
