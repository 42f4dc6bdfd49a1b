#include "framework/runtime/session.h"

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/state.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

// y = w x + b fitted to seven points, as in the linear-regression tutorial.
struct Regression {
  Output x, out, loss;
  Variable w, b;
  std::vector<Output> gradients;
};

Regression BuildRegression(const Scope& scope) {
  Regression r;
  r.w = GetVariable(scope, "weight", {}, ZerosInitializer());
  r.b = GetVariable(scope, "bias", {}, ZerosInitializer());
  r.x = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown});
  r.out = ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown});
  const Output y = ops::Add(scope, ops::Mul(scope, r.w, r.x), r.b);
  r.loss = ops::Mean(scope, ops::Square(scope, ops::Sub(scope, y, r.out)));
  r.gradients = Gradients(scope, {r.loss}, {r.w.value(), r.b.value()}).value();
  return r;
}

const Node* Descend(const Scope& scope, const Regression& r, absl::Span<const Output> gradients) {
  return ops::Group(scope, {ops::AssignSub(scope, r.w, ops::Scale(scope, gradients[0], 0.01)),
                            ops::AssignSub(scope, r.b, ops::Scale(scope, gradients[1], 0.01))});
}

const Tensor kX = Tensor::Of<float>({1, 23, 4, 5, 7, 5, 7});
const Tensor kOut = Tensor::Of<float>({3, 5, 7, 9, 11, 13, 15});

TEST(Session, LinearRegressionFollowsTheKnownLosses) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/device:cpu:0");
  const Regression r = BuildRegression(scope);
  const Node* train = Descend(scope, r, r.gradients);
  const Node* init = InitializeVariables(scope);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices));
  ASSERT_TRUE(session->RunTarget(init).ok());
  ASSERT_OK_AND_ASSIGN(auto step,
                       session->Prepare({{r.x, {7}}, {r.out, {7}}}, {r.loss, r.w.value(), r.b.value()}, {train}));
  const double known[] = {97, 95.79673, 94.61192};
  for (double loss : known) {
    ASSERT_EQ(step->Run({kX, kOut}), absl::OkStatus());
    EXPECT_NEAR(step->fetched(0).scalar<float>(), loss, 1e-4);
  }
  constexpr int kSteps = 50000;
  const std::vector<Tensor> feeds = {kX, kOut};
  for (int i = 0; i < kSteps; ++i) ASSERT_TRUE(step->Run(feeds).ok());
  EXPECT_NEAR(step->fetched(0).scalar<float>(), 15.5821727, 1e-4);
  EXPECT_NEAR(step->fetched(1).scalar<float>(), -0.0974930, 1e-5);
  EXPECT_NEAR(step->fetched(2).scalar<float>(), 9.7242340, 1e-4);
}

TEST(Session, ObserverSeesResultsAndUpdatedVariables) {
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/device:cpu:0");
  const Variable w = GetVariable(scope, "weight", {}, ZerosInitializer());
  const Output x = ops::Placeholder(scope, DType::kFloat32, {2});
  const Output sum = ops::Sum(scope.Named("sum"), x);
  const Node* const update = ops::AssignSub(scope.Named("update"), w, sum).node;
  const Node* const init = InitializeVariables(scope);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices));
  ASSERT_TRUE(session->RunTarget(init).ok());
  std::vector<std::pair<int, float>> seen;  // the output, and its value
  session->Observe([&](const NodeResult& result) {
    ASSERT_EQ(result.spec.shape, Shape());
    seen.emplace_back(result.output, *static_cast<const float*>(result.data));
  });
  const Tensor fed = Tensor::Of<float>({1.5f, 2});
  ASSERT_TRUE(session->RunTarget(update, {{x, fed}}).ok());
  EXPECT_THAT(seen, testing::Contains(testing::Pair(0, 3.5f)));
  EXPECT_THAT(seen, testing::Contains(testing::Pair(testing::Lt(0), -3.5f)));
  session->Observe(nullptr);
  seen.clear();
  auto unobserved = session->Prepare({{x, {2}}}, {sum}, {update});
  ASSERT_TRUE(unobserved.ok() && (*unobserved)->Run({fed}).ok());
  EXPECT_THAT(seen, testing::IsEmpty());
}

class TowersMeet : public testing::TestWithParam<absl::Duration> {};

TEST_P(TowersMeet, InAnAllReduce) {
  for (const char* spec : {"cpu:1", "cpu:2", "cpu:3"}) {
    const DeviceSet devices = DeviceSet::Open(spec).value();
    Graph graph(BuiltinOps());
    const Scope root(graph);
    std::vector<Regression> towers;
    std::vector<const Node*> updates;
    constexpr int kTowers = 3;
    for (int i = 0; i < kTowers; ++i) {
      const Scope tower =
          root.NameScope("tower_" + std::to_string(i)).Device("/cpu:" + std::to_string(i % devices.size())).Replica(i);
      towers.push_back(BuildRegression(tower));
      const auto mean = ops::AllReduceMean(tower, {.group = "gradients", .rank = i, .size = kTowers},
                                           ops::Const(tower, 1.0f), towers[i].gradients);
      updates.push_back(Descend(tower, towers[i], mean));
    }
    const Node* init = InitializeVariables(root);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, devices, {.short_step = GetParam()}));
    ASSERT_TRUE(session->RunTarget(init).ok());
    std::vector<Feed> feeds;
    for (const Regression& tower : towers) {
      feeds.push_back({tower.x, kX});
      feeds.push_back({tower.out, kOut});
    }
    for (int i = 0; i < 200; ++i) {
      ASSERT_OK_AND_ASSIGN(auto losses, session->Run(feeds, {towers[0].loss, towers[2].loss}, updates));
      if (i == 2) {
        EXPECT_NEAR(losses[0].scalar<float>(), 94.61192, 1e-4);
      }
      EXPECT_EQ(losses[0].scalar<float>(), losses[1].scalar<float>());
    }
    EXPECT_EQ(session->ReadVariable(towers[0].w)->scalar<float>(), session->ReadVariable(towers[2].w)->scalar<float>());
  }
}

// With a thread for each device, and all on the caller's thread.
INSTANTIATE_TEST_SUITE_P(Threads, TowersMeet, testing::Values(absl::ZeroDuration(), absl::InfiniteDuration()));

}  // namespace
}  // namespace belfry
