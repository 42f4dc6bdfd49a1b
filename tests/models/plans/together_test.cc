// Plans of the processes of one run, whole and damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/compiler/verify/verify.h"
#include "tests/models/plans/bundled.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;
using Kind = Instruction::Kind;

// Plans of three processes of two towers.
class Processes {
 public:
  explicit Processes(const std::string& name) {
    for (BundledStep step : BundledSteps()) {
      if (step.name != name) continue;
      step.options.towers = 6 * step.options.series;
      for (int process = 0; process < 3; ++process) {
        step.options.first_tower = 2 * process * step.options.series;
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
