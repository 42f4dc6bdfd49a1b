#include "benchmarks/bench_model.h"

#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "models/cifar_net.h"
#include "models/layers.h"
#include "models/linear_regression.h"
#include "models/losses.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "ops/array.h"

namespace belfry::benchmarks {
namespace {

constexpr int kClasses = 10;
constexpr float kX[] = {1, 23, 4, 5, 7, 5, 7}, kOut[] = {3, 5, 7, 9, 11, 13, 15};
constexpr int64_t kPoints = 7;

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

}  // namespace

absl::StatusOr<Output> BenchModel::Loss(const Scope& tower, const models::Batch& batch, DType dtype) const {
  if (!logits) return models::LinearRegression(tower, batch["input"], batch["label"]).loss;
  const Output inputs = dtype == DType::kFloat32 ? batch["input"] : ops::Cast(tower, batch["input"], dtype);
  models::AddCrossEntropy(tower, logits(tower, inputs), batch["label"]);
  return models::TotalLoss(tower);
}

absl::StatusOr<BenchModel> FindModel(const std::string& name) {
  BenchModel model{.name = name};
  int depth = 0;
  if (name == "cifar_net" || name == "cifar_net_no_lrn") {
    model.fields[0].shape = {24, 24, 3};
    if (name == "cifar_net") {
      model.logits = [](const Scope& scope, Output images) { return models::CifarNet(scope, images); };
    } else {
      model.logits = CifarNetWithoutNorms;
    }
  } else if (absl::StartsWith(name, "resnet") && absl::SimpleAtoi(name.substr(6), &depth) && depth >= 8 &&
             depth % 6 == 2) {
    model.fields[0].shape = {32, 32, 3};
    model.logits = [depth](const Scope& scope, Output images) {
      return models::ResNet(scope, images, {.depth = depth});
    };
  } else if (name == "mlp") {
    model.fields[0].shape = {784};
    model.logits = [](const Scope& scope, Output x) { return models::Mlp(scope, x, {.hidden = {512, 512}}); };
  } else if (name == "s5") {
    model.fields[1].dtype = DType::kFloat32;
    model.batch = kPoints;
    model.momentum = false;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--model=", name,
                                                   " is unknown; expected cifar_net, cifar_net_no_lrn, resnet20 "
                                                   "(or another depth of 6n + 2), mlp or s5"));
  }
  return model;
}

BenchData::BenchData(const BenchModel& model, int64_t batch) {
  inputs = Tensor(DType::kFloat32, model.fields[0].shape.Insert(0, batch));
  labels = Tensor(model.fields[1].dtype, {batch});
  if (!model.logits) {
    for (int64_t i = 0; i < batch; ++i) {
      inputs.data<float>()[i] = kX[i % kPoints];
      labels.data<float>()[i] = kOut[i % kPoints];
    }
    return;
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < inputs.elements(); ++i) inputs.data<float>()[i] = normal(random);
  for (int64_t i = 0; i < batch; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random() % kClasses);
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
