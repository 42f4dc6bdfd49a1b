#include "ops/cudnn/attention.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "ops/cudnn/attention_graph_impl.h"
#include "ops/cudnn/engine.h"
#include "ops/gpu/autotune.h"

namespace belfry::ops {
namespace {

cudnn::Problem ProblemOf(const GpuAttention& p, bool ordered) {
  const size_t element = SizeOf(p.dtype), stats = static_cast<size_t>(p.n * p.h * p.t) * sizeof(float);
  const size_t q = static_cast<size_t>(p.n * p.t * p.q_row) * element,
               y = static_cast<size_t>(p.n * p.t * p.y_row) * element;
  const size_t k = static_cast<size_t>(p.n * p.s * p.k_row) * element;
  cudnn::Problem problem{
      .key = absl::StrCat("attention ", p.gradient ? ordered ? "ordered gradient " : "gradient " : "",
                          DTypeName(p.dtype), " ", p.n, "x", p.t, "x", p.s, " heads ", p.h, " ", p.g, "x", p.d,
                          absl::StrCat(" rows ", p.q_row, " ", p.k_row, " ", p.y_row, p.causal ? " causal" : "")),
      .dtype = p.dtype,
      .operand_bytes = {q, k, k, y, stats},
      .constants = {p.scale},
      .make_graph = [p, ordered] { return cudnn::MakeAttentionGraph(p, ordered); }};
  if (p.gradient) {
    problem.operand_bytes.insert(problem.operand_bytes.end(), {y, q, k, k});
    for (const size_t bytes : cudnn::AttentionScratch(p, ordered)) problem.operand_bytes.push_back(bytes);
    problem.constants.push_back(1);
  }
  if (p.causal) problem.constants.push_back(std::numeric_limits<float>::lowest());
  return problem;
}

}  // namespace

absl::StatusOr<LibraryCore> MakeLibraryGpuAttention(const GpuAttention& p, Device& device) {
  const bool ordered = device.math().deterministic;
  ASSIGN_OR_RETURN(LibraryCore core, cudnn::MakeCore(ProblemOf(p, ordered), device));
  if (!p.gradient) return core;
  std::vector<size_t> scratch = cudnn::AttentionScratch(p, ordered);
  size_t bytes = core.workspace_bytes;
  for (size_t& part : scratch) {
    const size_t begin = AlignUp(bytes, kLibraryAlignment);
    bytes = begin + std::exchange(part, begin);
  }
  return LibraryCore{
      [run = std::move(core.run), scratch](Stream& stream, absl::Span<void* const> operands, void* workspace) {
        std::vector<void*> all(operands.begin(), operands.end());
        for (const size_t begin : scratch) all.push_back(static_cast<char*>(workspace) + begin);
        return run(stream, all, workspace);
      },
      bytes};
}

}  // namespace belfry::ops
