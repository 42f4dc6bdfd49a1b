// Every public builder, given a wrong argument, names the line of its caller.
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"
#include "framework/io/file.h"
#include "models/layers/attention.h"
#include "models/layers/batch_norm.h"
#include "models/layers/cross_entropy.h"
#include "models/layers/embedding.h"
#include "models/layers/losses.h"
#include "models/layers/metrics.h"
#include "models/layers/norm_layers.h"
#include "models/layers/recurrent.h"
#include "models/networks/autoencoder.h"
#include "models/networks/cifar_net.h"
#include "models/networks/linear_regression.h"
#include "models/networks/mlp.h"
#include "models/networks/resnet.h"
#include "models/networks/text_encoder.h"
#include "models/networks/text_generator.h"
#include "models/networks/transformer.h"
#include "models/networks/unet.h"
#include "models/networks/wide_deep.h"
#include "models/towers/replicate_towers.h"
#include "models/towers/summaries.h"
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
#include "optim/clip.h"
#include "optim/descent.h"
#include "optim/loss_scale.h"
#include "optim/moving_average.h"
#include "optim/regularize.h"
#include "optim/rmsprop.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

// Arguments that are wrong: an output that was never made, a scalar of text-like integers, and tensors of rank 1.
struct Wrong {
  explicit Wrong(const Scope& scope)
      : ints(ops::Const(scope.WithLocation({"elsewhere.cc", 1}), {1, 2, 3})),
        pair(ops::Const(scope.WithLocation({"elsewhere.cc", 2}), {1.f, 2.f})),
        three(ops::Const(scope.WithLocation({"elsewhere.cc", 3}), {1.f, 2.f, 3.f})) {}
  Output bad;                // invalid
  Output ints, pair, three;  // int32 [3], float32 [2] and [3]
  Variable no_variable;      // invalid
  std::vector<Output> bads = {Output()};
};

struct Call {
  const char* text;
  int line;
  std::function<void(const Scope& s, const Wrong& w)> make;
};
// On one line each, which is the caller's.
#define CALL(call)                                                                 \
  Call {                                                                           \
#call, __LINE__, [](const Scope& s, const Wrong& w) { (void)w, (void)(call); } \
  }

void ExpectOwnLines(absl::Span<const Call> calls) {
  for (const Call& call : calls) {
    Graph graph(BuiltinOps());
    const Scope scope = Scope(graph).NameScope("mine");
    call.make(scope, Wrong(scope));
    EXPECT_FALSE(graph.status().ok()) << call.text << " took a wrong argument";
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(absl::StrCat("own_line_test.cc:", call.line)))
        << call.text;
  }
}

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
    CALL(ops::Pad(s, w.bad, {{1, 1}})),
    CALL(ops::Pad(s, w.three, {{1, 1}, {1, 1}})),
    CALL(ops::Gather(s, w.bad, w.ints)),
    CALL(ops::Gather(s, w.three, w.three)),
    CALL(ops::GatherND(s, w.bad, w.ints)),
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

const Call kLayers[] = {
    CALL(models::Activate(s, w.bad, models::Activation::kRelu)),
    CALL(models::LstmStack(s, "l", w.three, 3)),
    CALL(models::LstmStack(s, "l", w.bad, 3, {.layers = 0})),
    CALL(models::GruStack(s, "g", w.three, 3)),
    CALL(models::GruStack(s, "g", w.bad, 3, {.layers = 0})),
    CALL(models::MeanOverSteps(s, w.bad, w.ints)),
    CALL(models::MeanOverSteps(s, w.three, w.ints)),
    CALL(models::MaxOverSteps(s, w.bad, w.ints)),
    CALL(models::MaxOverSteps(s, w.three, w.ints)),
    CALL(models::Dense(s, "d", w.bad, 3)),
    CALL(models::Dense(s, "d", w.three, 3)),
    CALL(models::Dense(s, "d", ops::ExpandDims(s, w.three, 0), 0)),
    CALL(models::Dense(s, "d", ops::ExpandDims(s, w.ints, 0), 3)),
    CALL(models::Conv2D(s, "c", w.bad, 4, 3)),
    CALL(models::Conv2D(s, "c", w.three, 4, 3)),
    CALL(models::Conv2D(s, "c", ops::Reshape(s, w.ints, {1, 1, 1, 3}), 4, 3)),
    CALL(models::MaxPool(s, "p", w.three)),
    CALL(models::AvgPool(s, "p", w.bad)),
    CALL(models::Dropout(s, "d", w.bad, 0.5, true)),
    CALL(models::Dropout(s, "d", w.three, 2, true)),
    CALL(models::Flatten(s, w.bad)),
    CALL(models::Flatten(s, ops::Const(s, 1.f))),
    CALL(models::Embedding(s, "e", w.bad, 3, 4)),
    CALL(models::Embedding(s, "e", w.ints, 0, 4)),
    CALL(models::Embedding(s, "e", w.three, 3, 4)),
    CALL(models::EmbeddingTable(s, "e", 0, 4)),
    CALL(models::Embed(s, w.no_variable, w.ints)),
    CALL(models::BatchNorm(s, "b", w.bad)),
    CALL(models::BatchNorm(s, "b", ops::Const(s, 1.f))),
    CALL(models::LayerNorm(s, "n", w.bad)),
    CALL(models::LayerNorm(s, "n", ops::Const(s, 1.f))),
    CALL(models::RmsNorm(s, "n", w.bad)),
    CALL(models::GroupNorm(s, "n", w.bad, 2)),
    CALL(models::GroupNorm(s, "n", w.three, 2)),
    CALL(models::MultiHeadAttention(s, "a", w.bad)),
    CALL(models::MultiHeadAttention(s, "a", w.three)),
    CALL(models::MlpBlock(s, "m", w.bad)),
    CALL(models::MlpBlock(s, "m", w.three)),
    CALL(models::Lstm(s, "l", w.bad, 4)),
    CALL(models::Lstm(s, "l", w.three, 4)),
    CALL(models::Gru(s, "g", w.bad, 4)),
    CALL(models::Gru(s, "g", w.three, 4)),
    CALL(models::VaeEncoder(s, w.bad)),
    CALL(models::VaeEncoder(s, w.three, {.latent = 0})),
    CALL(models::VaeDecoder(s, w.bad, 4)),
    CALL(models::AddVaeLoss(s, w.bad)),
    CALL(models::CifarNet(s, w.bad)),
    CALL(models::CifarNet(s, w.three)),
    CALL(models::ResNet(s, w.bad)),
    CALL(models::ResNet(s, w.three, {.depth = 7})),
    CALL(models::SoftmaxRegression(s, w.bad)),
    CALL(models::Mlp(s, w.bad)),
    CALL(models::LinearRegression(s, w.bad, w.three)),
    CALL(models::Transformer(s, w.bad)),
    CALL(models::Transformer(s, w.three)),
    CALL(models::Transformer(s, w.ints, {.layers = -1})),
    CALL(models::UNet(s, w.bad)),
    CALL(models::UNet(s, w.three)),
    CALL(models::TextEncoder(s, w.bad, w.bad, w.bad)),
    CALL(models::MakeStepModel(s, {.layers = -1})),
    CALL(models::Conv2DTranspose(s, "c", w.bad, 4, 3)),
    CALL(models::Conv2DTranspose(s, "c", w.three, 4, 3)),
    CALL(models::CachedAttention(s, "a", w.bad, w.bad, w.bad, w.bad).y),
    CALL(models::TransformerStep(s, w.bad, w.ints, {}, {}, {}).logits),
    CALL(models::CachePlaceholders(s, "k", 1, -2, {.layers = 1})[0]),
    CALL(models::WideDeep(s, {})),
    CALL(models::WideDeep(s, {.numbers = w.three})),
    CALL(models::AddWeightDecay(s, w.no_variable, 0.1)),
    CALL(models::AddCrossEntropy(s, w.bad, w.ints)),
    CALL(models::AddCrossEntropy(s, w.three, w.ints)),
    CALL(models::AddCrossEntropy(s, w.bad, models::MixedLabels{w.ints, w.ints, w.pair})),
    CALL(models::SetLossWeight(s, w.bad)),
    CALL(models::SetLossWeight(s, w.three)),
    CALL(models::MeanCrossEntropy(s, w.bad, w.ints)),
    CALL(models::MeanCrossEntropy(s, w.three, w.ints)),
    CALL(models::MeanCrossEntropy(s, w.three, ops::Const(s, 1), {.class_weights = w.pair})),
    CALL(models::TotalLoss(s)),
    CALL(models::Correct(s, w.bad, w.ints)),
    CALL(models::Accuracy(s, w.bad, w.ints)),
    CALL(models::TopKAccuracy(s, w.bad, w.ints, 2)),
    CALL(models::ActivationSummaries(s, w.bad)),
    CALL(models::ReplicateTowers(s, DeviceSet::Open("cpu:1").value(), {{"x", DType::kFloat32, {1}}}, nullptr, optim::Adam({.learning_rate = 1}))),
    CALL(models::ReplicateTowers(s, DeviceSet::Open("cpu:1").value(), {{"x", DType::kFloat32, {1}}}, [](const Scope&, const models::Batch&) { return absl::StatusOr<Output>(Output()); }, optim::Adam({.learning_rate = 1}))),
    CALL(models::ReplicateTowers(s, DeviceSet::Open("cpu:1").value(), {{"x", DType::kFloat32, {1}}}, [](const Scope&, const models::Batch&) { return absl::StatusOr<Output>(absl::NotFoundError("no weights")); }, optim::Adam({.learning_rate = 1}))),
};
// clang-format on

TEST(OwnLine, OfArrays) { ExpectOwnLines(kArrays); }
TEST(OwnLine, OfMath) { ExpectOwnLines(kMath); }
TEST(OwnLine, OfNetworks) { ExpectOwnLines(kNetworks); }
TEST(OwnLine, OfStatesAndOptimizers) { ExpectOwnLines(kStates); }
TEST(OwnLine, OfLayersAndModels) { ExpectOwnLines(kLayers); }

// A builder that is added to a header needs a call above.
TEST(OwnLine, OfEveryPublicBuilder) {
  // They take no argument that is wrong, leave invalid variables out, or return their errors.
  const std::set<std::string> exempt = {
      "Const",          "InitializeVariables", "GlobalStep",        "IncrementGlobalStep",
      "CountUpdates",   "MergeAllSummaries",   "AddTrainSummaries", "L2Regularization",
      "BuildSavedModel"};
  const std::string root = BELFRY_SOURCE_ROOT;
  const std::string calls = io::ReadFile(root + "/tests/models/layers/own_line_test.cc").value();
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
