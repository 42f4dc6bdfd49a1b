#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/cudnn/batch_norm.h"
#include "ops/cudnn/batch_norm_graph_impl.h"
#include "ops/cudnn/engine.h"

namespace belfry::ops {

absl::StatusOr<LibraryCore> MakeLibraryGpuBatchNorm(const GpuBatchNorm& p, Device& device) {
  if (p.dtype == DType::kFloat64) return absl::UnimplementedError("cuDNN does not normalize float64");
  const size_t images = static_cast<size_t>(p.n * p.pixels * p.channels) * SizeOf(p.dtype);
  const size_t channels = static_cast<size_t>(p.channels) * sizeof(float);
  cudnn::Problem problem{
      .key = absl::StrCat("batch norm ", p.gradient ? "gradient " : "", DTypeName(p.dtype), " ", p.n, "x", p.pixels,
                          "x", p.channels, p.add ? " add" : "", p.relu ? " relu" : ""),
      .dtype = p.dtype,
      .multiplies = false,
      .make_graph = [&p] { return cudnn::MakeBatchNormGraph(p); }};
  if (p.gradient) {
    problem.operand_bytes = {images, images, channels, channels, channels, images, channels, channels};
  } else {
    problem.operand_bytes = {images, channels, channels, images, channels, channels};
    if (p.add) problem.operand_bytes.insert(problem.operand_bytes.begin() + 3, images);
    problem.constants = {p.epsilon};
  }
  return cudnn::MakeCore(std::move(problem), device);
}

}  // namespace belfry::ops
