// Rewrites that a program brings with its ops.
#include "framework/compiler/rewrite.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Has the readers of a Neg read its operand. Changes results, so that a plan shows whether it ran.
absl::Status DropNegations(Program& program, const RewriteContext&) {
  for (ProgramNode& node : program.nodes) {
    for (Value& input : node.inputs) {
      if (program.nodes[input.node].op->name == "Neg") input = program.nodes[input.node].inputs[0];
    }
  }
  return Normalize(program);
}

class RewriteTest : public SessionFixture {};

TEST_F(RewriteTest, RunInTheOrderOfAddingAndLeaveNormalPrograms) {
  std::vector<std::string> order;
  for (const char* name : {"second", "first", "third"}) {
    registry_.AddRewrite({name, [&order, name](Program& program, const RewriteContext& context) -> absl::Status {
                            order.push_back(name);
                            EXPECT_EQ(program.nodes.back().op->name, "Exp");
                            EXPECT_GE(program.nodes.back().device, 0);
                            EXPECT_EQ(context.registry.rewrites().size(), BuiltinOps().rewrites().size() + 3);
                            return absl::OkStatus();
                          }});
  }
  const Output x = ops::Placeholder(root_, DType::kFloat32, {2});
  const Output y = ops::Exp(root_, x);
  Open("cpu:1");
  Prepare({{x, {2}}}, {y});
  EXPECT_THAT(order, ElementsAre("second", "first", "third"));
}

TEST_F(RewriteTest, WhatFusesDoesNotRunWithoutFusion) {
  registry_.AddRewrite({"drop_negations", DropNegations});
  const Output x = ops::Placeholder(root_, DType::kFloat32, {});
  const Output y = ops::Exp(root_, ops::Neg(root_, x));
  for (const bool fuse : {true, false}) {
    Open("cpu:1", {.fuse = fuse});
    EXPECT_EQ(Count(Prepare({{x, {}}}, {y})->plan(), "Neg"), fuse ? 0 : 1);
  }
}

TEST_F(RewriteTest, WhatDoesNotFuseAlwaysRuns) {
  registry_.AddRewrite({"drop_negations", DropNegations, /*fuses=*/false});
  const Output x = ops::Placeholder(root_, DType::kFloat32, {});
  const Output y = ops::Exp(root_, ops::Neg(root_, x));
  Open("cpu:1", {.fuse = false});
  EXPECT_EQ(Count(Prepare({{x, {}}}, {y})->plan(), "Neg"), 0);
}

TEST_F(RewriteTest, ErrorsAreReturned) {
  registry_.AddRewrite({"broken", [](Program&, const RewriteContext&) { return absl::InternalError("broken"); }});
  const Output y = ops::Exp(root_, ops::Placeholder(root_, DType::kFloat32, {}));
  Open("cpu:1");
  const auto step = session_->Prepare({{y.node->input(0), {}}}, {y});
  EXPECT_THAT(step.status().message(), HasSubstr("broken"));
}

TEST_F(RewriteTest, EachIsDumpedByItsName) {
  registry_.AddRewrite({"mine", [](Program& program, const RewriteContext&) { return Normalize(program); }});
  const Output x = ops::Placeholder(root_, DType::kFloat32, {});
  const TemporaryFolder folder;
  Open("cpu:1", {.dump_plan = folder.path()});
  Prepare({{x, {}}}, {ops::Exp(root_, x)});
  int number = 2;
  for (const Rewrite& rewrite : registry_.rewrites()) {
    const std::string name = absl::StrCat(number < 10 ? "0" : "", number, "_", rewrite.name, ".txt");
    EXPECT_TRUE(std::filesystem::exists(folder / ("step_0/" + name))) << name;
    ++number;
  }
  EXPECT_EQ(registry_.rewrites().back().name, "mine");
}

TEST_F(RewriteTest, AreFoundOnlyWithAKernelForTheDevice) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {});
  bool looked = false;
  registry_.AddRewrite({"look", [&](Program& program, const RewriteContext& context) -> absl::Status {
                          const ProgramNode& node = program.nodes.back();
                          EXPECT_EQ(FusedOp(context, "Neg", node), context.registry.Find("Neg"));
                          EXPECT_EQ(FusedOp(context, "Nothing", node), nullptr);
                          EXPECT_EQ(FusedOp(context, "LogicalNot", node), nullptr);  // of bool only
                          looked = true;
                          return absl::OkStatus();
                        }});
  const Output y = ops::Exp(root_, x);
  Open("cpu:1");
  Prepare({{x, {}}}, {y});
  EXPECT_TRUE(looked);
}

TEST(RewriteDeathTest, NamesAreUnique) {
  OpRegistry registry = BuiltinOps();
  EXPECT_DEATH(registry.AddRewrite({registry.rewrites()[0].name, nullptr}), "");
}

}  // namespace
}  // namespace belfry
