// Groups of variables with optimizers of their own, over towers, against PyTorch.
#include "optim/parameter_groups.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "optim/lamb.h"
#include "optim/lookahead.h"
#include "optim/muon.h"
#include "tests/models/towers/trajectory_fixture.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;

optim::ParameterGroups EncoderAndHead() {
  return {{{optim::NameMatches("encoder/*"),
            optim::AdamW({.learning_rate = optim::Piecewise({24}, {0.02, 0.005}), .weight_decay = 0.1})}},
          optim::Momentum({.learning_rate = 0.05,
                           .momentum = 0.9,
                           .use_nesterov = true,
                           .weight_decay = 0.01,
                           .decays = optim::IsWeight})};
}

// PyTorch 2.15's values after 50 steps:
//   import torch
//   torch.set_default_dtype(torch.float64)
//   make = lambda n, first, *shape: torch.nn.Parameter((torch.sin(torch.arange(n) + first) / 2).reshape(shape))
//   w1, b1, w2, b2 = make(12, 0., 3, 4), make(4, 13., 4), make(4, 17., 4, 1), make(1, 21., 1)
//   x, y = torch.cos(torch.arange(27.)).reshape(9, 3), torch.sin(torch.arange(9.)).reshape(9, 1)
//   encoder = torch.optim.AdamW([{'params': [w1], 'weight_decay': 0.1}, {'params': [b1], 'weight_decay': 0}])
//   head = torch.optim.SGD([{'params': [w2], 'weight_decay': 0.01}, {'params': [b2]}], lr=0.05, momentum=0.9,
//                          nesterov=True)
//   for t in range(50):
//     for group in encoder.param_groups: group['lr'] = 0.02 if t <= 24 else 0.005
//     encoder.zero_grad(); head.zero_grad()
//     ((torch.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean().backward()
//     encoder.step(); head.step()
//   for p in (w1, b1, w2, b2): print(['%.9g' % v for v in p.flatten().tolist()])
const std::map<std::string, std::vector<double>>& Expected() {
  static const auto& expected = *new std::map<std::string, std::vector<double>>{
      {"encoder/weights",
       {0.211253068, 0.631711116, 0.402149653, -0.146850901, -0.210379451, -0.415830745, -0.358295043, 0.166685871,
        0.0998273586, -0.299267762, -0.457018362, -0.107022402}},
      {"encoder/biases", {0.498896921, 0.482765389, 0.589322931, -0.154813259}},
      {"head/weights", {-0.0869135799, -0.438369469, -0.288568486, 0.039767697}},
      {"head/biases", {0.544540493}}};
  return expected;
}

struct GroupsCase {
  std::string name, devices;
  ReplicateOptions options;
};

class ParameterGroupsOverTowers : public testing::TestWithParam<GroupsCase> {};

TEST_P(ParameterGroupsOverTowers, EqualPyTorch) {
  Trajectory run;
  ASSERT_EQ(run.Open(GetParam().devices, EncoderAndHead(), GetParam().options), absl::OkStatus());
  ASSERT_EQ(run.Train(50), absl::OkStatus());
  for (const auto& [name, values] : Expected()) {
    EXPECT_THAT(run.Value(name), testing::Pointwise(testing::DoubleNear(1e-5), values)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ParameterGroupsOverTowers,
    testing::Values(GroupsCase{"one", "cpu:1", {}}, GroupsCase{"three", "cpu:3", {}},
                    GroupsCase{"sharded", "cpu:3", {.bucket_bytes = 64, .shard_optimizer = true}},
                    GroupsCase{"parameter_device", "cpu:2", {.variable_update = VariableUpdate::kParameterDevice}}),
    [](const auto& info) { return info.param.name; });

// Rules of several ops.
optim::Lookahead ComposedRules() {
  return optim::Lookahead(optim::ParameterGroups({{optim::IsWeight, optim::Muon({.learning_rate = 0.01})},
                                                  {optim::NameMatches("head/*"), optim::Adam()}},
                                                 optim::Lamb({.learning_rate = 0.01})),
                          {.steps = 3});
}

std::vector<std::vector<double>> ValuesAfter(const Trajectory& run) {
  std::vector<std::vector<double>> values;
  for (const Variable& variable : run.graph().variables()) {
    if (variable.replica() == 0) values.push_back(run.Value(variable.name()));
  }
  return values;
}

TEST(ComposedRulesTest, HaveTheBitsOfCpusOnGpus) {
  Trajectory cpus, gpus;
  ASSERT_EQ(cpus.Open("cpu:1", ComposedRules(), {}), absl::OkStatus());
  ASSERT_EQ(gpus.Open(OpenFakeGpus(1), ComposedRules(), {}), absl::OkStatus());
  ASSERT_EQ(cpus.Train(7), absl::OkStatus());
  ASSERT_EQ(gpus.Train(7), absl::OkStatus());
  EXPECT_EQ(ValuesAfter(gpus), ValuesAfter(cpus));
}

// The loss scale and its counts change, and nothing else.
TEST(ComposedRulesTest, ASkippedStepChangesNothing) {
  Trajectory run;
  ASSERT_EQ(run.Open("cpu:2", ComposedRules(), {.loss_scale = optim::LossScaleOptions{.dynamic = false}}),
            absl::OkStatus());
  ASSERT_EQ(run.Train(2), absl::OkStatus());
  const std::vector<std::vector<double>> before = ValuesAfter(run);
  ASSERT_EQ(run.Train(1, std::numeric_limits<double>::infinity()), absl::OkStatus());
  size_t at = 0;
  for (const Variable& variable : run.graph().variables()) {
    if (variable.replica() != 0) continue;
    const std::vector<double>& then = before[at++];
    if (absl::StartsWith(variable.name(), "loss_scale")) continue;
    EXPECT_EQ(run.Value(variable.name()), then) << variable.name();
  }
  EXPECT_EQ(run.Value("loss_scale/skipped_steps"), std::vector<double>{1});
  ASSERT_EQ(run.Train(1), absl::OkStatus());
  EXPECT_NE(ValuesAfter(run), before);
}

TEST(ParameterGroupsOverTowersTest, TheRateIsThatOfTheRest) {
  Trajectory run;
  ASSERT_EQ(run.Open("cpu:2", EncoderAndHead(), {}), absl::OkStatus());
  EXPECT_FLOAT_EQ(run.session().Run({}, {run.step().learning_rate}).value()[0].scalar<float>(), 0.05f);
}

TEST(ParameterGroupsOverTowersTest, AGroupWithoutVariablesIsAnError) {
  Trajectory run;
  const optim::GradientDescent descent({.learning_rate = 0.1});
  const absl::Status status =
      run.Open("cpu:2", optim::ParameterGroups({{optim::NameMatches("encodr/*"), descent}}, descent), {});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("Parameter group 0: the pattern 'encodr/*' matches no")));
}

}  // namespace
}  // namespace belfry::models
