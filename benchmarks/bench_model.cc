#include "benchmarks/bench_model.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "models/layers/cross_entropy.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/networks/cifar_net.h"
#include "models/networks/linear_regression.h"
#include "models/networks/mlp.h"
#include "models/networks/pictures/picture_networks.h"
#include "models/networks/resnet.h"
#include "models/networks/speedrun_net.h"
#include "models/networks/transformer.h"
#include "models/networks/unet.h"
#include "ops/array.h"

namespace belfry::benchmarks {
namespace {

constexpr float kX[] = {1, 23, 4, 5, 7, 5, 7}, kOut[] = {3, 5, 7, 9, 11, 13, 15};
constexpr int64_t kPoints = 7;
constexpr int32_t kPadding = -1;
constexpr int64_t kTables = 4, kTableRows = 100'000, kTableWidth = 32, kNumbers = 13;

constexpr char kImageNet[] = "imagenet_";
constexpr int64_t kImageNetClasses = 1000;

using models::Activation;

// models::CifarNet without norm1 and norm2.
Output CifarNetWithoutNorms(const Scope& scope, Output images) {
  const auto convolution = [&](const char* name, Output x, double bias) {
    return models::Conv2D(scope, name, x, 64, 5,
                          {.activation = Activation::kRelu,
                           .weights = TruncatedNormalInitializer(5e-2),
                           .biases = ConstantInitializer(bias)});
  };
  const auto dense = [&](const char* name, Output x, int64_t units) {
    return models::Dense(scope, name, x, units,
                         {.activation = Activation::kRelu,
                          .weights = TruncatedNormalInitializer(0.04),
                          .biases = ConstantInitializer(0.1),
                          .weight_decay = 0.004});
  };
  Output x = models::MaxPool(scope, "pool1", convolution("conv1", images, 0), {.window = 3, .stride = 2});
  x = models::MaxPool(scope, "pool2", convolution("conv2", x, 0.1), {.window = 3, .stride = 2});
  x = dense("local4", dense("local3", models::Flatten(scope, x), 384), 192);
  return models::Dense(scope, "softmax_linear", x, kClasses, {.weights = TruncatedNormalInitializer(1 / 192.0)});
}

using Logits = std::function<Output(const Scope& scope, Output inputs)>;  // inputs in the dtype of the computation

// Cross entropy and weight decay.
std::function<Output(const Scope&, const models::Batch&, DType)> ClassifierLoss(const Logits& logits) {
  return [logits](const Scope& tower, const models::Batch& batch, DType dtype) {
    const Output inputs = batch["inputs"];
    models::AddCrossEntropy(tower, logits(tower, dtype == DType::kFloat32 ? inputs : ops::Cast(tower, inputs, dtype)),
                            batch["labels"]);
    return models::TotalLoss(tower);
  };
}

// The rows of the tables and the result of the first network, side by side, go into the second.
Output DlrmLoss(const Scope& tower, const models::Batch& batch, DType) {
  const models::DenseOptions relu{.activation = Activation::kRelu};
  std::vector<Output> parts = {
      models::Dense(tower, "bottom2", models::Dense(tower, "bottom1", batch["numbers"], 64, relu), kTableWidth, relu)};
  for (int64_t t = 0; t < kTables; ++t) {
    const Variable table =
        GetVariable(tower, absl::StrCat("table", t), {kTableRows, kTableWidth}, NormalInitializer(0.1));
    const Output ids = ops::Reshape(tower, ops::Slice(tower, batch["ids"], {0, t}, {-1, 1}), {-1});
    parts.push_back(ops::Gather(tower, table, ids));
  }
  const Output hidden = models::Dense(tower, "top1", ops::Concat(tower, parts, 1), 64, relu);
  models::AddCrossEntropy(tower, models::Dense(tower, "top2", hidden, 2), batch["labels"]);
  return models::TotalLoss(tower);
}

// Tokens and the tokens that follow them, which the model learns to predict.
void SetTransformer(const models::TransformerOptions& options, int64_t batch, BenchModel& model) {
  const auto vocabulary = static_cast<int>(options.vocabulary);
  model.fields = {{"tokens", DType::kInt32, {options.length}, vocabulary},
                  {"next_tokens", DType::kInt32, {options.length}, vocabulary}};
  model.batch = batch;
  model.unit = "tokens";
  model.units = options.length;
  model.update = UpdateRule::kAdamW;
  model.learning_rate = 1e-4;
  model.compared_losses = 50;
  model.loss = [options, model_name = model.name](const Scope& tower, const models::Batch& batch, DType dtype) {
    models::TransformerOptions in_dtype = options;
    in_dtype.dtype = dtype;
    const Output logits = models::Transformer(tower, batch["tokens"], in_dtype);
    if (model_name != "gpt_padded") {
      models::AddCrossEntropy(tower, logits, batch["next_tokens"]);
      return models::TotalLoss(tower);
    }
    const models::MeanLoss mean =
        models::MeanCrossEntropy(tower, logits, batch["next_tokens"], {.ignore_label = kPadding});
    models::SetLossWeight(tower, mean.weight);
    return mean.loss;
  };
}

// Windows of 1 to all tokens: what follows the others is padding.
void Pad(Tensor& next_tokens) {
  const int64_t length = next_tokens.shape()[1];
  std::mt19937 random(2);
  for (int64_t window = 0; window < next_tokens.shape()[0]; ++window) {
    int32_t* const tokens = next_tokens.data<int32_t>() + window * length;
    std::fill(tokens + 1 + static_cast<int64_t>(random() % length), tokens + length, kPadding);
  }
}

absl::Status UnknownModel(const std::string& name) {
  std::vector<absl::string_view> networks;
  for (const models::PictureNetwork& network : models::PictureNetworks()) networks.push_back(network.name);
  return absl::InvalidArgumentError(absl::StrCat(
      "--model=", name,
      " is unknown; expected cifar_net, cifar_net_no_lrn, resnet20 (or another depth of 6n + 2), speedrun, unet, "
      "mlp, dlrm, gpt, gpt_padded, gpt2, s5, or ",
      kImageNet, " before one of ", absl::StrJoin(networks, ", ")));
}

}  // namespace

absl::StatusOr<BenchModel> FindModel(const std::string& name) {
  BenchModel model{.name = name};
  int depth = 0;
  if (name == "cifar_net" || name == "cifar_net_no_lrn") {
    model.fields[0].shape = {24, 24, 3};
    model.loss = name == "cifar_net"
                     ? ClassifierLoss([](const Scope& scope, Output images) { return models::CifarNet(scope, images); })
                     : ClassifierLoss(CifarNetWithoutNorms);
  } else if (absl::StartsWith(name, "resnet") && absl::SimpleAtoi(name.substr(6), &depth) && depth >= 8 &&
             depth % 6 == 2) {
    model.fields[0].shape = {32, 32, 3};
    model.loss = ClassifierLoss(
        [depth](const Scope& scope, Output images) { return models::ResNet(scope, images, {.depth = depth}); });
  } else if (absl::string_view network_name = name; absl::ConsumePrefix(&network_name, kImageNet)) {
    const models::PictureNetwork* const network = models::FindPictureNetwork(network_name);
    if (network == nullptr) return UnknownModel(name);
    model.fields[0].shape = {network->size, network->size, 3};
    model.fields[1].categories = kImageNetClasses;
    model.batch = 32;
    model.compared_losses = 2;
    model.loss = ClassifierLoss([network](const Scope& scope, Output images) {
      return network->build(scope, images, {.classes = kImageNetClasses, .dropout = 0});
    });
  } else if (name == "speedrun") {
    model.fields[0].shape = {32, 32, 3};
    model.frozen = {"whiten/weights"};
    model.loss = ClassifierLoss([](const Scope& scope, Output images) { return models::SpeedrunNet(scope, images); });
  } else if (name == "unet") {
    constexpr int64_t kSize = 128;
    model.fields = {{"inputs", DType::kFloat32, {kSize, kSize, 1}}, {"labels", DType::kInt32, {kSize, kSize}, 2}};
    model.batch = 8;
    model.loss =
        ClassifierLoss([](const Scope& scope, Output images) { return models::UNet(scope, images, {.width = 32}); });
  } else if (name == "mlp") {
    model.fields[0].shape = {784};
    model.loss = ClassifierLoss([](const Scope& scope, Output x) {
      return models::Mlp(scope, x, {.hidden = {512, 512}});
    });
  } else if (name == "dlrm") {
    model.fields = {{"ids", DType::kInt32, {kTables}, kTableRows},
                    {"numbers", DType::kFloat32, {kNumbers}},
                    {"labels", DType::kInt32, {}, 2}};
    model.batch = 512;
    model.update = UpdateRule::kDescent;
    model.narrow = false;
    model.loss = DlrmLoss;
  } else if (name == "gpt" || name == "gpt_padded") {
    SetTransformer({.vocabulary = 65, .length = 256, .layers = 6, .heads = 6, .width = 384}, name == "gpt" ? 8 : 16,
                   model);
  } else if (name == "gpt2") {
    SetTransformer({.length = 256}, 1, model);
  } else if (name == "s5") {
    model.fields[1] = {"labels", DType::kFloat32, {}};
    model.batch = kPoints;
    model.update = UpdateRule::kDescent;
    model.narrow = model.parts = false;
    model.loss = [](const Scope& tower, const models::Batch& batch, DType) {
      return models::LinearRegression(tower, batch["inputs"], batch["labels"]).loss;
    };
  } else {
    return UnknownModel(name);
  }
  return model;
}

std::vector<Tensor> BenchData(const BenchModel& model, int64_t batch) {
  std::vector<Tensor> data;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const data::Field& field : model.fields) {
    Tensor& values = data.emplace_back(field.dtype, field.shape.Insert(0, batch));
    for (int64_t i = 0; i < values.elements(); ++i) {
      if (field.dtype == DType::kInt32) {
        values.data<int32_t>()[i] = static_cast<int32_t>(random() % field.categories);
      } else if (model.name == "s5") {
        values.data<float>()[i] = (field.name == "labels" ? kOut : kX)[i % kPoints];
      } else {
        values.data<float>()[i] = normal(random);
      }
    }
  }
  if (model.name == "gpt_padded") Pad(data[1]);
  return data;
}

Tensor Examples(const Tensor& all, int64_t begin, int64_t count) {
  Shape shape = all.shape();
  shape.set_dim(0, count);
  Tensor part(all.dtype(), shape);
  const size_t example = all.bytes() / static_cast<size_t>(all.shape()[0]);
  std::memcpy(part.raw(), static_cast<const char*>(all.raw()) + static_cast<size_t>(begin) * example, part.bytes());
  return part;
}

}  // namespace belfry::benchmarks
