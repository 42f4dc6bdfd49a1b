#include "absl/strings/str_cat.h"
#include "ops/math/reduce_gpu_impl.h"

namespace belfry::ops {
namespace {

// Outputs of fewer elements are not worth a team.
constexpr int64_t kShort = 16;
// Teams and threads that keep a GPU busy, and the elements that make another one worth while.
constexpr int64_t kTeams = 1024, kTeamElements = 4096;
constexpr int64_t kThreads = 128 * 1024, kThreadElements = 64, kMostParts = 16 * 1024;

absl::Status Append(const ReduceGroup& group, GpuOffsets& offsets) {
  if (offsets.loops == GpuOffsets::kMaxLoops) {
    return absl::UnimplementedError(
        absl::StrCat("a reduction of more than ", GpuOffsets::kMaxLoops, " groups of axes"));
  }
  offsets.loop[offsets.loops++] = {group.extent, group.stride};
  offsets.count *= group.extent;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuReducePlan> PlanGpuReduce(const Shape& shape, const std::vector<bool>& reduced) {
  GpuReducePlan plan;
  bool innermost = true;
  for (const ReduceGroup& group : ReduceGroups(shape, reduced)) {
    if (innermost && !group.reduced) {
      plan.columns = group.extent;
    } else {
      RETURN_IF_ERROR(Append(group, group.reduced ? plan.reduced : plan.kept));
    }
    innermost = false;
  }
  const int64_t outputs = plan.outputs(), count = plan.reduced.count;
  if (outputs == 0) return plan;
  plan.teams = plan.columns == 1 && count > kShort;
  const int64_t wanted = plan.teams ? std::min(count / kTeamElements, kTeams / outputs)
                                    : std::min({count / kThreadElements, kThreads / outputs, kMostParts});
  plan.parts = std::max<int64_t>(1, wanted);
  return plan;
}

absl::StatusOr<GpuReducePlan> PlanGpuReduce(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  return PlanGpuReduce(x, reduced);
}

}  // namespace belfry::ops
