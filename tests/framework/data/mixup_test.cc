// Mixtures of examples, against the examples themselves.
#include "framework/data/mixup.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

// 23 random images with labels and a number each.
std::unique_ptr<Dataset> Images(FreshRandom& random) {
  Tensor images(DType::kUInt8, {23, 7, 6, 3}), labels(DType::kInt32, {23}), numbers(DType::kFloat32, {23, 2});
  const std::string bytes = random.Bytes(images.bytes());
  std::copy(bytes.begin(), bytes.end(), images.data<uint8_t>());
  for (int i = 0; i < 23; ++i) labels.data<int32_t>()[i] = i;
  for (int i = 0; i < 46; ++i) numbers.data<float>()[i] = static_cast<float>(i * i);
  return FromTensors({{"image", images}, {"label", labels, 23}, {"number", numbers}}).value();
}

PrefetcherOptions Options(double mixup, int towers = 1, int threads = 0) {
  PrefetcherOptions options{
      .batch_size = 10, .towers = towers, .seed = 5, .epochs = 2, .mixup = mixup, .threads = threads};
  options.images["image"] = {.crop = 5, .random_crop = true, .random_flip = true, .cutout = 2};
  return options;
}

// The values of each field, one batch and tower after the other.
std::vector<std::vector<double>> Read(const Dataset& dataset, const PrefetcherOptions& options) {
  auto prefetcher = Prefetcher::Create(dataset, options).value();
  std::vector<std::vector<double>> fields(prefetcher->fields().size());
  while (true) {
    auto batch = prefetcher->Next();
    if (!batch.ok()) return fields;
    for (const TowerBatch& tower : batch->towers()) {
      for (size_t i = 0; i < fields.size(); ++i) {
        const std::vector<double> values = tower.fields[i].ToDoubles();
        fields[i].insert(fields[i].end(), values.begin(), values.end());
      }
    }
  }
}

TEST(MixUp, MixesPairsOfABatch) {
  FreshRandom random;
  const auto dataset = Images(random);
  const auto plain = Read(*dataset, Options(0)), mixed = Read(*dataset, Options(0.7));
  ASSERT_EQ(plain.size(), 3u);
  ASSERT_EQ(mixed.size(), 5u);
  const std::vector<double>&label = mixed[1], &partner = mixed[3], &weight = mixed[4];
  EXPECT_EQ(label, plain[1]);
  for (const int begin : {0, 10, 20, 23, 33, 43}) {
    const int end = begin + (begin % 23 == 20 ? 3 : 10);
    std::vector<double> labels(label.begin() + begin, label.begin() + end),
        partners(partner.begin() + begin, partner.begin() + end);
    for (int i = begin; i < end; ++i) {
      const int j = begin + static_cast<int>(std::find(labels.begin(), labels.end(), partner[i]) - labels.begin());
      ASSERT_LT(j, end) << "the partner is in the batch";
      ASSERT_EQ(weight[i], weight[begin]);
      ASSERT_TRUE(weight[i] > 0 && weight[i] < 1);
      const auto expect_mixed = [&](int field, int size) {
        for (int k = 0; k < size; ++k) {
          const double x = plain[field][i * size + k], y = plain[field][j * size + k];
          ASSERT_NEAR(mixed[field][i * size + k], weight[i] * x + (1 - weight[i]) * y, 1e-3);
        }
      };
      expect_mixed(0, 5 * 5 * 3);
      expect_mixed(2, 2);
    }
    std::sort(labels.begin(), labels.end());
    std::sort(partners.begin(), partners.end());
    EXPECT_EQ(labels, partners) << "each is a partner once";
  }
  EXPECT_NE(weight[0], weight[10]);
}

TEST(MixUp, IsTheSameForAnyTowersAndThreads) {
  FreshRandom random;
  const auto dataset = Images(random);
  const auto expected = Read(*dataset, Options(0.4));
  EXPECT_EQ(Read(*dataset, Options(0.4, 3, 0)), expected);
  EXPECT_EQ(Read(*dataset, Options(0.4, 4, 3)), expected);
  PrefetcherOptions later = Options(0.4, 2, 2);
  later.start = {.epoch = 1, .batch = 1};
  const auto end = Read(*dataset, later);
  EXPECT_TRUE(std::equal(end[0].begin(), end[0].end(), expected[0].begin() + 33 * 75));
}

// Moments of Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)); for a = 1 it is uniform.
TEST(MixUp, DrawsFromBeta) {
  constexpr int kDraws = 20000;
  for (const double alpha : {0.01, 0.2, 0.5, 1.0, 3.0, 100.0}) {
    double sum = 0, squares = 0;
    int below = 0;
    std::vector<int64_t> partners(3);
    for (int step = 0; step < kDraws; ++step) {
      const double weight = DrawMixture(7, alpha, step, absl::MakeSpan(partners));
      ASSERT_TRUE(weight >= 0 && weight <= 1);
      sum += weight - 0.5;
      squares += (weight - 0.5) * (weight - 0.5);
      below += weight < 0.1;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0, 5 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws / variance, 1, 0.06) << alpha;
    if (alpha == 1) {
      EXPECT_NEAR(below, 0.1 * kDraws, 5 * std::sqrt(0.09 * kDraws));
    }
  }
}

TEST(MixUp, OptionsOutOfRange) {
  FreshRandom random;
  const auto dataset = Images(random);
  for (const double mixup : {-0.1, 1001.0, std::nan("")}) {
    EXPECT_EQ(Prefetcher::Create(*dataset, Options(mixup)).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace belfry::data
