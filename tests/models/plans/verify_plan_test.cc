// The checker of plans, against damages that an execution does not show, and graphs that average wrongly.
#include "framework/compiler/verify/verify.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/state.h"
#include "tests/main/testing.h"
#include "tests/models/plans/bundled.h"
#include "tests/models/plans/mutations.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;

ProgramNode& FirstCollective(Plan& plan) {
  return *std::find_if(plan.program.nodes.begin(), plan.program.nodes.end(),
                       [](const ProgramNode& node) { return node.op->kind == OpKind::kAllReduce; });
}

TEST(VerifyPlan, FindsTowersThatAreLeftOutAndListsThatAreIncomplete) {
  std::vector<BundledStep> steps = BundledSteps();
  const auto three = std::find_if(steps.begin(), steps.end(),
                                  [](const BundledStep& step) { return step.name == "wide and deep, three towers"; });
  ASSERT_NE(three, steps.end());
  ASSERT_OK_AND_ASSIGN(const auto planned, MakePlan(*three));
  const auto flaw = [&](void (*damage)(Plan&)) {
    Plan damaged = planned->plan();
    damage(damaged);
    return std::string(VerifyPlan(damaged).status().message());
  };
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).ranks[0] = 2 - FirstCollective(plan).ranks[0]; }),
              HasSubstr("there twice"));
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).ranks[0] = 3; }), HasSubstr("is rank 3 of 3"));
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).ranks.clear(); }), HasSubstr("its ranks do not share"));
  EXPECT_THAT(flaw([](Plan& plan) { LeaveOutRank(plan, 0, 1); }),
              HasSubstr("is one of 2 ranks, and of 3 in the graph"));
  EXPECT_THAT(flaw([](Plan& plan) {
                LeaveOutRank(plan, 0, 2);
                plan.program.collectives[0].size = 3;
              }),
              HasSubstr("leaves out rank 2"));
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).attrs.Set("reduction", std::string("sum")); }),
              HasSubstr("computes 'sum', and in the graph 'mean'"));
  EXPECT_THAT(flaw([](Plan& plan) {
                std::vector<ProgramNode*> nodes;
                for (ProgramNode& node : plan.program.nodes) {
                  if (node.op->kind == OpKind::kAllReduce && node.collective == 0) nodes.push_back(&node);
                }
                std::swap(nodes[0]->ranks, nodes[1]->ranks);
              }),
              HasSubstr("for rank 1, which belongs to tower 0 and not 1"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.written.pop_back(); }), HasSubstr("is not in the list of those"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.reads_before_writing.clear(); }), HasSubstr("variables that the step needs"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.memory.arena_bytes[1] = 64; }), HasSubstr("of 64"));
  EXPECT_EQ(flaw([](Plan&) {}), "");
}

// A graph of towers, each with a copy of a variable, and the plan of its updates.
class AveragedTowers {
 public:
  explicit AveragedTowers(int towers) : devices_(*DeviceSet::Open(absl::StrCat("cpu:", towers), {.cpu_threads = 1})) {
    for (int i = 0; i < towers; ++i) {
      scopes.push_back(
          Scope(graph_).NameScope(absl::StrCat("tower_", i)).InTower(i).Device(absl::StrCat("/cpu:", i)).Replica(i));
      const Output x = ops::Placeholder(scopes[i], DType::kFloat32, {4, 3});
      feeds_.push_back({x, {4, 3}});
      variables.push_back(GetVariable(scopes[i], "w", {3, 1}, ZerosInitializer()));
      const Output loss = ops::Mean(scopes[i], ops::Square(scopes[i], ops::MatMul(scopes[i], x, variables[i])));
      gradients.push_back((*Gradients(scopes[i], {loss}, std::vector<Output>{variables[i]}))[0]);
    }
  }
  Output Mean(int rank, int size) {
    const Scope& scope = scopes[rank];
    return ops::AllReduceMean(scope, {.group = "mean", .rank = rank, .size = size}, ops::Const(scope, 1.F),
                              {gradients[rank]})[0];
  }
  void Update(int tower, Output gradient) {
    const Scope scope = scopes[tower].InPhase(Phase::kUpdate, &variables[tower].node());
    targets_.push_back(ops::AssignSub(scope, variables[tower], gradient).node);
  }
  void Assign(int tower, Output value) { targets_.push_back(ops::Assign(scopes[tower], variables[tower], value).node); }
  void Fetch(Output output) { fetches_.push_back(output); }
  // The error of the plan; empty if there is none.
  std::string Flaw() {
    session_ = *Session::Create(graph_, devices_);
    const auto prepared = session_->Prepare(feeds_, fetches_, targets_);
    const absl::Status status = prepared.ok() ? VerifyPlan((*prepared)->plan()).status() : prepared.status();
    return std::string(status.message());
  }

  std::vector<Scope> scopes;
  std::vector<Variable> variables;
  std::vector<Output> gradients;

 private:
  DeviceSet devices_;
  Graph graph_{BuiltinOps()};
  std::unique_ptr<Session> session_;
  std::vector<FeedSpec> feeds_;
  std::vector<Output> fetches_;
  std::vector<const Node*> targets_;
};

TEST(VerifyPlan, CopiesOfAVariableNeedTheSameAverages) {
  AveragedTowers all(3);
  for (int i = 0; i < 3; ++i) all.Update(i, all.Mean(i, 3));
  EXPECT_EQ(all.Flaw(), "");
  AveragedTowers none(3);
  for (int i = 0; i < 3; ++i) none.Update(i, none.gradients[i]);
  EXPECT_EQ(none.Flaw(), "");
}

TEST(VerifyPlan, FindsATowerThatIsInNoAverage) {
  AveragedTowers own(3);
  for (int i = 0; i < 2; ++i) own.Update(i, own.Mean(i, 2));
  own.Update(2, own.gradients[2]);
  EXPECT_THAT(own.Flaw(), HasSubstr("'w' depends on collective mean in replica 0, and not in replica 2"));
  AveragedTowers foreign(3);
  const Output first = foreign.Mean(0, 2);
  foreign.Update(0, first);
  foreign.Update(1, foreign.Mean(1, 2));
  foreign.Update(2, first);
  EXPECT_THAT(foreign.Flaw(),
              HasSubstr("the 3 copies of variable 'w' depend on collective mean, which has 2 of their towers"));
}

TEST(VerifyPlan, FindsACopyThatIsNotUpdated) {
  AveragedTowers first(2);
  first.Update(0, first.Mean(0, 2));
  first.Fetch(first.Mean(1, 2));
  EXPECT_THAT(first.Flaw(), HasSubstr("that of replica 1, which the step reads, by nothing"));
  AveragedTowers alone(2);
  alone.Update(0, alone.gradients[0]);
  alone.Fetch(alone.gradients[1]);
  EXPECT_EQ(alone.Flaw(), "");
  AveragedTowers copied(2);
  const Output mean = copied.Mean(0, 2);
  copied.Update(0, mean);
  copied.Fetch(copied.Mean(1, 2));
  copied.Assign(1, ops::Sub(copied.scopes[1], copied.variables[0], mean));
  EXPECT_EQ(copied.Flaw(), "");
}

TEST(PlanCertificate, SaysWhatIsOneAndWhatWasNotChecked) {
  const PlanCertificate one{.nodes = 1,
                            .streams = 1,
                            .waits = 1,
                            .reads = 1,
                            .writes = 1,
                            .collectives = 1,
                            .ranks = 1,
                            .fetches = 1,
                            .averaged = 1};
  EXPECT_EQ(one.ToText(),
            "Verified: 1 node on 1 stream with 1 wait; 1 read sees what the program says, and 1 write waits for what "
            "was there; 1 collective of 1 rank meets in one order; 1 update of a trained variable has its averages; "
            "1 result stays to the end.");
  EXPECT_THAT(PlanCertificate{.averaged = -1}.ToText(),
              HasSubstr("averages were not checked, as a node of several outputs is fed; 0 results stay"));
}

// Programs do not say which output of a node is fed.
TEST(VerifyPlan, DoesNotCheckAveragesIfANodeOfSeveralOutputsIsFed) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = ops::Placeholder(scope, DType::kFloat32, {4});
  const std::vector<Output> halves = ops::Split(scope, x, 0, 2);
  const Output sum = ops::Add(scope, halves[0], halves[1]);
  const DeviceSet devices = *DeviceSet::Open("cpu:1", {.cpu_threads = 1});
  const auto session = *Session::Create(graph, devices);
  ASSERT_OK_AND_ASSIGN(const auto prepared, session->Prepare({{x, {4}}, {halves[1], {2}}}, {sum}, {}));
  ASSERT_OK_AND_ASSIGN(const auto certificate, VerifyPlan(prepared->plan()));
  EXPECT_EQ(certificate.averaged, -1);
}

// Nothing reads the first value.
TEST(VerifyPlan, FindsUpdatesThatHaveChangedPlaces) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = ops::Placeholder(scope, DType::kFloat32, {3}), y = ops::Placeholder(scope, DType::kFloat32, {3});
  const Variable v = GetVariable(scope, "v", {3}, ZerosInitializer());
  const Output first = ops::Assign(scope.Named("first"), v, x);
  const Output second = ops::Assign(scope.ControlDependencies({first}).Named("second"), v, y);
  const DeviceSet devices = *DeviceSet::Open("cpu:1", {.cpu_threads = 1});
  const auto session = *Session::Create(graph, devices);
  ASSERT_OK_AND_ASSIGN(const auto prepared, session->Prepare({{x, {3}}, {y, {3}}}, {}, {second.node}));
  Plan plan = prepared->plan();
  EXPECT_EQ(VerifyPlan(plan).status(), absl::OkStatus());
  auto& instructions = plan.streams[0].instructions;
  ASSERT_EQ(instructions.size(), 2U);
  std::swap(instructions[0], instructions[1]);
  EXPECT_THAT(VerifyPlan(plan).status().message(), HasSubstr("updates 'v' before 'first' does"));
}

}  // namespace
}  // namespace belfry::models
