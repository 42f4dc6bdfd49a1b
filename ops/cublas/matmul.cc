#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/device/cuda/current.h"
#include "framework/device/cuda/native.h"
#include "ops/cublas/matmul.h"
#include "ops/gpu/autotune.h"

namespace belfry::ops {
namespace {

constexpr size_t kMaxWorkspace = size_t{32} << 20;
constexpr int kCandidates = 8;

absl::Status Check(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat("cuBLASLt: ", what, ": ", cublasLtGetStatusString(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? absl::UnimplementedError(text) : absl::InternalError(text);
}

// Thread-safe: cublasLtMatmul only reads the handle.
struct Handle {
  cublasLtHandle_t handle = nullptr;
  ~Handle() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }
  static absl::StatusOr<std::unique_ptr<Handle>> Make() {
    auto made = std::make_unique<Handle>();
    RETURN_IF_ERROR(Check(cublasLtCreate(&made->handle), "cublasLtCreate"));
    return made;
  }
};

struct Types {
  cudaDataType_t data, result;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};
Types TypesOf(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::kFloat64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::kFloat16: return {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kBFloat16: return {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    default: return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F};
  }
}

bool AddsBias(GpuMatMulEnd end) {
  return end == GpuMatMulEnd::kBias || end == GpuMatMulEnd::kBiasRelu || end == GpuMatMulEnd::kBiasGelu ||
         end == GpuMatMulEnd::kBiasKeepGelu;
}
bool UsesX(GpuMatMulEnd end) { return end == GpuMatMulEnd::kBiasKeepGelu || end == GpuMatMulEnd::kGeluGrad; }

// b is cuBLASLt's matrix A.
cublasLtEpilogue_t EpilogueOf(GpuMatMulEnd end) {
  switch (end) {
    case GpuMatMulEnd::kNone: return CUBLASLT_EPILOGUE_DEFAULT;
    case GpuMatMulEnd::kBias: return CUBLASLT_EPILOGUE_BIAS;
    case GpuMatMulEnd::kBiasRelu: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case GpuMatMulEnd::kBiasGelu: return CUBLASLT_EPILOGUE_GELU_BIAS;
    case GpuMatMulEnd::kBiasKeepGelu: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GpuMatMulEnd::kGeluGrad: return CUBLASLT_EPILOGUE_DGELU;
    case GpuMatMulEnd::kBiasGrad: return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// A product as seen by cuBLASLt, whose matrices are column-major. Our row-major y is its transposed y, so it computes
// transpose(b) * transpose(a), with b as the first operand.
class Product {
 public:
  Product() = default;
  Product(const Product&) = delete;
  ~Product() {
    for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (description_ != nullptr) cublasLtMatmulDescDestroy(description_);
    if (preference_ != nullptr) cublasLtMatmulPreferenceDestroy(preference_);
  }

  absl::Status Init(cublasLtHandle_t handle, const GpuMatMul& p, const MathMode& math) {
    handle_ = handle;
    types_ = TypesOf(p.dtype, math.tf32);
    RETURN_IF_ERROR(
        Check(cublasLtMatmulDescCreate(&description_, types_.compute, types_.scale), "creating a matmul descriptor"));
    RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (p.end != GpuMatMulEnd::kNone) RETURN_IF_ERROR(DescribeEnd(p));
    RETURN_IF_ERROR(
        Layout(types_.data, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.batch, p.same_b, first_));
    RETURN_IF_ERROR(
        Layout(types_.data, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.batch, p.same_a, second_));
    if (p.wide) types_.result = CUDA_R_32F;
    RETURN_IF_ERROR(Layout(types_.result, p.n, p.m, p.batch, /*same=*/false, result_));
    return Find(math, p.alignment);
  }

  int candidates() const { return found_; }
  size_t workspace_bytes(int candidate) const { return results_[candidate].workspaceSize; }

  absl::Status Run(int candidate, Stream& stream, const GpuMatMulOperands& at) {
    const void* const row = at.dbias != nullptr ? at.dbias : at.bias;
    if (row != nullptr) RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, row));
    if (at.x != nullptr) RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.x));
    const double one_wide = 1, zero_wide = 0;
    const float one = 1, zero = 0;
    const bool wide = types_.scale == CUDA_R_64F;
    return Check(cublasLtMatmul(handle_, description_, wide ? static_cast<const void*>(&one_wide) : &one, at.b, first_,
                                at.a, second_, wide ? static_cast<const void*>(&zero_wide) : &zero, at.y, result_, at.y,
                                result_, &results_[candidate].algo, at.workspace, results_[candidate].workspaceSize,
                                NativeStream(stream)),
                 "cublasLtMatmul");
  }

 private:
  template <class T>
  absl::Status Describe(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return Check(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof(value)),
                 "setting a matmul attribute");
  }

  absl::Status DescribeEnd(const GpuMatMul& p) {
    RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p.end)));
    // The heuristic may look at the alignment of the operands. Run sets their addresses.
    const void* const aligned = reinterpret_cast<const void*>(kAlignment);
    if (AddsBias(p.end) || p.end == GpuMatMulEnd::kBiasGrad) {
      RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned));
    }
    if (!UsesX(p.end)) return absl::OkStatus();
    if (p.n % kUnitOfGelu != 0)
      return absl::UnimplementedError(absl::StrCat("cuBLASLt: ", p.n, " columns with a GELU"));
    RETURN_IF_ERROR(Describe(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n));
    return Describe(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned);
  }

  // Describes a contiguous column-major matrix.
  static absl::Status Layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t batch, bool same,
                             cublasLtMatrixLayout_t& layout) {
    RETURN_IF_ERROR(Check(
        cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
        "creating a matrix layout"));
    if (batch == 1) return absl::OkStatus();
    const auto count = static_cast<int32_t>(batch);
    if (count != batch) return absl::UnimplementedError(absl::StrCat("cuBLASLt: a batch of ", batch, " is too large"));
    const int64_t step = same ? 0 : rows * columns;
    RETURN_IF_ERROR(
        Check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
              "setting the batch of a matrix layout"));
    return Check(
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
        "setting the batch of a matrix layout");
  }

  absl::Status Find(const MathMode& math, int64_t aligned) {
    RETURN_IF_ERROR(Check(cublasLtMatmulPreferenceCreate(&preference_), "creating a matmul preference"));
    RETURN_IF_ERROR(Check(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                               &kMaxWorkspace, sizeof(kMaxWorkspace)),
                          "setting a matmul preference"));
    // By default cuBLASLt assumes an alignment of 256 bytes.
    const auto alignment = static_cast<uint32_t>(aligned);
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      RETURN_IF_ERROR(Check(cublasLtMatmulPreferenceSetAttribute(preference_, operand, &alignment, sizeof(alignment)),
                            "setting a matmul preference"));
    }
    if (math.deterministic) {
      // Partial sums are combined in the workspace instead of by atomics.
      const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      RETURN_IF_ERROR(Check(cublasLtMatmulPreferenceSetAttribute(
                                preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)),
                            "setting a matmul preference"));
    }
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, description_, first_, second_, result_, result_, preference_, kCandidates, results_.data(), &found_);
    // cuBLASLt's word for a combination of types, layouts and epilogue that it does not have.
    if (status == CUBLAS_STATUS_INVALID_VALUE) {
      return absl::UnimplementedError("cuBLASLt: this product is not one that it supports");
    }
    RETURN_IF_ERROR(Check(status, "finding an algorithm"));
    const auto end = std::remove_if(results_.begin(), results_.begin() + found_,
                                    [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    found_ = static_cast<int>(end - results_.begin());
    return found_ > 0 ? absl::OkStatus() : absl::UnimplementedError("cuBLASLt has no algorithm for this product");
  }

  cublasLtHandle_t handle_ = nullptr;
  Types types_{};
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results_{};
  int found_ = 0;
};

absl::string_view NameOf(GpuMatMulEnd end) {
  constexpr absl::string_view kNames[] = {"",           " bias",      " bias relu", " bias gelu",
                                          " keep gelu", " gelu grad", " bias grad"};
  return kNames[static_cast<size_t>(end)];
}

std::string KeyOf(const GpuMatMul& p, const MathMode& math) {
  return absl::StrCat("matmul ", DTypeName(p.dtype), " m", p.m, " n", p.n, " k", p.k, " batch", p.batch,
                      p.transpose_a ? " ta" : "", p.transpose_b ? " tb" : "", p.same_a ? " sa" : "",
                      p.same_b ? " sb" : "", NameOf(p.end), p.wide ? " wide" : "",
                      p.alignment < 64 ? absl::StrCat(" aligned ", p.alignment) : "", math.tf32 ? " tf32" : "",
                      " cublas", cublasLtGetVersion());
}

}  // namespace

absl::StatusOr<GpuMatMulCore> MakeLibraryGpuMatMul(const GpuMatMul& p, Device& device) {
  RETURN_IF_ERROR(MakeCurrent(device));
  ASSIGN_OR_RETURN(Handle* const handle, device.Shared<Handle>(&Handle::Make));
  const auto product = std::make_shared<Product>();
  RETURN_IF_ERROR(product->Init(handle->handle, p, device.math()));
  int chosen = 0;
  if (!device.math().deterministic) {
    const auto size = static_cast<size_t>(p.batch) * SizeOf(p.dtype);
    size_t most_workspace = 0;
    for (int i = 0; i < product->candidates(); ++i) {
      most_workspace = std::max(most_workspace, product->workspace_bytes(i));
    }
    const size_t y = static_cast<size_t>(p.m * p.n * p.batch) * SizeOf(p.result());
    const bool grad = p.end == GpuMatMulEnd::kBiasGrad, bias = AddsBias(p.end), x = UsesX(p.end);
    const std::array<size_t, 6> bytes = {static_cast<size_t>(p.m * p.k) * size,
                                         static_cast<size_t>(p.k * p.n) * size,
                                         y,
                                         most_workspace,
                                         static_cast<size_t>(p.n) * SizeOf(p.dtype),
                                         x ? y : 0};
    ASSIGN_OR_RETURN(chosen, ChooseFastest(device, KeyOf(p, device.math()), product->candidates(), bytes,
                                           [&](int candidate, Stream& stream, absl::Span<void* const> at) {
                                             return product->Run(candidate, stream,
                                                                 {at[0], at[1], at[2], at[3], bias ? at[4] : nullptr,
                                                                  x ? at[5] : nullptr, grad ? at[4] : nullptr});
                                           }));
  }
  return GpuMatMulCore{[product, chosen](Stream& stream, const GpuMatMulOperands& at) {
                         GpuMatMulOperands aligned = at;
                         aligned.workspace = AlignForLibraries(at.workspace);
                         return product->Run(chosen, stream, aligned);
                       },
                       BytesForLibraries(product->workspace_bytes(chosen))};
}

}  // namespace belfry::ops
