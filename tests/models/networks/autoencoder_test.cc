#include "models/networks/autoencoder.h"

#include "models/layers/metrics.h"
#include "models/towers/replicate_towers.h"
#include "optim/adam.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

const VaeOptions kTinyVae = {.hidden = {12}, .latent = 3, .activation = Activation::kTanh};

class VaeTest : public ModelTest {
 protected:
  // `n` images of 4 x 4 pixels in which one row is white.
  static Tensor RowImages(int64_t n) {
    Tensor images = Tensor::Zeros(DType::kFloat32, {n, 4, 4});
    for (int64_t i = 0; i < n; ++i) std::fill_n(images.data<float>() + i * 16 + i % 4 * 4, 4, 1.f);
    return images;
  }
};

TEST_F(VaeTest, LossIsReconstructionPlusDivergence) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4, 4});
  const VaeCode code = VaeEncoder(scope_, x, kTinyVae);
  VaeDecoder(scope_, code.sample, 16, kTinyVae);
  VaeOptions options = kTinyVae;
  options.kl_weight = 0.25;
  const Output loss = AddVaeLoss(scope_.NameScope("again").ReuseVariables(Reuse::kAlways), x, options);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::vector<Output> metrics = graph_.GetCollection(kMetrics);
  ASSERT_EQ(metrics.size(), 2);
  Start();
  const auto values = Run({{x, RowImages(8)}}, {loss, metrics[0], metrics[1], code.mean, code.log_variance});
  double divergence = 0;
  const std::vector<double> mean = values[3].ToDoubles(), log_variance = values[4].ToDoubles();
  for (size_t i = 0; i < mean.size(); ++i) {
    divergence += (mean[i] * mean[i] + std::exp(log_variance[i]) - log_variance[i] - 1) / 2 / 8;
  }
  EXPECT_NEAR(values[2].scalar<float>(), divergence, 1e-5 * divergence);
  EXPECT_NEAR(values[0].scalar<float>(), values[1].scalar<float>() + 0.25 * divergence, 1e-4);
}

TEST_F(VaeTest, SamplesHaveTheDistributionOfTheCode) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4, 4});
  const VaeCode code = VaeEncoder(scope_, x, kTinyVae);
  EXPECT_EQ(code.sample.shape(), Shape({Shape::kUnknown, 3}));
  Start();
  const auto values = Run({{x, RowImages(4000)}}, {code.sample, code.mean, code.log_variance});
  double sum = 0, squares = 0;
  const std::vector<double> sample = values[0].ToDoubles(), mean = values[1].ToDoubles();
  const std::vector<double> log_variance = values[2].ToDoubles();
  for (size_t i = 0; i < sample.size(); ++i) {
    const double noise = (sample[i] - mean[i]) * std::exp(-log_variance[i] / 2);
    sum += noise / 12000;
    squares += noise * noise / 12000;
  }
  EXPECT_NEAR(sum, 0, 0.05);
  EXPECT_NEAR(squares, 1, 0.1);
}

TEST_F(VaeTest, GradientIsThatOfFiniteDifferences) {
  Tensor images(DType::kFloat64, {3, 5});
  for (int64_t i = 0; i < 15; ++i) images.data<double>()[i] = static_cast<double>(i) / 15;
  const Output x = ops::Placeholder(scope_, DType::kFloat64, {3, 5});
  // The noise of every run is that of step 7.
  const Scope still = scope_.RandomCounters(ops::Const(scope_, Tensor::Scalar(int64_t{7})), Output());
  const Output loss = AddVaeLoss(still, x, {.hidden = {4}, .latent = 2, .activation = Activation::kTanh});
  Start();
  const Tensor before = Run({{x, images}}, {loss})[0].Clone();
  EXPECT_EQ(before.scalar<double>(), Run({{x, images}}, {loss})[0].scalar<double>());
  const auto gradients = optim::ComputeGradients(scope_, loss, optim::TrainableVariables(scope_));
  constexpr double kStep = 1e-5;
  for (const auto& [gradient, variable, indices] : gradients) {
    ASSERT_TRUE(gradient.valid()) << variable.name();
    const double slope = Run({{x, images}}, {gradient})[0].ToDoubles()[0];
    Tensor mask = Tensor::Zeros(DType::kFloat64, variable.shape());
    mask.data<double>()[0] = kStep;
    const Output moved = ops::AssignSub(scope_, variable, ops::Const(scope_, mask));
    const double up = before.scalar<double>();
    Run({}, {}, {moved.node});
    EXPECT_NEAR((up - Run({{x, images}}, {loss})[0].scalar<double>()) / kStep, slope, 1e-3) << variable.name();
    Run({}, {}, {ops::AssignAdd(scope_, variable, ops::Const(scope_, mask)).node});
  }
}

TEST_F(VaeTest, TwoTowersEqualOne) {
  std::vector<double> losses[2];
  for (const int towers : {1, 2}) {
    const DeviceSet devices = DeviceSet::Open("cpu:" + std::to_string(towers), {.cpu_threads = 1}).value();
    Graph graph(BuiltinOps());
    graph.set_seed(5);
    const TrainStep step = ReplicateTowers(
        Scope(graph), devices, {{"image", DType::kFloat32, {4, 4}}},
        [](const Scope& tower, const Batch& batch) -> absl::StatusOr<Output> {
          return AddVaeLoss(tower, batch["image"], kTinyVae);
        },
        optim::Adam({.learning_rate = 0.01}));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices));
    ASSERT_TRUE(session->RunTarget(step.initialize).ok());
    const Tensor images = RowImages(12);
    for (int i = 0; i < 40; ++i) {
      std::vector<Feed> feeds;
      const int64_t n = 12 / towers;
      for (int tower = 0; tower < towers; ++tower) {
        feeds.push_back({step.towers[static_cast<size_t>(tower)].batch["image"],
                         Tensor::Of<float>(images.span<float>().subspan(static_cast<size_t>(tower * n * 16),
                                                                        static_cast<size_t>(n * 16)),
                                           {n, 4, 4})});
      }
      ASSERT_OK_AND_ASSIGN(const auto loss, session->Run(feeds, {step.loss}, {step.update}));
      losses[towers - 1].push_back(loss[0].scalar<float>());
    }
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-3) << "step " << i;
  EXPECT_LT(losses[0].back(), losses[0].front() - 2) << "training lowers the loss";
}

TEST_F(VaeTest, NamesWhatDoesNotFit) {
  Graph graph(BuiltinOps());
  const Output x = ops::Placeholder(Scope(graph), DType::kFloat32, {4, 8});
  EXPECT_FALSE(AddVaeLoss(Scope(graph), x, {.latent = 0}).valid());
  EXPECT_THAT(graph.status().message(), HasSubstr("VaeEncoder '' has a code of width 0"));
}

}  // namespace
}  // namespace belfry::models
