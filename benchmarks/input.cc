// Images a second that the input makes, measured alone: decode and augmentation of CIFAR-10's records on one thread,
// and batches from the prefetcher, whose reader does nothing with them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/paired_runs.h"
#include "framework/data/augment.h"
#include "framework/data/prefetcher.h"

namespace belfry {
namespace {

constexpr int64_t kImages = 10'000, kBatch = 128;
constexpr int kRounds = 15;
constexpr double kSecondsARound = 0.1;

template <class T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

// Random bytes in planes, as in CIFAR-10's files.
class Records : public data::Dataset {
 public:
  Records() : bytes_(kImages * 3072) {
    spec_ = {.shape = {32, 32, 3}, .dtype = DType::kUInt8, .label_dtype = DType::kInt32, .classes = 10};
    std::mt19937 random(1);
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random());
  }
  int64_t size() const override { return kImages; }
  const data::ExampleSpec& spec() const override { return spec_; }
  absl::Status Read(int64_t index, absl::Span<std::byte>, data::Example& example) const override {
    example = {.input = bytes_.data() + index * 3072, .label = static_cast<int32_t>(index % 10)};
    return absl::OkStatus();
  }

 private:
  data::ExampleSpec spec_;
  std::vector<uint8_t> bytes_;
};

benchmarks::Side Augmentation(const Records& records, const std::string& name, const data::ImagePolicy& policy) {
  auto augmenter = std::make_shared<data::Augmenter>(Must(data::Augmenter::Create(records.spec(), policy, 1)));
  std::vector<int64_t> order(kImages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  const int64_t elements = augmenter->output_shape().elements();
  const auto step = [&records, augmenter, order = std::move(order), elements, at = size_t{0},
                     output = std::vector<float>(kBatch * elements)]() mutable {
    for (int64_t i = 0; i < kBatch; ++i, at = (at + 1) % order.size()) {
      data::Example example;
      (void)records.Read(order[at], {}, example);
      augmenter->Apply(static_cast<const uint8_t*>(example.input), 0, order[at], output.data() + i * elements);
    }
  };
  return {.name = name + ", images alone, 1 thread", .step = step, .items_per_step = kBatch};
}

benchmarks::Side Batches(const Records& records, const std::string& name, const data::ImagePolicy& policy,
                         int threads) {
  std::shared_ptr<data::Prefetcher> input =
      Must(data::Prefetcher::Create(records, {.batch_size = kBatch, .images = policy, .threads = threads}));
  return {.name = name + ", batches, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
          .step = [input] { (void)Must(input->Next()); },
          .items_per_step = kBatch};
}

}  // namespace
}  // namespace belfry

int main() {
  using namespace belfry;
  benchmarks::PrintMachine();
  const Records records;
  const data::ChannelStatistics statistics = Must(data::ComputeChannelStatistics(records));
  const std::pair<std::string, data::ImagePolicy> policies[] = {{"tutorial 24x24", data::TutorialTraining()},
                                                                {"ResNet 32x32", data::ResNetTraining(statistics)}};
  for (const auto& [name, policy] : policies) {
    std::vector<benchmarks::Side> sides = {Augmentation(records, name, policy)};
    for (int threads : {1, 2}) sides.push_back(Batches(records, name, policy, threads));
    benchmarks::RunPaired(sides, kRounds, kSecondsARound);
    benchmarks::PrintRates(sides, "images/s");
  }
  return 0;
}
