// The lines that errors of layers and models name.
#include "models/layers/attention.h"
#include "models/layers/batch_norm.h"
#include "models/layers/cross_entropy.h"
#include "models/layers/embedding.h"
#include "models/layers/losses.h"
#include "models/layers/metrics.h"
#include "models/layers/norm_layers.h"
#include "models/layers/recurrent.h"
#include "models/layers/views.h"
#include "models/networks/autoencoder.h"
#include "models/networks/cifar_net.h"
#include "models/networks/linear_regression.h"
#include "models/networks/mlp.h"
#include "models/networks/resnet.h"
#include "models/networks/speedrun_net.h"
#include "models/networks/text_encoder.h"
#include "models/networks/text_generator.h"
#include "models/networks/transformer.h"
#include "models/networks/unet.h"
#include "models/networks/wide_deep.h"
#include "models/towers/replicate_towers.h"
#include "models/towers/summaries.h"
#include "optim/adam.h"
#include "tests/models/layers/own_line.h"

namespace belfry {
namespace {

// clang-format off
const Call kLayers[] = {
    CALL(models::Activate(s, w.bad, models::Activation::kRelu)),
    CALL(models::LstmStack(s, "l", w.three, 3)),
    CALL(models::LstmStack(s, "l", w.bad, 3, {.layers = 0})),
    CALL(models::GruStack(s, "g", w.three, 3)),
    CALL(models::GruStack(s, "g", w.bad, 3, {.layers = 0})),
    CALL(models::LastStep(s, w.bad, w.ints)),
    CALL(models::LastStep(s, w.three, w.ints)),
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
    CALL(models::AverageOverViews(s, w.bad, 2, [](Output x) { return x; })),
    CALL(models::AverageOverViews(s, w.three, 3, [](Output x) { return x; })),
    CALL(models::SpeedrunNet(s, w.bad)),
    CALL(models::SpeedrunNet(s, w.three)),
    CALL(models::LayerNorm(s, "n", w.bad)),
    CALL(models::LayerNorm(s, "n", ops::Const(s, 1.f))),
    CALL(models::RmsNorm(s, "n", w.bad)),
    CALL(models::GroupNorm(s, "n", w.bad, 2)),
    CALL(models::GroupNorm(s, "n", w.three, 2)),
    CALL(models::CrossAttention(s, "a", w.bad, w.three)),
    CALL(models::CrossAttention(s, "a", w.three, w.three)),
    CALL(models::EncoderLayer(s, "a", w.bad)),
    CALL(models::EncoderLayer(s, "a", w.three, {.norm_first = true})),
    CALL(models::SinusoidalPositions(s, w.bad)),
    CALL(models::SinusoidalPositions(s, w.three)),
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

TEST(OwnLine, OfLayersAndModels) { ExpectOwnLines(kLayers); }

}  // namespace
}  // namespace belfry
