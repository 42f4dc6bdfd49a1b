// Every public builder, given a wrong argument, names the line of its caller.
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "framework/io/file.h"
#include "ops/array.h"
#include "ops/attention.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/image.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/random.h"
#include "ops/recurrent.h"
#include "ops/sequence.h"
#include "ops/state.h"
#include "ops/summary.h"
#include "ops/training.h"
#include "optim/adam.h"
#include "optim/apply.h"
#include "optim/clip.h"
#include "optim/descent.h"
#include "optim/loss_scale.h"
#include "optim/moving_average.h"
#include "optim/rmsprop.h"
#include "tests/models/layers/own_line.h"

namespace belfry {
namespace {

// clang-format off
const Call kArrays[] = {
    CALL(ops::Placeholder(s, DType::kFloat32, {-2})),
    CALL(ops::Fill(s, {-2}, 0)),
    CALL(ops::ZerosLike(s, w.bad)),
    CALL(ops::OnesLike(s, w.bad)),
    CALL(ops::Range(s, 0, 1, 0)),
    CALL(ops::Identity(s, w.bad)),
    CALL(ops::StopGradient(s, w.bad)),
    CALL(ops::Reshape(s, w.bad, {1})),
    CALL(ops::Reshape(s, w.three, {2})),
    CALL(ops::ReshapeLike(s, w.bad, w.three)),
    CALL(ops::ReshapeLike(s, w.pair, w.three)),
    CALL(ops::MergeAxes(s, w.bad, 0, 1)),
    CALL(ops::MergeAxes(s, w.three, 0, 5)),
    CALL(ops::ExpandDims(s, w.bad, 0)),
    CALL(ops::ExpandDims(s, w.three, 9)),
    CALL(ops::Squeeze(s, w.bad)),
    CALL(ops::Squeeze(s, w.three, {0})),
    CALL(ops::Cast(s, w.bad, DType::kInt32)),
    CALL(ops::ShapeOf(s, w.bad)),
    CALL(ops::BroadcastTo(s, w.bad, {1})),
    CALL(ops::BroadcastTo(s, w.three, {2})),
    CALL(ops::BroadcastLike(s, w.three, w.bad)),
    CALL(ops::Tile(s, w.bad, {1})),
    CALL(ops::Tile(s, w.three, {-1})),
    CALL(ops::Select(s, w.bad, w.three, w.three)),
    CALL(ops::Select(s, w.three, w.three, w.three)),
    CALL(ops::Transpose(s, w.bad)),
    CALL(ops::Transpose(s, w.three, {1})),
    CALL(ops::DepthToSpace(s, w.bad, 2)),
    CALL(ops::DepthToSpace(s, w.three, 2)),
    CALL(ops::SpaceToDepth(s, w.bad, 2)),
    CALL(ops::SpaceToDepth(s, w.three, 2)),
    CALL(ops::Concat(s, w.bads, 0)),
    CALL(ops::Concat(s, {}, 0)),
    CALL(ops::Stack(s, w.bads)),
    CALL(ops::Stack(s, {w.pair, w.three})),
    CALL(ops::Split(s, w.bad, 0, 2)),
    CALL(ops::Split(s, w.three, 0, 2)),
    CALL(ops::Split(s, w.three, 0, std::vector<int64_t>{1, 1})),
    CALL(ops::Unstack(s, w.bad)),
    CALL(ops::Unstack(s, w.three, 4)),
    CALL(ops::Slice(s, w.bad, {0}, {1})),
    CALL(ops::Slice(s, w.three, {2}, {5})),
    CALL(ops::FlatSlice(s, w.bad, 0, 1)),
    CALL(ops::FlatSlice(s, w.three, 2, 9)),
    CALL(ops::StridedSlice(s, w.bad, {0}, {1})),
    CALL(ops::StridedSlice(s, w.three, {0}, {1}, {0})),
    CALL(ops::CircularPad(s, w.bad, {{1, 1}})),
    CALL(ops::CircularPad(s, w.three, {{1, 1}, {1, 1}})),
    CALL(ops::Pad(s, w.bad, {{1, 1}})),
    CALL(ops::Pad(s, w.three, {{1, 1}, {1, 1}})),
    CALL(ops::Gather(s, w.bad, w.ints)),
    CALL(ops::Gather(s, w.three, w.three)),
    CALL(ops::GatherND(s, w.bad, w.ints)),
    CALL(ops::TakeAlong(s, w.bad, w.ints, 0)),
    CALL(ops::TakeAlong(s, w.pair, w.ints, 1)),
    CALL(ops::ScatterND(s, w.bad, w.three, {3})),
    CALL(ops::ScatterND(s, w.three, w.three, {3})),
    CALL(ops::SegmentSum(s, w.bad, w.ints, 3)),
    CALL(ops::SegmentSum(s, w.three, w.three, 3)),
    CALL(ops::OneHot(s, w.bad, 3)),
    CALL(ops::OneHot(s, w.three, 3)),
    CALL(ops::RandomUniform(s, {-2})),
    CALL(ops::RandomUniformInt(s, {-2}, 3, 5)),
    CALL(ops::RandomNormal(s, {-2})),
    CALL(ops::TruncatedNormal(s, {-2})),
    CALL(ops::Bernoulli(s, {-2}, 0.5)),
    CALL(ops::Categorical(s, w.bad)),
    CALL(ops::Categorical(s, ops::Const(s, 1.f))),
};

const Call kMath[] = {
    CALL(ops::Add(s, w.pair, w.three)),
    CALL(ops::Sub(s, w.bad, w.three)),
    CALL(ops::Mul(s, w.pair, w.three)),
    CALL(ops::Div(s, w.ints, w.three)),
    CALL(ops::SquaredDifference(s, w.pair, w.three)),
    CALL(ops::Neg(s, w.bad)),
    CALL(ops::Square(s, w.bad)),
    CALL(ops::Scale(s, w.bad, 2)),
    CALL(ops::FloorDiv(s, w.pair, w.three)),
    CALL(ops::FloorMod(s, w.pair, w.three)),
    CALL(ops::Maximum(s, w.pair, w.three)),
    CALL(ops::Minimum(s, w.pair, w.three)),
    CALL(ops::ClipByValue(s, w.bad, 0, 1)),
    CALL(ops::ClipByValue(s, w.three, 1, 0)),
    CALL(ops::Abs(s, w.bad)),
    CALL(ops::Sign(s, w.bad)),
    CALL(ops::Floor(s, w.bad)),
    CALL(ops::Ceil(s, w.bad)),
    CALL(ops::Round(s, w.bad)),
    CALL(ops::RoundThrough(s, w.bad)),
    CALL(ops::AddN(s, w.bads)),
    CALL(ops::AddN(s, {})),
    CALL(ops::AddN(s, {w.pair, w.three})),
    CALL(ops::Exp(s, w.ints)),
    CALL(ops::Expm1(s, w.ints)),
    CALL(ops::Log(s, w.ints)),
    CALL(ops::Log1p(s, w.ints)),
    CALL(ops::Sqrt(s, w.ints)),
    CALL(ops::Rsqrt(s, w.ints)),
    CALL(ops::Reciprocal(s, w.ints)),
    CALL(ops::Pow(s, w.pair, w.three)),
    CALL(ops::Sigmoid(s, w.ints)),
    CALL(ops::Tanh(s, w.ints)),
    CALL(ops::Sin(s, w.ints)),
    CALL(ops::Cos(s, w.ints)),
    CALL(ops::Tan(s, w.ints)),
    CALL(ops::Asin(s, w.ints)),
    CALL(ops::Acos(s, w.ints)),
    CALL(ops::Atan(s, w.ints)),
    CALL(ops::Atan2(s, w.pair, w.three)),
    CALL(ops::Sinh(s, w.ints)),
    CALL(ops::Cosh(s, w.ints)),
    CALL(ops::Erf(s, w.ints)),
    CALL(ops::Erfc(s, w.ints)),
    CALL(ops::Equal(s, w.pair, w.three)),
    CALL(ops::NotEqual(s, w.pair, w.three)),
    CALL(ops::Less(s, w.pair, w.three)),
    CALL(ops::LessEqual(s, w.pair, w.three)),
    CALL(ops::Greater(s, w.pair, w.three)),
    CALL(ops::GreaterEqual(s, w.pair, w.three)),
    CALL(ops::LogicalAnd(s, w.pair, w.three)),
    CALL(ops::LogicalOr(s, w.pair, w.three)),
    CALL(ops::LogicalXor(s, w.pair, w.three)),
    CALL(ops::LogicalNot(s, w.three)),
    CALL(ops::IsNan(s, w.ints)),
    CALL(ops::IsInf(s, w.ints)),
    CALL(ops::IsFinite(s, w.ints)),
    CALL(ops::L2Loss(s, w.ints)),
    CALL(ops::Sum(s, w.bad)),
    CALL(ops::Mean(s, w.three, {4})),
    CALL(ops::Max(s, w.three, {4})),
    CALL(ops::Min(s, w.three, {4})),
    CALL(ops::LogSumExp(s, w.ints)),
    CALL(ops::Norm(s, w.ints)),
    CALL(ops::L2Normalize(s, w.ints)),
    CALL(ops::Prod(s, w.three, {4})),
    CALL(ops::Any(s, w.three)),
    CALL(ops::All(s, w.three)),
    CALL(ops::ArgMax(s, w.three, 3)),
    CALL(ops::ArgMin(s, w.bad, 0)),
    CALL(ops::Cumsum(s, w.bad, 0)),
    CALL(ops::Cumsum(s, w.three, 4)),
    CALL(ops::TopK(s, w.bad, 1)),
    CALL(ops::TopK(s, w.three, 7)),
    CALL(ops::InTopK(s, w.three, w.ints, 1)),
    CALL(ops::SumLike(s, w.bad, w.pair)),
    CALL(ops::SumLike(s, w.three, w.pair)),
    CALL(ops::MatMul(s, w.bad, w.pair)),
    CALL(ops::MatMul(s, w.three, w.pair)),
    CALL(ops::Einsum(s, "a,a->", {w.three, w.pair})),
    CALL(ops::Einsum(s, "a?b", {w.three})),
};

const Call kNetworks[] = {
    CALL(ops::Relu(s, w.bad)),
    CALL(ops::Relu6(s, w.bad)),
    CALL(ops::LeakyRelu(s, w.ints)),
    CALL(ops::Elu(s, w.ints)),
    CALL(ops::Selu(s, w.ints)),
    CALL(ops::Gelu(s, w.ints)),
    CALL(ops::Silu(s, w.ints)),
    CALL(ops::Softplus(s, w.ints)),
    CALL(ops::Softmax(s, w.bad)),
    CALL(ops::Softmax(s, w.ints)),
    CALL(ops::LogSoftmax(s, w.bad)),
    CALL(ops::LogSoftmax(s, w.ints)),
    CALL(ops::SparseSoftmaxCrossEntropy(s, w.bad, w.ints)),
    CALL(ops::SparseSoftmaxCrossEntropy(s, w.three, w.ints)),
    CALL(ops::SoftmaxCrossEntropy(s, w.bad, w.three)),
    CALL(ops::SoftmaxCrossEntropy(s, w.three, w.pair)),
    CALL(ops::SigmoidCrossEntropy(s, w.bad, w.three)),
    CALL(ops::SigmoidCrossEntropy(s, w.three, w.pair)),
    CALL(ops::MeanSquaredLoss(s, w.bad, w.three)),
    CALL(ops::MeanSquaredLoss(s, w.pair, w.three)),
    CALL(ops::HuberLoss(s, w.bad, w.three)),
    CALL(ops::HuberLoss(s, w.pair, w.three)),
    CALL(ops::HuberLoss(s, w.three, w.three, -1)),
    CALL(ops::KlDivergence(s, w.bad, w.three)),
    CALL(ops::KlDivergence(s, w.pair, w.three)),
    CALL(ops::BiasAdd(s, w.bad, w.three)),
    CALL(ops::BiasAdd(s, w.pair, w.three)),
    CALL(ops::Conv2D(s, w.bad, w.three)),
    CALL(ops::Conv2D(s, w.pair, w.three)),
    CALL(ops::Conv2DTranspose(s, w.bad, w.three)),
    CALL(ops::Conv2DTranspose(s, w.pair, w.three)),
    CALL(ops::Conv1D(s, w.bad, w.three)),
    CALL(ops::Conv1D(s, w.pair, w.three)),
    CALL(ops::DepthwiseConv2D(s, w.bad, w.three)),
    CALL(ops::DepthwiseConv2D(s, w.pair, w.three)),
    CALL(ops::MaxPool(s, w.three)),
    CALL(ops::AvgPool(s, w.three)),
    CALL(ops::GlobalAvgPool(s, w.three)),
    CALL(ops::GlobalMaxPool(s, w.bad)),
    CALL(ops::GlobalMaxPool(s, w.three)),
    CALL(ops::ResizeNearest(s, w.bad, 2, 2)),
    CALL(ops::ResizeNearest(s, w.three, 2, 2)),
    CALL(ops::ResizeBilinear(s, w.bad, 2, 2)),
    CALL(ops::ResizeBilinear(s, w.three, 2, 2)),
    CALL(ops::AugmentImages(s, w.three, w.ints, {}, 1)),
    CALL(ops::GatherAndAugmentImages(s, w.three, w.ints, {}, 1)),
    CALL(ops::LocalResponseNormalization(s, w.ints)),
    CALL(ops::ChannelMoments(s, w.bad)),
    CALL(ops::BatchNorm(s, w.bad, w.three, w.three)),
    CALL(ops::BatchNormInference(s, w.bad, w.three, w.three, w.three, w.three)),
    CALL(ops::LayerNorm(s, w.bad, w.three, w.three)),
    CALL(ops::LayerNorm(s, w.pair, w.three, w.three)),
    CALL(ops::RmsNorm(s, w.bad, w.three)),
    CALL(ops::RmsNorm(s, w.pair, w.three)),
    CALL(ops::GroupNorm(s, w.bad, w.three, w.three, 1)),
    CALL(ops::GroupNorm(s, w.three, w.three, w.three, 2)),
    CALL(ops::CheckNumerics(s, w.ints, "it")),
    CALL(ops::Dropout(s, w.bad, 0.5)),
    CALL(ops::Dropout(s, w.three, 2)),
    CALL(ops::Attention(s, w.bad, w.three, w.three)),
    CALL(ops::Attention(s, w.three, w.three, w.three)),
    CALL(ops::SelfAttention(s, w.bad, 1)),
    CALL(ops::SelfAttention(s, w.three, 1)),
    CALL(ops::Rotary(s, w.bad)),
    CALL(ops::Rotary(s, w.three)),
    CALL(ops::Lstm(s, w.bad, w.three, w.three)),
    CALL(ops::Lstm(s, w.three, w.three, w.three)),
    CALL(ops::Gru(s, w.bad, w.three, w.three)),
    CALL(ops::Gru(s, w.three, w.three, w.three)),
    CALL(ops::ReverseSequence(s, w.bad, w.ints)),
    CALL(ops::ReverseSequence(s, w.three, w.ints)),
    CALL(ops::SequenceMask(s, w.bad, w.ints)),
    CALL(ops::SequenceMask(s, w.three, w.ints)),
};

const Call kStates[] = {
    CALL(ops::Assign(s, w.no_variable, w.three)),
    CALL(ops::AssignAdd(s, w.no_variable, w.three)),
    CALL(ops::AssignSub(s, w.no_variable, w.three)),
    CALL(ops::ReadVariable(s, w.no_variable)),
    CALL(ops::Group(s, absl::Span<const Output>(w.bads))),
    CALL(ops::ScalarSummary(s, "x", w.three)),
    CALL(ops::HistogramSummary(s, "x", w.bad)),
    CALL(ops::ImageSummary(s, "x", w.three)),
    CALL(ops::MergeSummary(s, {})),
    CALL(ops::MergeSummary(s, {w.three})),
    CALL(ops::SumRows(s, w.bad, w.ints)),
    CALL(ops::SumRows(s, w.three, w.three)),
    CALL(ops::MeanRows(s, w.bad, w.ints, w.ints, w.three)),
    CALL(ops::MeanRows(s, w.three, w.ints, w.ints, w.ints)),
    CALL(ops::DenseRows(s, {w.bad, w.ints}, 3)),
    CALL(ops::DenseRows(s, {w.three, w.ints}, -1)),
    CALL(ops::TouchedIndices(s, w.bad, 1, 0, 1)),
    CALL(ops::TouchedIndices(s, w.three, 1, 2, 2)),
    CALL(ops::AddToSeries(s, w.no_variable, w.three, w.three, w.three, 2)),
    CALL(ops::DivideSeries(s, w.no_variable, w.three)),
    CALL(ops::AssignRow(s, w.no_variable, w.three, w.three)),
    CALL(ops::TotalWeight(s, w.bad, "")),
    CALL(ops::Increment(s, w.no_variable)),
    CALL(ops::GlobalNorm(s, w.bads)),
    CALL(ops::GlobalNorm(s, {})),
    CALL(ops::ClipToNorm(s, w.bad, w.three, 1)),
    CALL(ops::AllFinite(s, w.bads)),
    CALL(ops::ApplyGradientDescent(s, w.no_variable, w.three, w.three)),
    CALL(ops::ApplyMomentum(s, w.no_variable, w.no_variable, w.three, w.three)),
    CALL(ops::ApplyRMSProp(s, w.no_variable, w.no_variable, w.no_variable, w.three, w.three)),
    CALL(ops::ApplyAdagrad(s, w.no_variable, w.no_variable, w.three, w.three)),
    CALL(ops::ApplyAdam(s, w.no_variable, w.no_variable, w.no_variable, w.three, w.three, w.three)),
    CALL(ops::ApplyAdamW(s, w.no_variable, w.no_variable, w.no_variable, w.three, w.three, w.three)),
    CALL(ops::ApplyLars(s, w.no_variable, w.no_variable, w.three, w.three)),
    CALL(ops::ApplyMovingAverage(s, w.no_variable, w.three, w.three)),
    CALL(ops::ApplyLossScale(s, w.no_variable, w.no_variable, w.no_variable, w.three)),
    CALL(ops::AllReduceMean(s, {.group = "g"}, w.bad, {w.three})),
    CALL(ops::AllReduceMean(s, {.group = "g", .rank = 3}, w.three, {w.three})),
    CALL(ops::AllReduceSum(s, {.group = "g"}, w.bads)),
    CALL(ops::Broadcast(s, {.group = "g"}, w.bads)),
    CALL(ops::ReduceScatterMean(s, {.group = "g"}, w.bad, {w.three})),
    CALL(ops::AllGather(s, {.group = "g"}, w.bads, {Shape({3})})),
    CALL(GetVariable(s, "", {1}, ZerosInitializer())),
    CALL(SliceOfVariable(s, w.no_variable, 0, 1)),
    CALL(s.Fail(Gradients(s, {w.bad}, {w.three}).status())),
    CALL(s.Fail(Gradients(s, {w.three}, {w.three}, {.grad_ys = {w.pair}}).status())),
    CALL(s.Fail(Gradients(s, {w.three}, {w.three}, {.grad_ys = {w.three, w.three}}).status())),
    CALL(s.Fail(Gradients(s, {w.ints}, {w.three}).status())),
    CALL(optim::ComputeGradients(s, w.bad, {})),
    CALL(optim::ComputeGradients(s, ops::Sum(s, w.three), {})),
    CALL(optim::ApplyUpdates(s, optim::Adam({.learning_rate = 1}), {{.gradient = w.three, .variable = w.no_variable}})),
    CALL(optim::ApplyGradients(s, optim::Adam({.learning_rate = 1}), {})),
    CALL(optim::ClipByValue(s, {w.ints}, -1)),
    CALL(optim::ClipByNorm(s, {w.three}, -1)),
    CALL(optim::ClipByGlobalNorm(s, {w.three}, -1)),
    CALL(optim::LearningRate(s, optim::Schedule(-1.0))),
};

// clang-format on

TEST(OwnLine, OfArrays) { ExpectOwnLines(kArrays); }
TEST(OwnLine, OfMath) { ExpectOwnLines(kMath); }
TEST(OwnLine, OfNetworks) { ExpectOwnLines(kNetworks); }
TEST(OwnLine, OfStatesAndOptimizers) { ExpectOwnLines(kStates); }

// A builder that is added to a header needs a call above.
TEST(OwnLine, OfEveryPublicBuilder) {
  // They take no argument that is wrong, leave invalid variables out, or return their errors.
  const std::set<std::string> exempt = {
      "Const",          "InitializeVariables", "GlobalStep",        "IncrementGlobalStep",
      "CountUpdates",   "MergeAllSummaries",   "AddTrainSummaries", "L2Regularization",
      "BuildSavedModel"};
  const std::string root = BELFRY_SOURCE_ROOT;
  const std::string calls = absl::StrCat(io::ReadFile(root + "/tests/models/layers/own_line_test.cc").value(),
                                         io::ReadFile(root + "/tests/models/layers/own_line_layers_test.cc").value());
  int builders = 0;
  for (const std::string folder : {"ops", "models/layers", "models/networks", "models/towers", "optim"}) {
    const std::string space = folder.substr(0, folder.find('/'));
    const std::vector<std::string> names = io::ListFolder(absl::StrCat(root, "/", folder)).value();
    for (const std::string& name : names) {
      if (!absl::EndsWith(name, ".h") || absl::EndsWith(name, "_impl.h")) continue;
      const std::string text = io::ReadFile(absl::StrCat(root, "/", folder, "/", name)).value();
      // At the start of a line, so no member function.
      const std::regex builder("(?:^|\n)[A-Za-z][\\w:<>* ]* (\\w+)\\(OpScope scope");
      for (std::sregex_iterator i(text.begin(), text.end(), builder), end; i != end; ++i) {
        const std::string found = (*i)[1];
        ++builders;
        if (exempt.contains(found)) continue;
        EXPECT_TRUE(absl::StrContains(calls, absl::StrCat("(", space, "::", found, "(s")))
            << folder << "/" << name << ": " << found;
      }
    }
  }
  EXPECT_GT(builders, 200);
}

}  // namespace
}  // namespace belfry
