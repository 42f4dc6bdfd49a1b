// Benchmark of input alone, in images per second: decoding and augmenting CIFAR-10's records on one thread, and batches
// from a prefetcher whose reader does nothing with them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "framework/base/status.h"
#include "framework/data/augment.h"
#include "framework/data/image_statistics.h"
#include "framework/data/prefetcher.h"

ABSL_FLAG(int, rounds, 15, "Measurements of each configuration, taken in turn.");
ABSL_FLAG(double, seconds, 0.1, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

constexpr int64_t kImages = 10'000, kBatch = 128;

// Random bytes.
class Records : public data::Dataset {
 public:
  Records() : bytes_(kImages * 3072) {
    std::mt19937 random(1);
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random());
  }
  int64_t size() const override { return kImages; }
  absl::Span<const data::Field> fields() const override { return fields_; }
  absl::Status Read(int64_t index, const data::Example& example) const override {
    std::memcpy(example.raw(0), bytes_.data() + index * 3072, 3072);
    *example.field<int32_t>(1) = static_cast<int32_t>(index % 10);
    return absl::OkStatus();
  }

 private:
  const std::vector<data::Field> fields_ = {{"image", DType::kUInt8, {32, 32, 3}}, {"label", DType::kInt32, {}, 10}};
  std::vector<uint8_t> bytes_;
};

absl::StatusOr<Side> Augmentation(const Records& records, const std::string& name, const data::ImagePolicy& policy) {
  ASSIGN_OR_RETURN(data::Augmenter made, data::Augmenter::Create(records.fields()[0], policy, 1));
  const auto augmenter = std::make_shared<data::Augmenter>(std::move(made));
  std::vector<int64_t> order(kImages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  const int64_t elements = augmenter->output_shape().elements();
  const auto step = [&records, augmenter, order = std::move(order), elements, at = size_t{0},
                     image = std::vector<std::byte>(3072), output = std::vector<float>(kBatch * elements)]() mutable {
    int32_t label;
    std::byte* const places[] = {image.data(), reinterpret_cast<std::byte*>(&label)};
    for (int64_t i = 0; i < kBatch; ++i, at = (at + 1) % order.size()) {
      RETURN_IF_ERROR(records.Read(order[at], data::Example(places)));
      augmenter->Apply(reinterpret_cast<const uint8_t*>(image.data()), 0, order[at], output.data() + i * elements);
    }
    return absl::OkStatus();
  };
  return Side{.name = name + ", images alone, 1 thread", .step = step, .items_per_step = kBatch};
}

absl::StatusOr<Side> Batches(const Records& records, const std::string& name, const data::ImagePolicy& policy,
                             int threads) {
  ASSIGN_OR_RETURN(
      std::shared_ptr<data::Prefetcher> input,
      data::Prefetcher::Create(records, {.batch_size = kBatch, .images = {{"image", policy}}, .threads = threads}));
  return Side{.name = name + ", batches, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
              .step = [input] { return input->Next().status(); },
              .items_per_step = kBatch};
}

absl::Status Run() {
  const Records records;
  ASSIGN_OR_RETURN(const data::ChannelStatistics statistics, data::ComputeChannelStatistics(records));
  std::vector<Side> sides;
  for (const auto& [name, policy] : {std::pair("tutorial 24x24", data::TutorialTraining()),
                                     std::pair("ResNet 32x32", data::ResNetTraining(statistics))}) {
    ASSIGN_OR_RETURN(sides.emplace_back(), Augmentation(records, name, policy));
    for (int threads : {1, 2}) {
      ASSIGN_OR_RETURN(sides.emplace_back(), Batches(records, name, policy, threads));
    }
  }
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  Report report("input", "Images a second that decoding and augmentation make");
  for (const Side& side : sides) {
    nlohmann::ordered_json row = {{"input", side.name}};
    AddSpread(row, "images_per_s", side.rates);
    report.Add(std::move(row));
    report.Summarize(absl::StrCat("input, ", side.name, ": ", ShortNumber(Median(side.rates)), " images/s"));
  }
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Measures the speed of the input pipeline by itself.",
                                          belfry::benchmarks::Run);
}
