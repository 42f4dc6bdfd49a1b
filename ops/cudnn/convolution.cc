#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/cudnn/convolution.h"
#include "ops/cudnn/convolution_graph_impl.h"
#include "ops/cudnn/engine.h"

namespace belfry::ops {
namespace {

std::string KeyOf(const GpuConv& p) {
  constexpr absl::string_view kKinds[] = {"forward", "data", "filter"};
  return absl::StrCat("conv ", kKinds[static_cast<int>(p.kind)], " ", DTypeName(p.dtype), " x", p.n, "x", p.h, "x", p.w,
                      "x", p.c, " f", p.r, "x", p.s, "x", p.k, " s", p.stride_h, "x", p.stride_w, " p", p.pad_h, "x",
                      p.pad_w, p.end_h != 0 || p.end_w != 0 ? absl::StrCat("+", p.end_h, "x", p.end_w) : "", " d",
                      p.dilation_h, "x", p.dilation_w, " g", p.groups,
                      absl::StrCat(p.bias ? " bias" : "", p.relu ? " relu" : ""));
}

}  // namespace

absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv& p, Device& device) {
  const size_t size = SizeOf(p.dtype);
  cudnn::Problem problem{
      .key = KeyOf(p),
      .dtype = p.dtype,
      .operand_bytes = {static_cast<size_t>(p.image_elements()) * size, static_cast<size_t>(p.filter_elements()) * size,
                        static_cast<size_t>(p.output_elements()) * size},
      .make_graph = [&p] { return cudnn::MakeConvolutionGraph(p); }};
  if (p.bias) problem.operand_bytes.push_back(static_cast<size_t>(p.k) * size);
  ASSIGN_OR_RETURN(LibraryCore core, cudnn::MakeCore(std::move(problem), device));
  const size_t workspace_bytes = core.workspace_bytes;
  return GpuConvCore{[core = std::move(core), bias = p.bias](Stream& stream, const GpuConvOperands& at) {
                       void* const operands[] = {at.x, at.filter, at.y, const_cast<void*>(at.bias)};
                       return core.run(stream, absl::MakeConstSpan(operands, bias ? 4 : 3), at.workspace);
                     },
                     workspace_bytes};
}

}  // namespace belfry::ops
