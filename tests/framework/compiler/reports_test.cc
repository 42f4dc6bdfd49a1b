// Reports of a session about its plans (memory, costs, traces), and runs that look for faults.
#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/compiler/plan_report.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/trace_report.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "nlohmann/json.hpp"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "optim/descent.h"
#include "tests/framework/runtime/session_fixture.h"
#include "tests/models/classified_fields.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Finds a node by its name.
std::string Layer(const Graph& graph, absl::string_view name) {
  const Node* node = graph.FindNode(name);
  return node == nullptr ? absl::StrCat("no node ", name) : LayerOf(*node);
}

TEST(LayerOf, IsTheScopeOfTheForwardNode) {
  Graph graph(BuiltinOps());
  const Scope root(graph), tower = root.NameScope("tower_12").InTower(12);
  const Output x = ops::Placeholder(tower.Named("x"), DType::kFloat32, {2, 8, 8, 3});
  const Variable filter = GetVariable(tower.VariableScope("group1").VariableScope("block0").VariableScope("conv2"),
                                      "weights", {3, 3, 3, 3}, ZerosInitializer());
  const Scope conv = tower.NameScope("tower_12/group1/block0/conv2/");
  const Output y = ops::Relu(conv, ops::Conv2D(conv, x, filter));
  const Output pooled = ops::MaxPool(tower.Named("pool1"), ops::Add(tower, y, ops::Mul(tower.NameScope("side"), y, y)));
  const Variable bias = GetVariable(tower, "bias", {3}, ZerosInitializer());
  const Output loss = ops::Sum(tower.Named("loss"), ops::BiasAdd(tower, pooled, bias));
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(tower, {loss}, {filter, bias}));
  const optim::GradientDescent descent({.learning_rate = 0.1});
  descent.Apply(root, filter, gradients[0]);
  descent.Apply(root, bias, gradients[1]);
  ASSERT_TRUE(graph.status().ok()) << graph.status();

  EXPECT_EQ(Layer(graph, "tower_12/group1/block0/conv2/Relu"), "group1/block0/conv2");
  EXPECT_EQ(Layer(graph, "tower_12/gradients/group1/block0/conv2/Conv2D_grad/Conv2DBackpropFilter"),
            "group1/block0/conv2");
  EXPECT_EQ(Layer(graph, "tower_12/pool1"), "pool1");
  EXPECT_EQ(Layer(graph, "tower_12/gradients/pool1_grad/MaxPoolGrad"), "pool1");
  EXPECT_EQ(Layer(graph, "tower_12/side/Mul"), "side");
  EXPECT_EQ(Layer(graph, "tower_12/gradients/AddN"), "AddN");
  EXPECT_EQ(Layer(graph, "update_group1/block0/conv2/weights"), "group1/block0/conv2");
  EXPECT_EQ(Layer(graph, "update_bias"), "update_bias");
}

// A scope of the user's is not a tower, or the backward pass, because of its name.
TEST(LayerOf, LooksAtNoNames) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Output x = ops::Const(root.NameScope("tower_0").Named("x"), 1.0f);
  ops::Neg(root.NameScope("gradients").NameScope("Conv2D_grad").Named("y"), x);
  EXPECT_EQ(Layer(graph, "tower_0/x"), "tower_0");
  EXPECT_EQ(Layer(graph, "gradients/Conv2D_grad/y"), "gradients/Conv2D_grad");
}

class ReportsTest : public SessionFixture {
 protected:
  // Builds a perceptron with one hidden layer, trained with momentum on all devices.
  void Train(absl::string_view spec, const SessionOptions& options = {}) {
    ASSERT_OK_AND_ASSIGN(auto devices, DeviceSet::Open(spec));
    devices_ = std::make_unique<DeviceSet>(std::move(devices));
    const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
      const Output hidden = models::Dense(tower, "hidden", batch["image"], 100);
      const Output logits = models::Dense(tower, "logits", ops::Relu(tower, hidden), 10);
      models::AddCrossEntropy(tower, logits, batch["label"]);
      return models::TotalLoss(tower);
    };
    step_ = models::ReplicateTowers(root_, *devices_, models::ClassifiedFields({32}), model,
                                    optim::Momentum({.learning_rate = 0.1, .momentum = 0.9}));
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, *devices_, options));
  }
  std::vector<FeedSpec> FeedSpecs(int64_t examples) const {
    std::vector<FeedSpec> specs;
    for (const models::TrainTower& tower : step_.towers) {
      specs.push_back({tower.batch["image"], {examples, 32}});
      specs.push_back({tower.batch["label"], {examples}});
    }
    return specs;
  }
  std::vector<Tensor> Feeds(int64_t examples) const {
    std::vector<Tensor> feeds;
    for (size_t i = 0; i < step_.towers.size(); ++i) {
      feeds.push_back(*Tensor::Allocate(DType::kFloat32, {examples, 32}));
      for (int64_t k = 0; k < examples * 32; ++k) feeds.back().data<float>()[k] = static_cast<float>(std::sin(k));
      feeds.push_back(*Tensor::Allocate(DType::kInt32, {examples}));
      for (int64_t k = 0; k < examples; ++k) feeds.back().data<int32_t>()[k] = static_cast<int32_t>(k % 10);
    }
    return feeds;
  }

  models::TrainStep step_;
};

TEST_F(ReportsTest, MemoryAddsUp) {
  Train("cpu:2");
  ASSERT_OK_AND_ASSIGN(auto explained, session_->Explain(FeedSpecs(16), {step_.loss}, {step_.update}));
  const size_t weights = (32 * 100 + 100 + 100 * 10 + 10) * sizeof(float);
  for (int device = 0; device < 2; ++device) {
    const DeviceMemoryReport& report = explained.memory[device];
    EXPECT_EQ(report.parameters, weights);
    EXPECT_EQ(report.slots, weights);
    EXPECT_EQ(report.others, sizeof(int64_t));  // the global step
    EXPECT_EQ(report.arena(), explained.plan->memory.arena_bytes[device]);
    EXPECT_GE(report.inputs, 16u * 32 * sizeof(float));
    EXPECT_GT(report.gradients, 0u);
    EXPECT_GT(report.activations, 0u);
    EXPECT_TRUE(std::is_sorted(report.largest.begin(), report.largest.end(),
                               [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; }));
    // Some processors' products need a workspace that is larger than an operand.
    const auto largest = std::find_if(report.largest.begin(), report.largest.end(), [](const MemoryItem& item) {
      return !absl::StartsWith(item.what, "workspace of ");
    });
    ASSERT_NE(largest, report.largest.end());
    EXPECT_EQ(largest->bytes, 32 * 100 * sizeof(float));
  }
  const std::string text = ExplainPlan(*explained.plan, explained.memory, *devices_);
  EXPECT_THAT(text, HasSubstr("\nothers: variables that are not trained; copies: "));
  EXPECT_THAT(text, AllOf(HasSubstr("CPU:1"), HasSubstr("variable hidden/weights float32[32,100]"),
                          HasSubstr("Collectives in a step: "), HasSubstr("Critical path: ")));
}

// A scope of the user's that is called "gradients" is not the backward pass.
TEST_F(ReportsTest, GradientsAreWhatGradientsAdds) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {32, 32});
  const Output y = ops::MatMul(root_.NameScope("gradients"), x, x);
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root_, {ops::Sum(root_, y)}, {x}));
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto forward, session_->Explain({{x, {32, 32}}}, {y}));
  EXPECT_EQ(forward.memory[0].gradients, 0u);
  EXPECT_GT(forward.memory[0].activations, 0u);
  ASSERT_OK_AND_ASSIGN(auto backward, session_->Explain({{x, {32, 32}}}, {gradients[0]}));
  EXPECT_GT(backward.memory[0].gradients, 0u);
}

TEST_F(ReportsTest, MoreExamplesNeedMoreMemory) {
  Train("cpu:1");
  auto few = session_->Explain(FeedSpecs(16), {step_.loss}, {step_.update});
  auto many = session_->Explain(FeedSpecs(4096), {step_.loss}, {step_.update});
  ASSERT_TRUE(few.ok() && many.ok());
  EXPECT_EQ(few->memory[0].variables(), many->memory[0].variables());
  EXPECT_GT(many->memory[0].arena(), 50 * few->memory[0].arena());
  EXPECT_GT(many->memory[0].inputs, 200 * few->memory[0].inputs / 2);
}

// One tower computes x w1 and h w2, and for the gradients h' dy, dy w2' and x' dh: two operations for each element of
// each product and each element summed over.
TEST_F(ReportsTest, TheOperationsOfProducts) {
  Train("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto explained, session_->Explain(FeedSpecs(16), {step_.loss}, {step_.update}));
  double products = 0;
  for (const ProgramNode& node : explained.plan->program.nodes) {
    if (node.op->name == "MatMul" || node.op->name == "FusedMatMul") {
      products += FlopsOf(explained.plan->program, node);
    }
  }
  EXPECT_EQ(products, 2.0 * 16 * (2 * 32 * 100 + 3 * 100 * 10));
}

TEST_F(ReportsTest, TheOperationsOfConvolutions) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {2, 8, 8, 4});
  const Variable filter = GetVariable(root_, "filter", {3, 3, 4, 6}, ConstantInitializer(1));
  const Output loss =
      ops::Sum(root_, ops::Square(root_, ops::Conv2D(root_, x, filter, {.padding = ops::Padding::Same()})));
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root_, {loss}, {x, filter}));
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto explained, session_->Explain({{x, {2, 8, 8, 4}}}, {gradients[0], gradients[1]}));
  int convolutions = 0;
  for (const ProgramNode& node : explained.plan->program.nodes) {
    if (!absl::StrContains(node.op->name, "Conv2D")) continue;
    ++convolutions;
    EXPECT_EQ(FlopsOf(explained.plan->program, node), 2.0 * (2 * 8 * 8 * 6) * (3 * 3 * 4)) << node.op->name;
  }
  EXPECT_EQ(convolutions, 3);
}

TEST_F(ReportsTest, TheCriticalPathIsTheLongestChain) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {100});
  const Output quick = ops::Neg(root_.Named("quick"), x);
  Output slow = x;
  for (int i = 0; i < 5; ++i) slow = ops::Exp(root_.Named(absl::StrCat("slow", i)), slow);
  const Output y = ops::Add(root_.Named("y"), quick, slow);
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto explained, session_->Explain({{x, {100}}}, {y}));
  std::vector<std::string> names;
  for (int node : CriticalPath(explained.plan->program)) names.push_back(explained.plan->program.nodes[node].name);
  ASSERT_GE(names.size(), 6u);
  EXPECT_EQ(names.back(), "y");
  EXPECT_EQ(names[names.size() - 6], "slow0");
  EXPECT_THAT(names, Not(testing::Contains("quick")));
}

TEST_F(ReportsTest, AStepThatDoesNotFitSaysWhatNeedsHowMuch) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {-1});
  const Output y = ops::Sum(root_, ops::Exp(root_.Named("big"), ops::Add(root_, x, x)));
  Open("cpu:1");
  const int64_t elements = int64_t{1} << 45;
  EXPECT_THAT(session_->Prepare({{x, {elements}}}, {y}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("The step needs "), HasSubstr("on 1 CPU device "), HasSubstr("largest on CPU:0"),
                             HasSubstr(absl::StrCat("float32[", elements, "]")))));
}

TEST_F(ReportsTest, ATraceHasEveryInstructionInOrder) {
  Train("cpu:2");
  ASSERT_TRUE(session_->RunTarget(step_.initialize).ok());
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare(FeedSpecs(16), {step_.loss}, {step_.update}));
  std::vector<StepTrace> traces(3);
  for (StepTrace& trace : traces) {
    ASSERT_TRUE(step->Run(Feeds(16)).ok());
    ASSERT_EQ(step->RunTraced(Feeds(16), trace), absl::OkStatus());
  }
  const Plan& plan = step->plan();
  std::vector<size_t> instructions(plan.streams.size(), 0);
  std::vector<absl::Time> last(plan.streams.size(), traces[2].begin);
  for (const StepSpan& span : traces[2].spans) {
    const Instruction& expected = plan.streams[span.stream].instructions[instructions[span.stream]++];
    EXPECT_EQ(span.instruction.kind, expected.kind);
    EXPECT_EQ(span.instruction.index, expected.index);
    EXPECT_GE(span.begin, last[span.stream]);
    EXPECT_GE(span.end, span.begin);
    EXPECT_LE(span.end, traces[2].end);
    last[span.stream] = span.end;
  }
  for (size_t s = 0; s < plan.streams.size(); ++s) EXPECT_EQ(instructions[s], plan.streams[s].instructions.size());

  io::TraceFile file;
  TraceWriter writer(plan, *devices_, file);
  for (size_t i = 0; i < traces.size(); ++i) writer.AddStep(static_cast<int64_t>(i), traces[i]);
  const nlohmann::json json = nlohmann::json::parse(file.ToJson(), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  int kernels = 0, collectives = 0, rows = 0;
  for (const nlohmann::json& event : json["traceEvents"]) {
    rows += event["name"] == "thread_name";
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["ts"], 0.0);
    kernels += event["cat"] == "kernel";
    if (event["args"].contains("op") && event["args"]["op"] == "AllReduce") {
      ++collectives;
      EXPECT_GT(event["args"]["bytes"], 0);
    }
  }
  EXPECT_EQ(rows, static_cast<int>(plan.streams.size()));
  EXPECT_EQ(collectives, 3 * Count(plan, "AllReduce"));
  EXPECT_GT(kernels, 30);

  const std::string table = TraceTable(plan, *devices_, traces);
  EXPECT_THAT(table, AllOf(HasSubstr("3 steps of "), HasSubstr("FusedMatMul"), HasSubstr("hidden"),
                           HasSubstr("CPU:1 compute"), HasSubstr("Communication: ")));
  EXPECT_THAT(TraceTable(plan, *devices_, {traces[0]}), HasSubstr("1 step of "));
}

TEST_F(ReportsTest, ATracedRunComputesTheSame) {
  std::vector<float> losses[2];
  for (int traced = 0; traced < 2; ++traced) {
    Graph graph(registry_);
    const Output x = ops::Placeholder(Scope(graph), DType::kFloat32, {4});
    const Output y = ops::Sum(Scope(graph), ops::Exp(Scope(graph), x));
    auto devices = DeviceSet::Open("cpu:1");
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, *devices));
    ASSERT_OK_AND_ASSIGN(auto step, session->Prepare({{x, {4}}}, {y}));
    for (int i = 0; i < 3; ++i) {
      Tensor feed = *Tensor::Allocate(DType::kFloat32, {4});
      for (int k = 0; k < 4; ++k) feed.data<float>()[k] = static_cast<float>(i + k);
      StepTrace trace;
      ASSERT_TRUE((traced == 1 ? step->RunTraced({feed}, trace) : step->Run({feed})).ok());
      losses[traced].push_back(step->fetched(0).scalar<float>());
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(ReportsTest, TheFirstOpThatIsNotFiniteEndsTheStep) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {3});
  const Output log = ops::Log(root_.Named("logarithm"), x);
  const Output y = ops::Sum(root_.Named("sum"), ops::Square(root_, log));
  Open("cpu:1", {.check_numerics = true});
  Tensor feed = *Tensor::Allocate(DType::kFloat32, {3});
  for (const float value : {2.0f, 0.0f, -1.0f}) {
    feed.data<float>()[0] = 1;
    feed.data<float>()[1] = value;
    feed.data<float>()[2] = 1;
    const auto result = session_->Run({{x, feed}}, {y});
    if (value > 0) {
      EXPECT_TRUE(result.ok()) << result.status();
      continue;
    }
    EXPECT_THAT(
        result.status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("node 'logarithm' (op Log, defined at "), HasSubstr("the first at element 1"),
                       HasSubstr(value == 0 ? "has 0 NaN and 1 infinite values" : "has 1 NaN and 0 infinite values"),
                       Not(HasSubstr("'sum'")))));
  }
}

TEST_F(ReportsTest, ADeadlineSaysWhoWaitsForWhom) {
  std::atomic<bool> go_on{false};
  hook_ = [&] {
    while (!go_on) std::this_thread::yield();
    return absl::OkStatus();
  };
  const Output one = ops::Const(root_.Device("/cpu:0"), 1.0f);
  const Output slow = root_.Device("/cpu:0").Named("slow").Add("Hook", {one});
  const Output y = ops::Neg(root_.Device("/cpu:1").Named("waiting"), slow);
  Open("cpu:2", {.timeout = absl::Milliseconds(200)});
  std::thread release([&] {
    absl::SleepFor(absl::Milliseconds(400));
    go_on = true;
  });
  const auto status = session_->Run({y}).status();
  release.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("device:CPU:0 has been running node 'slow' (op Hook) for "),
                                     HasSubstr("device:CPU:1 has been waiting for CPU:0 to run node 'slow' (op Hook"),
                                     HasSubstr(") for "))));
}

}  // namespace
}  // namespace belfry
