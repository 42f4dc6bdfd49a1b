// Errors that a kernel finds on a GPU: where and how often they are reported, in replayed and other steps.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuErrors : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSIGN_OR_SKIP(devices_, OpenTestGpus(2));
    x_ = ops::Placeholder(Gpu(0), DType::kFloat32, {3});
  }
  Scope Gpu(int i) { return Scope(graph_).Device(absl::StrCat("/gpu:", i)); }

  // A step that has run often enough to be replayed, if replay is on.
  void Prepare(const std::vector<Output>& fetches, const std::vector<const Node*>& targets = {}) {
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, devices_, {.replay = GetParam()}));
    ASSERT_TRUE(session_->RunTarget(InitializeVariables(Scope(graph_))).ok());
    ASSERT_OK_AND_ASSIGN(step_, session_->Prepare({{x_, {3}}}, fetches, targets));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(Run(1).ok());
    ASSERT_TRUE(step_->Wait().ok());
    ASSERT_EQ(step_->replays(), GetParam());
  }
  absl::Status Run(float x) { return step_->Run({Tensor::Of<float>({1, x, 2})}); }

  DeviceSet devices_;
  Graph graph_{BuiltinOps()};
  Output x_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
};

TEST_P(GpuErrors, NameTheNodeTheDeviceAndTheLineOnce) {
  const Output y = ops::CheckNumerics(Gpu(1), ops::Neg(Gpu(0), x_), "the gradient");
  Prepare({y});
  ASSERT_TRUE(Run(NAN).ok());
  const absl::Status status = step_->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"the gradient: the tensor of 'CheckNumerics' had 1 NaN and 0 infinite values among 3",
                           "device:GPU:1", "gpu_errors_test.cc"}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
  EXPECT_TRUE(step_->Wait().ok());
  ASSERT_TRUE(Run(5).ok());
  EXPECT_THAT(step_->fetched(0).ToDoubles(), ElementsAre(-1, -5, -2));

  EXPECT_THAT(session_->Run({{x_, Tensor::Of<float>({1, INFINITY, -INFINITY})}}, {y}).status().message(),
              HasSubstr("had 0 NaN and 2 infinite values"));
  EXPECT_TRUE(session_->Run({{x_, Tensor::Of<float>({1, 2, 3})}}, {y}).ok());
}

TEST_P(GpuErrors, OfSeveralNodesOfAStepTheFirstIsReported) {
  const Output first = ops::CheckNumerics(Gpu(0), x_, "first");
  const Output second = ops::CheckNumerics(Gpu(0), ops::Neg(Gpu(0), first), "second");
  const Output other = ops::CheckNumerics(Gpu(1), second, "other");
  Prepare({other});
  ASSERT_TRUE(Run(NAN).ok());
  const absl::Status status = step_->Wait();
  EXPECT_THAT(status.message(), HasSubstr("first: "));
  EXPECT_TRUE(step_->Wait().ok());
}

TEST_P(GpuErrors, ComeUpAtALaterRunAtTheLatestAtTheWait) {
  const Output y = ops::CheckNumerics(Gpu(0), x_, "late");
  Prepare({y});
  ASSERT_TRUE(Run(NAN).ok());
  // The step may still be running when the next one is enqueued, but is done when the one after that is.
  const int errors = !Run(1).ok() + !Run(1).ok();
  EXPECT_EQ(errors, 1);
  EXPECT_TRUE(step_->Wait().ok());

  ASSERT_TRUE(Run(NAN).ok());
  EXPECT_EQ(!Run(NAN).ok() + !Run(1).ok() + !step_->Wait().ok(), 1) << "two steps found the same";
  ASSERT_TRUE(Run(7).ok());
  EXPECT_THAT(step_->fetched(0).ToDoubles(), ElementsAre(1, 7, 2));
}

TEST_P(GpuErrors, OfAStepThatUpdatesSaySo) {
  const Variable v = GetVariable(Gpu(0), "v", {3}, ConstantInitializer(0));
  const Output update = ops::AssignAdd(Gpu(0), v, ops::CheckNumerics(Gpu(0), x_, "the gradient"));
  Prepare({}, {update.node});
  ASSERT_TRUE(Run(NAN).ok());
  const absl::Status status = step_->Wait();
  EXPECT_THAT(status.message(), HasSubstr("updated variables: restore or initialize them"));
  EXPECT_TRUE(std::isnan(session_->ReadVariable(v)->ToDoubles()[1]));
}

INSTANTIATE_TEST_SUITE_P(Steps, GpuErrors, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) { return info.param ? "Replayed" : "Plain"; });

}  // namespace
}  // namespace belfry
