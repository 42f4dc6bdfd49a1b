// Belfry's side of the comparison of reading pictures from JPEG files (pictures.py), on one thread. Without --serve it
// prints its own speed.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/main.h"
#include "benchmarks/memory_use.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/serve.h"
#include "framework/base/status.h"
#include "framework/data/pictures/pictures.h"
#include "framework/data/prefetcher.h"

ABSL_FLAG(std::string, data_dir, "", "Folder of JPEG files, in a folder for each class.");
ABSL_FLAG(int64_t, size, 224, "Height and width of an example.");
ABSL_FLAG(int64_t, batch_size, 32, "Pictures in a batch.");
ABSL_FLAG(bool, serve, false, "Speak the protocol of benchmarks/peers/README.md.");

namespace belfry::benchmarks {
namespace {

constexpr int kCompared = 5;

// Pixels by the means and deviations of ImageNet.
data::ImagePolicy Policy(bool flip) {
  return {.random_flip = flip,
          .normalise = data::ImagePolicy::Normalise::kPerChannel,
          .mean = {123.675f, 116.28f, 103.53f},
          .deviation = {58.395f, 57.12f, 57.375f}};
}

// The root mean square of the middle of each of the first pictures, in the order of classes and paths.
absl::StatusOr<std::vector<double>> OfFirstPictures(const data::Dataset& middles) {
  ASSIGN_OR_RETURN(
      const auto batches,
      data::Prefetcher::Create(
          middles, {.batch_size = 1, .shuffle = false, .images = {{"image", Policy(false)}}, .threads = 0}));
  std::vector<double> results;
  for (int i = 0; i < kCompared; ++i) {
    ASSIGN_OR_RETURN(const data::Batch batch, batches->Next());
    double squares = 0;
    const std::vector<double> values = batch.towers()[0].fields[0].ToDoubles();
    for (const double value : values) squares += value * value;
    results.push_back(std::sqrt(squares / static_cast<double>(values.size())));
  }
  return results;
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const MemoryUse before, ReadMemoryUse());
  const int64_t size = absl::GetFlag(FLAGS_size), batch = absl::GetFlag(FLAGS_batch_size);
  const data::PictureOptions training{.height = size, .width = size, .random_crop = data::RandomResizedCrop{}};
  const data::PictureOptions middle{.height = size, .width = size};
  ASSIGN_OR_RETURN(const data::TrainAndTest views, data::OpenImages(absl::GetFlag(FLAGS_data_dir), training, middle));
  ASSIGN_OR_RETURN(const std::vector<double> compared, OfFirstPictures(*views.second));
  ASSIGN_OR_RETURN(const auto batches, data::Prefetcher::Create(*views.first, {.batch_size = batch,
                                                                               .drop_remainder = true,
                                                                               .images = {{"image", Policy(true)}},
                                                                               .threads = 0}));
  const Side side{.name = "Belfry", .step = [&] { return batches->Next().status(); }};
  RETURN_IF_ERROR(Rate(side.step, 0.2).status());
  ForgetPeak().IgnoreError();
  if (!absl::GetFlag(FLAGS_serve)) {
    ASSIGN_OR_RETURN(const double steps, Rate(side.step, 3));
    std::printf("pictures of %d x %d: %.0f images/s\n", static_cast<int>(size), static_cast<int>(size),
                static_cast<double>(batch) * steps);
    return absl::OkStatus();
  }
  return AnswerCommands(compared, side, [&] { return PeakBeyond(before); });
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Times the reading of pictures for training.",
                                          belfry::benchmarks::Run);
}
