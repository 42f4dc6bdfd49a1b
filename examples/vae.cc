// Learns to draw digits like those of a clock radio, and writes a picture of 64 new ones: vae samples.png
#include <cstdio>
#include <fstream>
#include <random>

#include "belfry.h"
#include "framework/io/png.h"

using namespace belfry;

constexpr int64_t kSide = 16, kPixels = kSide * kSide, kAcross = 8;
const models::VaeOptions kModel = {.hidden = {128}, .latent = 8};

// Digits of seven bars: top, upper left, upper right, middle, lower left, lower right, bottom. Bit i of a digit's
// number is its bar i. Each is drawn somewhere else, in another size and brightness.
Tensor DrawDigits(int64_t n) {
  constexpr int kBars[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};
  Tensor images = Tensor::Zeros(DType::kFloat32, {n, kSide, kSide});
  std::mt19937 random;
  for (int64_t i = 0; i < n; ++i) {
    const int bars = kBars[random() % 10], size = 4 + static_cast<int>(random() % 3);
    const int top = 1 + static_cast<int>(random() % 3), left = 2 + static_cast<int>(random() % 6);
    const float light = 0.7f + 0.3f * static_cast<float>(random() % 100) / 100;
    float* const image = images.data<float>() + i * kPixels;
    const auto draw = [&](int bar, int y, int x, int down, int right) {
      for (int k = 0; k <= size && (bars >> bar & 1) == 1; ++k) {
        image[(top + y + down * k) * kSide + left + x + right * k] = light;
      }
    };
    draw(0, 0, 0, 0, 1), draw(3, size, 0, 0, 1), draw(6, 2 * size, 0, 0, 1);
    draw(1, 0, 0, 1, 0), draw(2, 0, size, 1, 0), draw(4, size, 0, 1, 0), draw(5, size, size, 1, 0);
  }
  return images;
}

absl::Status Train(const std::string& path) {
  ASSIGN_OR_RETURN(auto digits, data::FromTensors({{"image", DrawDigits(4000)}}));
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(*digits, {.batch_size = 100, .towers = 2}));
  Graph graph(BuiltinOps());
  const auto loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    return models::AddVaeLoss(tower, batch["image"], kModel);
  };
  optim::Adam adam({.learning_rate = 0.003});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, loss, adam);

  Scope scope = Scope(graph).NameScope("samples").ReuseVariables(Reuse::kAlways);
  Output code = ops::RandomNormal(scope, {kAcross * kAcross, kModel.latent});
  Output pixels = Sigmoid(models::VaeDecoder(scope, code, kPixels, kModel));
  pixels = Reshape(pixels, {kAcross, kAcross, kSide, kSide});  // rows and columns of digits
  pixels = Cast(255 * Transpose(pixels, {0, 2, 1, 3}), DType::kUInt8);

  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = 4000}).Run());
  ASSIGN_OR_RETURN(auto drawn, session->Run({pixels}));
  ASSIGN_OR_RETURN(std::string png, io::EncodePng(drawn[0].span<uint8_t>(), kAcross * kSide, kAcross * kSide, 1));
  std::ofstream(path, std::ios::binary) << png;
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  absl::Status status = Train(argc > 1 ? argv[1] : "vae.png");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
