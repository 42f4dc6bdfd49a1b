// The models that benchmarks train, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/graph/scope.h"
#include "models/towers/batch.h"
#include "models/towers/replicate_towers.h"

namespace belfry::benchmarks {

inline constexpr int64_t kClasses = 10;
inline constexpr double kLearningRate = 0.01, kMomentum = 0.9;

enum class UpdateRule { kDescent, kMomentum, kAdamW };

// A model with its loss, and the fields of an example.
struct BenchModel {
  std::string name;
  std::vector<data::Field> fields = {{"inputs", DType::kFloat32, {}}, {"labels", DType::kInt32, {}, kClasses}};
  int64_t batch = 128;          // examples per step by default
  std::string unit = "images";  // of its speed
  int64_t units = 1;            // in an example
  UpdateRule update = UpdateRule::kMomentum;
  double learning_rate = kLearningRate;
  int compared_losses = 5;               // of the first steps, which other programs must reproduce
  bool narrow = true;                    // it also computes in bfloat16 and float16
  std::vector<std::string> frozen = {};  // variables that are not trained
  bool parts = true;                     // a batch that the towers do not divide evenly is refused
  // The loss of a tower's batch. `dtype` is the one that the model computes in.
  std::function<Output(const Scope& tower, const models::Batch& batch, DType dtype)> loss;
};

// By name (networks are those of models/networks):
//   cifar_net         the tutorial network, images 24x24x3
//   cifar_net_no_lrn  the same without its local response normalisations
//   resnet20 ...      residual networks with 6n + 2 layers, images 32x32x3
//   imagenet_NAME     models::PictureNetworks() at their usual size with 1,000 classes and without dropout, batch 32:
//                     imagenet_resnet50, imagenet_vgg16
//   speedrun          the network of that recipe of cifar10, images 32x32x3, its whitening drawn at random
//   unet              U-Net of width 32 with two classes and one channel, images 128x128, batch 8
//   mlp               784-512-512-10, relu
//   dlrm              four tables of 100,000 rows of 32, 13 numbers, and two small networks (Naumov et al., 2019),
//                     batch 512
//   gpt               a transformer of 6 layers, 6 heads and width 384 on 256 of 65 tokens, batch 8
//   gpt_padded        the same with batch 16, windows of different lengths, and a loss over their tokens
//   gpt2              GPT-2 of 124 million parameters on 256 tokens, batch 1
//   s5                linear regression on 7 points; its loss is the mean square error
// InvalidArgument for any other name.
absl::StatusOr<BenchModel> FindModel(const std::string& name);

// Examples that stay the same from run to run, a tensor [batch, ...] for each field: normal numbers, and categories;
// for s5 the points of its scenario, repeated.
std::vector<Tensor> BenchData(const BenchModel& model, int64_t batch);

// A copy of the examples [begin, begin + count) of a tensor.
Tensor Examples(const Tensor& all, int64_t begin, int64_t count);

}  // namespace belfry::benchmarks
