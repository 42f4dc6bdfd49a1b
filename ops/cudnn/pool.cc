#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/cudnn/engine.h"
#include "ops/cudnn/pool.h"
#include "ops/cudnn/pool_graph_impl.h"

namespace belfry::ops {
namespace {

std::string KeyOf(const GpuPool& p) {
  const auto axis = [](const WindowAxis& a) {
    return absl::StrCat(" ", a.in, "x", a.window, "s", a.stride, "p", a.pad_low, "+", a.pad_high);
  };
  constexpr absl::string_view kKinds[] = {"average", "average gradient", "maximum gradient"};
  return absl::StrCat("pool ", kKinds[static_cast<int>(p.kind)], " ", DTypeName(p.dtype), " n", p.n, " c", p.channels,
                      axis(p.window.h), axis(p.window.w), " ", DTypeName(p.winners));
}

}  // namespace

absl::StatusOr<LibraryCore> MakeLibraryGpuPool(const GpuPool& p, Device& device) {
  if (p.dtype == DType::kFloat64) return absl::UnimplementedError("Belfry does not use cuDNN to pool float64");
  const auto [h, w] = p.window;
  const bool max = p.kind == GpuPool::Kind::kMaximumGradient;
  if (max && (h.pad_low > 0 || w.pad_low > 0)) {
    return absl::UnimplementedError("engines are measured with all winners 0, which may lie outside of padded images");
  }
  const auto inputs = static_cast<size_t>(p.n * h.in * w.in * p.channels);
  const auto outputs = static_cast<size_t>(p.n * h.out * w.out * p.channels);
  const size_t x = inputs * SizeOf(p.dtype), y = outputs * SizeOf(p.dtype), winners = outputs * SizeOf(p.winners);
  cudnn::Problem problem{.key = KeyOf(p),
                         .dtype = p.dtype,
                         .operand_bytes = p.kind == GpuPool::Kind::kAverage ? std::vector<size_t>{x, y}
                                          : max                             ? std::vector<size_t>{winners, y, x}
                                                                            : std::vector<size_t>{y, x},
                         .multiplies = false,
                         .make_graph = [&p] { return cudnn::MakePoolGraph(p); }};
  return cudnn::MakeCore(std::move(problem), device);
}

}  // namespace belfry::ops
