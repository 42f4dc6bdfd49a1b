// Feeds, fetches and targets: what is allowed, and the errors for everything else.
#include <thread>

#include "absl/strings/str_cat.h"

#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RequestTest : public SessionFixture {
 protected:
  RequestTest() { Open("cpu:1"); }
  std::string Error(absl::Span<const Feed> feeds, absl::Span<const Output> fetches,
                    absl::Span<const Node* const> targets = {}) {
    const auto result = session_->Run(feeds, fetches, targets);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    return std::string(result.status().message());
  }

  const Output x_ = ops::Placeholder(root_.Named("x"), DType::kFloat32, {Shape::kUnknown, 3});
  const Output y_ = ops::Neg(root_.Named("y"), x_);
  const Tensor value_ = Tensor::Of<float>({1, 2, 3}, {1, 3});
};

TEST_F(RequestTest, ForNothing) {
  EXPECT_EQ(Error({}, {}), "Must specify at least one target to fetch or execute.");
  EXPECT_EQ(Error({{x_, value_}}, {}), "Must specify at least one target to fetch or execute.");
}

TEST_F(RequestTest, ForWhatWasNeverMade) {
  EXPECT_THAT(Error({}, {Output()}), HasSubstr("an invalid Output"));
  EXPECT_THAT(Error({{Output(), value_}}, {y_}), HasSubstr("an invalid Output"));
  EXPECT_THAT(Error({}, {}, {nullptr}), HasSubstr("target is null"));
}

TEST_F(RequestTest, ForWhatABuilderRefusedSaysWhy) {
  const Output bad = ops::Add(root_.Named("sum"), y_, ops::Const(root_, int32_t{1}));
  EXPECT_FALSE(bad.valid());
  EXPECT_EQ(Error({{x_, value_}}, {bad}), std::string(graph_.status().message()));
  EXPECT_EQ(Error({{x_, value_}}, {y_}, {nullptr}), std::string(graph_.status().message()));
  EXPECT_EQ(session_->Run({{x_, value_}}, {y_}).status(), graph_.status());
}

TEST_F(RequestTest, ForAnotherGraph) {
  Graph other(registry_);
  const Output foreign = ops::Const(Scope(other), 1.0f);
  EXPECT_EQ(Error({}, {foreign}), "The fetch 'Const:0' belongs to another graph");
  EXPECT_EQ(Error({{foreign, Tensor::Scalar(1.0f)}}, {y_}), "The feed 'Const:0' belongs to another graph");
  EXPECT_EQ(Error({}, {}, {foreign.node}), "The target 'Const' belongs to another graph");
  // The same once there is a plan for the node with the same number.
  const Output own = graph_.node(0).output(0);
  ASSERT_TRUE(session_->Run({{own, value_}}, {own}).ok());
  EXPECT_EQ(Error({{foreign, value_}}, {own}), "The feed 'Const:0' belongs to another graph");
  EXPECT_EQ(Error({{own, value_}}, {foreign}), "The fetch 'Const:0' belongs to another graph");
}

TEST_F(RequestTest, ForAnOutputThatDoesNotExist) {
  EXPECT_EQ(Error({{x_, value_}}, {Output{y_.node, 1}}), "The fetch y:1: output index too large, must be < 1");
  EXPECT_EQ(Error({{x_, value_}}, {Output{y_.node, -1}}), "The fetch y:-1: output index too large, must be < 1");
  EXPECT_EQ(Error({{Output{x_.node, 7}, value_}}, {y_}), "The feed x:7: output index too large, must be < 1");
}

TEST_F(RequestTest, ForTheDataOfANodeWithoutAny) {
  const Node* group = ops::Group(root_.Named("train"), {y_});
  EXPECT_EQ(Error({}, {Output{group, 0}}),
            "Tried to fetch data for 'train', which produces no output. To run a node without its data, pass it as a "
            "target.");
}

TEST_F(RequestTest, FedATensorWithoutData) {
  EXPECT_EQ(Error({{x_, Tensor::WithoutData(DType::kFloat32, {1, 3})}}, {y_}),
            "The value fed for Tensor 'x:0' has a shape but no data");
  const auto step = Prepare({{x_, {1, 3}}}, {y_});
  EXPECT_EQ(step->Run({Tensor::WithoutData(DType::kFloat32, {1, 3})}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RequestTest, FedTwice) {
  EXPECT_EQ(Error({{x_, value_}, {x_, value_}}, {y_}), "Endpoint \"x:0\" fed more than once.");
}

TEST_F(RequestTest, FedVariable) {
  const Variable v = Counter(root_, "v", 1);
  EXPECT_EQ(Error({{v, Tensor::Scalar(1.0f)}}, {v}), "Variable 'v' cannot be fed; assign to it instead");
}

TEST_F(RequestTest, FedAnotherShape) {
  const std::string line = x_.node->location().Suffix();
  EXPECT_THAT(line, HasSubstr("request_test.cc:"));
  EXPECT_EQ(Error({{x_, Tensor::Of<float>({1, 2}, {1, 2})}}, {y_}),
            "Cannot feed value of shape [1,2] for Tensor 'x:0', which has shape [?,3]" + line);
  EXPECT_EQ(Error({{x_, Tensor::Of<float>({1, 2, 3})}}, {y_}),
            "Cannot feed value of shape [3] for Tensor 'x:0', which has shape [?,3]" + line);
  const auto step = session_->Prepare({{x_, {Shape::kUnknown, 3}}}, {y_});
  EXPECT_THAT(step.status().message(), HasSubstr("Cannot feed value of shape [?,3]"));
}

TEST_F(RequestTest, FedAnotherDType) {
  EXPECT_EQ(Error({{x_, Tensor::Of<double>({1, 2, 3}, {1, 3})}}, {y_}),
            "Cannot feed value of shape [1,3] and dtype float64 for Tensor 'x:0', which has shape [?,3] and dtype "
            "float32" +
                x_.node->location().Suffix());
}

TEST_F(RequestTest, WithoutAFeed) {
  const int line = __LINE__ + 1;
  const Output images = ops::Placeholder(root_.Named("images"), DType::kFloat32, {Shape::kUnknown, 3});
  const std::string message = Error({}, {ops::Neg(root_, images)});
  EXPECT_THAT(message,
              HasSubstr("You must feed a value for placeholder tensor 'images' with dtype float32 and shape [?,3]"));
  EXPECT_THAT(message, HasSubstr("request_test.cc:" + std::to_string(line)));
}

TEST_F(RequestTest, ShapesThatDoNotFitOnceTheyAreKnown) {
  const Output other = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown, 3});
  const int line = __LINE__ + 1;
  const Output sum = ops::Add(root_.Named("sum"), x_, other);
  const std::string message =
      Error({{x_, Tensor::Zeros(DType::kFloat32, {2, 3})}, {other, Tensor::Zeros(DType::kFloat32, {4, 3})}}, {sum});
  EXPECT_THAT(message, HasSubstr("node 'sum' (op Add, defined at"));
  EXPECT_THAT(message, HasSubstr("request_test.cc:" + std::to_string(line)));
  EXPECT_THAT(message, HasSubstr("[2,3]"));
  EXPECT_THAT(message, HasSubstr("[4,3]"));
}

TEST_F(RequestTest, FetchesWhatIsFed) {
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, value_}}, {x_, y_, x_}));
  EXPECT_THAT(result[0].ToDoubles(), ElementsAre(1, 2, 3));
  EXPECT_THAT(result[1].ToDoubles(), ElementsAre(-1, -2, -3));
  EXPECT_THAT(result[2].ToDoubles(), ElementsAre(1, 2, 3));
}

TEST_F(RequestTest, FeedsAnIntermediate) {
  const Output z = ops::Scale(root_, y_, 10);
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{y_, value_}}, {z}));
  EXPECT_THAT(result[0].ToDoubles(), ElementsAre(10, 20, 30));
}

TEST_F(RequestTest, FeedsWhatNobodyNeeds) {
  const Output one = ops::Const(root_, 1.0f);
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, value_}}, {one}));
  EXPECT_EQ(result[0].scalar<float>(), 1);
}

TEST_F(RequestTest, FeedsWithoutElements) {
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, Tensor::Zeros(DType::kFloat32, {0, 3})}}, {y_}));
  EXPECT_EQ(result[0].shape(), Shape({0, 3}));
}

TEST_F(RequestTest, RunsAfterAFeed) {
  const Output after = ops::Const(root_.ControlDependencies({x_}), 2.0f);
  const Output sum = ops::Scale(root_.ControlDependencies({x_}), ops::ReadVariable(root_, Counter(root_, "v", 4)), 2);
  Initialize();
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, value_}}, {after, sum}, {x_.node}));
  EXPECT_EQ(result[0].scalar<float>(), 2);
  EXPECT_EQ(result[1].scalar<float>(), 8);
}

TEST_F(RequestTest, APlanForEachShape) {
  for (int64_t rows : {1, 5, 2, 5, 0, 1}) {
    ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, Tensor::Zeros(DType::kFloat32, {rows, 3})}}, {y_}));
    EXPECT_EQ(result[0].shape(), Shape({rows, 3}));
  }
}

TEST_F(RequestTest, PlansBeyondTheLimitAreForgotten) {
  Open("cpu:1", {.plan_cache_bytes = 1 << 20});
  const auto run = [&](int64_t rows) {
    ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, Tensor::Zeros(DType::kFloat32, {rows, 3})}}, {y_}));
    EXPECT_EQ(result[0].shape(), Shape({rows, 3}));
  };
  for (int64_t rows = 0; rows < 40; ++rows) run(10'000 + rows % 30);
  EXPECT_LE(devices_->device(0).counters().bytes_in_use, (1 << 20) + 10'100 * 3 * 2 * sizeof(float));
  EXPECT_GT(devices_->device(0).counters().bytes_in_use, 1 << 18) << "as much as the limit allows";
  // The last plan stays, however much memory it needs.
  run(1 << 20);
  const int64_t allocations = devices_->device(0).counters().allocations;
  for (int i = 0; i < 5; ++i) run(1 << 20);
  EXPECT_EQ(devices_->device(0).counters().allocations, allocations);
}

TEST_F(RequestTest, OneIdleStepOfTheLastPlanIsKept) {
  Open("cpu:1", {.plan_cache_bytes = 0});
  const Tensor large = Tensor::Zeros(DType::kFloat32, {1 << 18, 3});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(session_->Run({{x_, large}}, {y_}).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(devices_->device(0).counters().bytes_in_use, 2 * large.bytes() + 1024);
}

TEST_F(RequestTest, AStepThatRunsOutlivesItsPlanInTheCache) {
  Open("cpu:1", {.plan_cache_bytes = 0});
  const auto step = Prepare({{x_, {1, 3}}}, {y_});
  for (int64_t rows : {2, 3, 2}) {
    ASSERT_TRUE(session_->Run({{x_, Tensor::Zeros(DType::kFloat32, {rows, 3})}}, {y_}).ok());
  }
  ASSERT_TRUE(step->Run({value_}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(-1, -2, -3));
}

TEST_F(RequestTest, APreparedStepChecksItsFeeds) {
  const auto step = Prepare({{x_, {1, 3}}}, {y_});
  EXPECT_THAT(step->Run().message(), HasSubstr("prepared for 1 feeds, but was given 0"));
  EXPECT_THAT(step->Run({Tensor::Zeros(DType::kFloat32, {2, 3})}).message(),
              HasSubstr("Cannot feed value of shape [2,3] and dtype float32 for Tensor 'x:0', which has shape [1,3]"));
  EXPECT_TRUE(step->Run({value_}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(-1, -2, -3));
}

TEST_F(RequestTest, GrowsWithTheGraph) {
  EXPECT_TRUE(session_->Run({{x_, value_}}, {y_}).ok());
  const Variable v = Counter(root_, "late", 3);
  const Output z = ops::Mul(root_, y_, v);
  Initialize();
  ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x_, value_}}, {z}));
  EXPECT_THAT(result[0].ToDoubles(), ElementsAre(-3, -6, -9));
  EXPECT_TRUE(session_->Run({{x_, value_}}, {y_}).ok());
}

TEST_F(RequestTest, GrowsWithAVariableThatWasNeverRun) {
  EXPECT_TRUE(session_->WriteVariable(Counter(root_, "late", 3), Tensor::Scalar(7.0f)).ok());
  EXPECT_EQ(ValueOf(graph_.FindVariable("late", 0)), 7);
}

TEST_F(RequestTest, ReportsWhatABuilderDidAfterCreate) {
  ops::Add(root_, x_, ops::Const(root_, {1.f, 2.f}));
  EXPECT_FALSE(graph_.status().ok());
  EXPECT_EQ(session_->Run({{x_, value_}}, {y_}).status(), graph_.status());
  EXPECT_TRUE(session_->DeviceOf(*y_.node).ok()) << "it was placed before";
  Graph other(registry_);
  EXPECT_FALSE(session_->DeviceOf(*ops::Const(Scope(other), 1.0f).node).ok());
}

TEST_F(RequestTest, TheDeviceOfANodeThatWasAddedBeforeAnError) {
  const Output late = ops::Neg(root_, x_);
  ops::Add(root_, x_, ops::Const(root_, {1.f, 2.f}));
  EXPECT_EQ(session_->DeviceOf(*late.node).status(), graph_.status());
}

TEST_F(RequestTest, VariablesAreCheckedToo) {
  const int line = __LINE__ + 1;
  const Variable v = GetVariable(root_, "v", {}, ZerosInitializer());
  const std::string created = absl::StrCat("request_test.cc:", line);
  EXPECT_THAT(session_->ReadVariable(v).status().message(), HasSubstr(created));
  EXPECT_THAT(session_->Run({v}).status().message(), HasSubstr(created));
  EXPECT_THAT(session_->WriteVariable(v, Tensor::Of<float>({1, 2})).message(), HasSubstr(created));
  EXPECT_EQ(session_->ReadVariable(v).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(session_->ReadVariable(v).status().message(), HasSubstr("Attempting to use uninitialized value v"));
  EXPECT_FALSE(session_->ReadVariable(Variable()).ok());
  EXPECT_THAT(session_->WriteVariable(v, Tensor::Of<float>({1, 2})).message(),
              HasSubstr("Cannot write float32 [2] to variable v, which is float32 []"));
  Graph other(registry_);
  const Variable foreign = Counter(Scope(other), "v", 1);
  EXPECT_THAT(session_->ReadVariable(foreign).status().message(), HasSubstr("belongs to another graph"));
}

}  // namespace
}  // namespace belfry
