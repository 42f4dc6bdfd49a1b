#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/verify/places_impl.h"
#include "framework/compiler/verify/verify.h"

namespace belfry {
namespace {

using verify::Wrong;

// A collective as one plan has it.
struct Meeting {
  const std::string* name = nullptr;
  int64_t size = 0;
  std::string reduction;
  std::vector<TensorSpec> values;  // of a rank
  std::set<int64_t> ranks;
};

bool SpansProcesses(const Program& program, const ProgramNode& node, const std::vector<std::set<int64_t>>& ranks) {
  return node.op->kind == OpKind::kAllReduce &&
         static_cast<int64_t>(ranks[node.collective].size()) < program.collectives[node.collective].size;
}

// The collectives that span processes, in the order in which all devices meet them.
absl::StatusOr<std::vector<Meeting>> MeetingsOf(const Plan& plan) {
  const Program& program = plan.program;
  std::vector<std::set<int64_t>> ranks(program.collectives.size());
  for (const ProgramNode& node : program.nodes) {
    if (node.op->kind == OpKind::kAllReduce) ranks[node.collective].insert(node.ranks.begin(), node.ranks.end());
  }
  std::vector<Meeting> meetings;
  bool first = true;
  for (const StreamProgram& stream : plan.streams) {
    size_t met = 0;
    for (const Instruction& at : stream.instructions) {
      if (at.kind != Instruction::Kind::kCollective) continue;
      const ProgramNode& node = program.nodes[at.index];
      if (!SpansProcesses(program, node, ranks)) continue;
      const CollectiveGroup& group = program.collectives[node.collective];
      if (first) {
        const auto values = static_cast<ptrdiff_t>(node.outputs.size() / node.ranks.size());
        meetings.push_back({.name = &group.name,
                            .size = group.size,
                            .reduction = node.attrs.String("reduction"),
                            .values = {node.outputs.begin(), node.outputs.begin() + values},
                            .ranks = ranks[node.collective]});
      } else if (met >= meetings.size() || *meetings[met].name != group.name) {
        return Wrong(absl::StrCat("device ", stream.device, " meets collective ", group.name, " as number ", met,
                                  " of those that span processes, and another device does not"));
      }
      ++met;
    }
    if (met == 0) continue;
    if (met != meetings.size()) {
      return Wrong(absl::StrCat("device ", stream.device, " meets ", met, " of ", meetings.size(),
                                " collectives that span processes"));
    }
    first = false;
  }
  return meetings;
}

}  // namespace

absl::Status VerifyTogether(absl::Span<const Plan* const> plans) {
  std::vector<Meeting> all;  // with the ranks of the processes before
  for (size_t p = 0; p < plans.size(); ++p) {
    ASSIGN_OR_RETURN(std::vector<Meeting> meetings, MeetingsOf(*plans[p]));
    if (p == 0) {
      all = std::move(meetings);
      continue;
    }
    const std::string who = absl::StrCat("process ", p);
    if (meetings.size() != all.size()) {
      return Wrong(absl::StrCat(who, " meets ", meetings.size(), " collectives, and process 0 ", all.size()));
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const Meeting& meeting = meetings[i];
      if (*meeting.name != *all[i].name) {
        return Wrong(
            absl::StrCat(who, " meets collective ", *meeting.name, " as number ", i, ", and process 0 ", *all[i].name));
      }
      const char* const what = meeting.size != all[i].size             ? "the number of ranks"
                               : meeting.reduction != all[i].reduction ? "the reduction"
                               : meeting.values != all[i].values       ? "the shapes and dtypes"
                                                                       : nullptr;
      if (what != nullptr) {
        return Wrong(absl::StrCat(who, " and process 0 disagree on ", what, " of collective ", *meeting.name));
      }
      for (const int64_t rank : meeting.ranks) {
        if (all[i].ranks.insert(rank).second) continue;
        return Wrong(
            absl::StrCat("rank ", rank, " of collective ", *meeting.name, " is in ", who, " and in one before it"));
      }
    }
  }
  for (const Meeting& meeting : all) {
    for (int64_t rank = 0; rank < meeting.size; ++rank) {
      if (meeting.ranks.count(rank) > 0) continue;
      return Wrong(absl::StrCat("rank ", rank, " of collective ", *meeting.name, " is in no process"));
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
