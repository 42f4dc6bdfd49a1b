#include "absl/strings/str_cat.h"
#include "ops/reduction/reduce_gpu_impl.h"

namespace belfry::ops {
namespace {

// Outputs of at most this many elements are not worth a team.
constexpr int64_t kShort = 16;
// Teams and threads that keep a GPU busy, and the number of elements that justifies another one.
constexpr int64_t kTeams = 1024, kTeamElements = 4096;
constexpr int64_t kThreads = 128 * 1024, kThreadElements = 64, kMaxParts = 16 * 1024;

absl::Status Append(const ReduceGroup& group, int64_t limit, GpuOffsets& offsets) {
  if (offsets.loops == GpuOffsets::kMaxLoops) {
    return absl::UnimplementedError(
        absl::StrCat("a reduction of more than ", GpuOffsets::kMaxLoops, " groups of axes is not supported"));
  }
  offsets.loop[offsets.loops++] = {Divider(group.extent, limit), group.stride};
  offsets.count *= group.extent;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuReducePlan> PlanGpuReduce(const Shape& shape, const std::vector<bool>& reduced) {
  GpuReducePlan plan;
  const std::vector<ReduceGroup> groups = ReduceGroups(shape, reduced);
  int64_t limit = 1;  // of elements and outputs: without elements there may still be many outputs
  for (const ReduceGroup& group : groups) limit *= group.reduced ? 1 : group.extent;
  limit = std::max(limit, shape.elements());
  bool innermost = true;
  for (const ReduceGroup& group : groups) {
    if (innermost && !group.reduced) {
      plan.columns = Divider(group.extent, limit);
    } else {
      RETURN_IF_ERROR(Append(group, limit, group.reduced ? plan.reduced : plan.kept));
    }
    innermost = false;
  }
  const int64_t outputs = plan.outputs(), count = plan.reduced.count;
  if (outputs == 0) return plan;
  plan.teams = plan.columns.divisor() == 1 && count > kShort;
  const int64_t wanted = plan.teams ? std::min(count / kTeamElements, kTeams / outputs)
                                    : std::min({count / kThreadElements, kThreads / outputs, kMaxParts});
  plan.parts = Divider(std::max<int64_t>(1, wanted), limit);
  return plan;
}

absl::StatusOr<GpuReducePlan> PlanGpuReduce(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  return PlanGpuReduce(x, reduced);
}

}  // namespace belfry::ops
