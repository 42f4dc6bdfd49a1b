// S5: linear regression on a chosen device.
#include <array>
#include <memory>

#include "framework/runtime/session.h"
#include "models/networks/linear_regression.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/apply.h"
#include "optim/descent.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

struct Regression {
  explicit Regression(const DeviceSet& devices, const char* device, DType dtype) {
    const Scope scope = Scope(graph).Device(device);
    x = ops::Placeholder(scope, dtype, {-1});
    out = ops::Placeholder(scope, dtype, {-1});
    model = models::LinearRegression(scope, x, out);
    train = optim::ApplyGradients(scope, optim::GradientDescent({.learning_rate = 0.01}),
                                  optim::ComputeGradients(scope, model.loss, optim::TrainableVariables(scope)));
    const Node* initialize = InitializeVariables(scope);
    session = ValueOf(Session::Create(graph, devices));
    EXPECT_TRUE(session->RunTarget(initialize).ok());
    step = ValueOf(session->Prepare({{x, {7}}, {out, {7}}}, {model.loss, model.weight, model.bias}, {train}));
  }

  // The loss, the weight and the bias before the step's update.
  template <class T>
  std::array<double, 3> Step() {
    const Tensor feeds[] = {Tensor::Of<T>({1, 23, 4, 5, 7, 5, 7}), Tensor::Of<T>({3, 5, 7, 9, 11, 13, 15})};
    const absl::Status status = step->Run(feeds);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return {};
    return {step->fetched(0).scalar<T>(), step->fetched(1).scalar<T>(), step->fetched(2).scalar<T>()};
  }

  Graph graph{BuiltinOps()};
  Output x, out;
  models::LinearModel model;
  const Node* train = nullptr;
  std::unique_ptr<Session> session;
  std::unique_ptr<PreparedStep> step;
};

constexpr int kSteps = 50'000;
constexpr double kLoss = 15.5821727, kWeight = -0.0974930, kBias = 9.7242340;

// The rate is so close to the stability limit that the last bits of w never settle: float32 ends in a cycle of two
// values about 1e-5 apart, around the answer.
TEST(ScenarioLinearRegression, KnownLossesAndTheLeastSquaresAnswer) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  for (int device : {0, 1}) {
    Regression regression(devices, device == 0 ? "/device:cpu:0" : "/device:cpu:1", DType::kFloat32);
    EXPECT_EQ((*regression.session->DeviceOf(regression.model.weight.node()))->name(), devices.device(device).name());
    EXPECT_EQ(regression.Step<float>(), (std::array<double, 3>{97, 0, 0}));
    EXPECT_NEAR(regression.Step<float>()[0], 95.79673, 5e-5);
    EXPECT_NEAR(regression.Step<float>()[0], 94.61192, 5e-5);
    for (int i = 3; i < kSteps && !HasFailure(); ++i) regression.Step<float>();
    const auto last = regression.Step<float>(), next = regression.Step<float>();
    EXPECT_NEAR(last[0], kLoss, 5e-6);
    EXPECT_NEAR(last[1], kWeight, 1e-5);
    EXPECT_NEAR((last[1] + next[1]) / 2, kWeight, 5e-7);
    EXPECT_NEAR(last[2], kBias, 5e-6);
  }
}

TEST(ScenarioLinearRegression, SevenDigitsInFloat64) {
  const DeviceSet devices = DeviceSet::Open("cpu").value();
  Regression regression(devices, "/device:cpu:0", DType::kFloat64);
  for (int i = 0; i < kSteps && !HasFailure(); ++i) regression.Step<double>();
  const auto last = regression.Step<double>();
  EXPECT_NEAR(last[0], kLoss, 5e-8);
  EXPECT_NEAR(last[1], kWeight, 5e-8);
  EXPECT_NEAR(last[2], kBias, 5e-8);
}

}  // namespace
}  // namespace belfry
