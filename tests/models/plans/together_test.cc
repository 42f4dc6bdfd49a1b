// Plans of the processes of one run, whole and damaged.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/verify/verify.h"
#include "tests/main/testing.h"
#include "tests/models/plans/bundled.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;
using Kind = Instruction::Kind;

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
        return absl::InternalError(absl::StrCat("device ", stream.device, " meets collective ", group.name,
                                                " as number ", met,
                                                " of those that span processes, and another device does not"));
      }
      ++met;
    }
    if (met == 0) continue;
    if (met != meetings.size()) {
      return absl::InternalError(absl::StrCat("device ", stream.device, " meets ", met, " of ", meetings.size(),
                                              " collectives that span processes"));
    }
    first = false;
  }
  return meetings;
}

// Proves of the plans of all processes of a run, each of which VerifyPlan has passed, that they meet: all devices of
// all of them come to the same collectives that span processes, in one order, with the same reduction, number of ranks,
// shapes and dtypes, and each rank is in one process. Internal: what is wrong.
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
      return absl::InternalError(
          absl::StrCat(who, " meets ", meetings.size(), " collectives, and process 0 ", all.size()));
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const Meeting& meeting = meetings[i];
      if (*meeting.name != *all[i].name) {
        return absl::InternalError(
            absl::StrCat(who, " meets collective ", *meeting.name, " as number ", i, ", and process 0 ", *all[i].name));
      }
      const char* const what = meeting.size != all[i].size             ? "the number of ranks"
                               : meeting.reduction != all[i].reduction ? "the reduction"
                               : meeting.values != all[i].values       ? "the shapes and dtypes"
                                                                       : nullptr;
      if (what != nullptr) {
        return absl::InternalError(
            absl::StrCat(who, " and process 0 disagree on ", what, " of collective ", *meeting.name));
      }
      for (const int64_t rank : meeting.ranks) {
        if (all[i].ranks.insert(rank).second) continue;
        return absl::InternalError(
            absl::StrCat("rank ", rank, " of collective ", *meeting.name, " is in ", who, " and in one before it"));
      }
    }
  }
  for (const Meeting& meeting : all) {
    for (int64_t rank = 0; rank < meeting.size; ++rank) {
      if (meeting.ranks.count(rank) > 0) continue;
      return absl::InternalError(absl::StrCat("rank ", rank, " of collective ", *meeting.name, " is in no process"));
    }
  }
  return absl::OkStatus();
}

// Plans of three processes of two towers.
class Processes {
 public:
  explicit Processes(const std::string& name) {
    for (BundledStep step : BundledSteps()) {
      if (step.name != name) continue;
      step.options.towers = 6 * step.options.micro_batches;
      for (int process = 0; process < 3; ++process) {
        step.options.first_tower = 2 * process * step.options.micro_batches;
        auto plan = MakePlan(step);
        EXPECT_TRUE(plan.ok()) << plan.status();
        if (plan.ok()) plans_.push_back(*std::move(plan));
      }
    }
  }
  const Plan& plan(int process) const { return plans_[process]->plan(); }
  // The same with another plan for the last process.
  absl::Status Verify(const Plan& last) const { return VerifyTogether({&plan(0), &plan(1), &last}); }

 private:
  std::vector<std::unique_ptr<BundledPlan>> plans_;
};

TEST(VerifyTogether, PlansOfTheProcessesOfARunMeet) {
  for (const char* const name : {"GPT, sharded", "U-Net, two towers", "ResNet-8, synchronised",
                                 "perceptron, series, update", "LSTM, fake GPUs"}) {
    const Processes processes(name);
    for (int p = 0; p < 3; ++p) {
      const auto verified = VerifyPlan(processes.plan(p));
      EXPECT_TRUE(verified.ok()) << name << ": " << verified.status();
    }
    EXPECT_EQ(processes.Verify(processes.plan(2)), absl::OkStatus()) << name;
    EXPECT_THAT(processes.Verify(processes.plan(1)).message(), HasSubstr("is in process 2 and in one before it"));
    EXPECT_THAT(VerifyTogether({&processes.plan(0), &processes.plan(2)}).message(), HasSubstr("is in no process"));
  }
}

TEST(VerifyTogether, FindsWhereProcessesDisagree) {
  const Processes processes("GPT, sharded");
  const auto flaw = [&](void (*damage)(Plan&)) {
    Plan damaged = processes.plan(2);
    damage(damaged);
    return std::string(processes.Verify(damaged).message());
  };
  const auto exchange = [](StreamProgram& stream) {
    std::vector<Instruction*> collectives;
    for (Instruction& at : stream.instructions) {
      if (at.kind == Kind::kCollective) collectives.push_back(&at);
    }
    if (collectives.size() > 1) std::swap(*collectives[0], *collectives[1]);
  };
  Plan exchanged = processes.plan(2);
  for (StreamProgram& stream : exchanged.streams) exchange(stream);
  EXPECT_THAT(processes.Verify(exchanged).message(), HasSubstr("process 2 meets collective"));
  Plan apart = processes.plan(2);
  exchange(apart.streams.back());
  EXPECT_THAT(processes.Verify(apart).message(), HasSubstr("and another device does not"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.program.collectives[0].size = 7; }), HasSubstr("the number of ranks"));
  EXPECT_THAT(flaw([](Plan& plan) {
                for (ProgramNode& node : plan.program.nodes) {
                  if (node.op->kind == OpKind::kAllReduce) node.attrs.Set("reduction", std::string("sum"));
                }
              }),
              HasSubstr("disagree on the reduction"));
  EXPECT_THAT(flaw([](Plan& plan) {
                for (ProgramNode& node : plan.program.nodes) {
                  if (node.op->kind == OpKind::kAllReduce) node.outputs[0].dtype = DType::kFloat16;
                }
              }),
              HasSubstr("disagree on the shapes and dtypes"));
  EXPECT_THAT(flaw([](Plan& plan) {
                for (StreamProgram& stream : plan.streams) {
                  auto& instructions = stream.instructions;
                  const auto last = std::find_if(instructions.rbegin(), instructions.rend(),
                                                 [](const Instruction& at) { return at.kind == Kind::kCollective; });
                  if (last != instructions.rend()) instructions.erase(std::prev(last.base()));
                }
              }),
              HasSubstr("collectives, and process 0"));
}

}  // namespace
}  // namespace belfry::models
