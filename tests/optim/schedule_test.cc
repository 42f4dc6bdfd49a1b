#include "optim/schedule.h"
#include "framework/runtime/session.h"
#include "ops/builtin_ops.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "ops/array.h"
#include "ops/math.h"
#include "optim/global_step.h"
#include "optim/optimizer.h"
#include "tests/main/testing.h"
#include "tests/optim/graph_runner.h"

namespace belfry::optim {
namespace {

// Checks that the schedule equals this function, on the host and as a node.
void ExpectSchedule(const Schedule& schedule, const std::function<double(int64_t)>& expected) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Output step = ops::Placeholder(root, DType::kInt64, {});
  const Output rate = schedule.Build(root, step);
  GraphRunner runner(graph);
  for (int64_t t : {0, 1, 2, 3, 9, 10, 11, 15, 19, 20, 21, 99, 100, 101, 5000000}) {
    EXPECT_NEAR(schedule.At(t), expected(t), 1e-14) << schedule.ToString() << " at " << t;
    const float actual = runner.Run({rate}, {}, {{step.node, Tensor::Scalar<int64_t>(t)}})[0].scalar<float>();
    EXPECT_FLOAT_EQ(actual, static_cast<float>(expected(t))) << schedule.ToString() << " at " << t;
  }
}

TEST(ScheduleTest, Constant) {
  ExpectSchedule(0.25, [](int64_t) { return 0.25; });
}

TEST(ScheduleTest, PiecewiseBoundariesBelongToWhatIsBefore) {
  ExpectSchedule(Piecewise({10, 20}, {1, 0.1, 0.01}), [](int64_t t) { return t <= 10 ? 1 : t <= 20 ? 0.1 : 0.01; });
  ExpectSchedule(Piecewise({}, {0.3}), [](int64_t) { return 0.3; });
}

TEST(ScheduleTest, InterpolatedIsABrokenLine) {
  ExpectSchedule(Interpolated({2, 10, 11, 100}, {0.25, 1, 0.5, 0.125}), [](int64_t t) {
    if (t <= 2) return 0.25;
    if (t <= 10) return 0.25 + 0.75 * static_cast<double>(t - 2) / 8;
    return t >= 100 ? 0.125 : 0.5 - 0.375 * static_cast<double>(t - 11) / 89;
  });
  ExpectSchedule(Interpolated({7}, {0.3}), [](int64_t) { return 0.3; });
}

TEST(ScheduleTest, Exponential) {
  ExpectSchedule(Exponential(0.1, 10, 0.5),
                 [](int64_t t) { return 0.1 * std::exp(static_cast<double>(t) / 10 * std::log(0.5)); });
}

TEST(ScheduleTest, ExponentialStaircase) {
  ExpectSchedule(Exponential(0.1, 10, 0.5, true),
                 [](int64_t t) { return 0.1 * std::exp2(-static_cast<double>(t / 10)); });
}

TEST(ScheduleTest, Polynomial) {
  ExpectSchedule(Polynomial(1, 20, 0.1),
                 [](int64_t t) { return t >= 20 ? 0.1 : 1 - 0.9 * static_cast<double>(t) / 20; });
  ExpectSchedule(Polynomial(1, 20, 0, 2), [](int64_t t) {
    const double left = t >= 20 ? 0 : 1 - static_cast<double>(t) / 20;
    return left * left;
  });
}

TEST(ScheduleTest, Ramp) {
  ExpectSchedule(Ramp(1, 20, 0.25, 3), [](int64_t t) {
    const double done = t >= 20 ? 1 : static_cast<double>(t) / 20;
    return 1 - 0.75 * done * done * done;
  });
}

TEST(ScheduleTest, Cosine) {
  ExpectSchedule(Cosine(0.2, 100, 0.02), [](int64_t t) {
    const double half = std::cos(M_PI / 2 * std::min(static_cast<double>(t) / 100, 1.0));
    return 0.02 + 0.18 * half * half;
  });
  EXPECT_EQ(Cosine(0.2, 100).At(0), 0.2);
  EXPECT_NEAR(Cosine(0.2, 100).At(50), 0.1, 1e-15);
}

TEST(ScheduleTest, WarmUp) {
  ExpectSchedule(WarmUp(0.4, 4), [](int64_t t) { return t < 4 ? 0.1 * static_cast<double>(t + 1) : 0.4; });
  ExpectSchedule(WarmUp(Piecewise({10}, {1, 0.5}), 20, 0.5), [](int64_t t) {
    const double factor = t < 20 ? 0.5 + 0.5 * static_cast<double>(t + 1) / 20 : 1;
    return factor * (t <= 10 ? 1 : 0.5);
  });
}

TEST(ScheduleTest, BadParametersAreErrors) {
  const auto message = [](const Schedule& schedule) {
    EXPECT_TRUE(std::isnan(schedule.At(3))) << schedule.ToString();
    Graph graph(BuiltinOps());
    EXPECT_FALSE(LearningRate(Scope(graph), schedule).valid());
    return std::string(graph.status().message());
  };
  EXPECT_THAT(message(Cosine(0.1, 0)), ::testing::HasSubstr("'decay_steps' must be positive"));
  EXPECT_THAT(message(Cosine(0.1, 0)), ::testing::HasSubstr("schedule_test.cc"));
  EXPECT_THAT(message(Piecewise({10, 5}, {1, 2, 3})), ::testing::HasSubstr("ascend"));
  EXPECT_THAT(message(Piecewise({10}, {1})), ::testing::HasSubstr("one value more"));
  EXPECT_THAT(message(Interpolated({5, 5}, {1, 2})), ::testing::HasSubstr("ascending, without equal ones"));
  EXPECT_THAT(message(Interpolated({5}, {})), ::testing::HasSubstr("has 0 for 1 steps"));
  EXPECT_THAT(message(Interpolated({}, {})), ::testing::HasSubstr("at least one"));
  EXPECT_THAT(message(WarmUp(Exponential(1, -1, 0.5), 5)), ::testing::HasSubstr("'decay_steps'"));
  EXPECT_THAT(message(-0.1), ::testing::HasSubstr("must be finite and at least 0, but is -0.1"));
  EXPECT_THAT(message(WarmUp(std::nan(""), 5)), ::testing::HasSubstr("must be finite and at least 0, but is nan"));
}

TEST(ScheduleTest, OneNodePerScheduleForAllReplicas) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Output rate = LearningRate(root, Cosine(0.1, 10));
  EXPECT_EQ(LearningRate(root.NameScope("elsewhere"), Cosine(0.1, 10)), rate);
  EXPECT_NE(LearningRate(root, Cosine(0.1, 11)), rate);
  EXPECT_EQ(LearningRate(root.Replica(1), Cosine(0.1, 10)), rate);
}

TEST(ScheduleTest, AnAdjustableRateIsAVariable) {
  Graph graph(BuiltinOps());
  const Output rate = LearningRate(Scope(graph), WarmUp(Adjustable(0.5), 2));
  EXPECT_EQ(Adjustable(0.5).At(7), 0.5);
  EXPECT_EQ(Adjustable(0.5).ToString(), "Adjustable(initial=0.5)");
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices).value();
  ASSERT_EQ(session->RunTarget(InitializeVariables(Scope(graph))), absl::OkStatus());
  EXPECT_EQ(session->Run({rate})->at(0).scalar<float>(), 0.25);
  EXPECT_EQ(SetLearningRate(*session, 3), absl::OkStatus());
  EXPECT_EQ(session->Run({rate})->at(0).scalar<float>(), 1.5);
  EXPECT_EQ(SetLearningRate(*session, -1).code(), absl::StatusCode::kInvalidArgument);
  Graph other(BuiltinOps());
  LearningRate(Scope(other), 0.5);
  const auto without = Session::Create(other, devices).value();
  EXPECT_EQ(SetLearningRate(*without, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GlobalStepTest, OnePerReplicaAndCountedAfterItsUpdates) {
  Graph graph(BuiltinOps());
  Scope root(graph);
  const Variable step = GlobalStep(root.VariableScope("model"));
  EXPECT_EQ(step.name(), "global_step");
  EXPECT_FALSE(step.trainable());
  EXPECT_EQ(GlobalStep(root.ReuseVariables(Reuse::kNever)), step);
  EXPECT_FALSE(GlobalStep(root.Replica(1)) == step);
  const Output rate = LearningRate(root, Piecewise({0}, {1, 2}));
  const Output incremented = IncrementGlobalStep(root, {rate});
  EXPECT_THAT(incremented.node->control_inputs(), ::testing::Contains(rate.node));
  GraphRunner runner(graph);
  EXPECT_EQ(runner.Run({rate}, {incremented.node})[0].scalar<float>(), 1);
  EXPECT_EQ(runner.Run({rate}, {incremented.node})[0].scalar<float>(), 2);
  EXPECT_THAT(runner.Value(step), ::testing::ElementsAre(2));
}

TEST(ScheduleTest, FromNodesIsARuleOfOnesOwn) {
  const Schedule inverse = FromNodes([](const Scope& scope, Output step) {
    return ops::Rsqrt(scope, ops::Add(scope, ops::Cast(scope, step, DType::kFloat32), 4));
  });
  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Output step = ops::Placeholder(root, DType::kInt64, {}), rate = inverse.Build(root, step);
  GraphRunner runner(graph);
  for (const int64_t t : {0, 5, 96, 1'000'000}) {
    const double expected = 1 / std::sqrt(static_cast<double>(t) + 4);
    EXPECT_FLOAT_EQ(static_cast<float>(inverse.At(t)), static_cast<float>(expected));
    const float value = runner.Run({rate}, {}, {{step.node, Tensor::Scalar<int64_t>(t)}})[0].scalar<float>();
    EXPECT_FLOAT_EQ(value, static_cast<float>(expected));
  }
  const Schedule copy = inverse;
  const Schedule other = FromNodes([](const Scope& scope, Output) { return ops::Const(scope, 0.5); });
  EXPECT_EQ(LearningRate(root, inverse), LearningRate(root, copy));
  EXPECT_NE(LearningRate(root, inverse), LearningRate(root, other));

  // Also when the first one is gone.
  std::set<std::string> texts;
  for (int i = 0; i < 10; ++i) {
    texts.insert(FromNodes([i](const Scope& scope, Output) { return ops::Const(scope, 0.1 * i); }).ToString());
  }
  EXPECT_EQ(texts.size(), 10u);
  EXPECT_TRUE(std::isnan(FromNodes(nullptr).At(0)));

  const Schedule wrong = FromNodes([](const Scope&, Output number) { return number; });
  EXPECT_TRUE(std::isnan(wrong.At(3)));
  wrong.Build(root, step);
  EXPECT_THAT(graph.status().message(), testing::HasSubstr("FromNodes computes is int64 []; expected a float scalar"));
}

}  // namespace
}  // namespace belfry::optim
