#include "framework/data/sequences/bucket_batcher.h"

#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "framework/data/resume.h"
#include "tests/main/testing.h"

namespace belfry::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Example i has the steps (100 i + t, -t), t = 0 ..., the tag 3 i and the label i % 2.
class Steps {
 public:
  explicit Steps(std::vector<int32_t> lengths) : lengths_(std::move(lengths)) {
    std::vector<float> steps;
    std::vector<int32_t> tags, labels;
    for (size_t i = 0; i < lengths_.size(); ++i) {
      for (int32_t t = 0; t < lengths_[i]; ++t) {
        steps.insert(steps.end(), {static_cast<float>(100 * i) + static_cast<float>(t), static_cast<float>(-t)});
        tags.push_back(static_cast<int32_t>(3 * i));
      }
      labels.push_back(static_cast<int32_t>(i % 2));
    }
    const auto total = static_cast<int64_t>(tags.size()), n = static_cast<int64_t>(labels.size());
    dataset_ = ValueOf(FromSequences(
        Tensor::Of<int32_t>(lengths_, {n}),
        {{"step", Tensor::Of<float>(steps, {total, 2})}, {"tag", Tensor::Of<int32_t>(tags, {total}), 3 * n}},
        {{"label", Tensor::Of<int32_t>(labels, {n}), 2}}));
  }
  const SequenceDataset& operator*() const { return *dataset_; }
  const std::vector<int32_t>& lengths() const { return lengths_; }

 private:
  std::vector<int32_t> lengths_;
  std::unique_ptr<SequenceDataset> dataset_;
};

Steps RandomSteps(int64_t examples, int32_t longest) {
  std::vector<int32_t> lengths;
  std::uniform_int_distribution<int32_t> uniform(0, longest);
  for (int64_t i = 0; i < examples; ++i) lengths.push_back(uniform(TestRandom()));
  return Steps(std::move(lengths));
}

std::unique_ptr<BucketBatcher> Batcher(const Steps& steps, const BucketBatcherOptions& options) {
  return ValueOf(BucketBatcher::Create(*steps, options));
}

// All elements of the batches up to the end, batch by batch, with the towers' parts one after the other.
std::vector<std::vector<double>> BatchesOf(BucketBatcher& input) {
  std::vector<std::vector<double>> all;
  while (true) {
    auto batch = input.Next();
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().code(), absl::StatusCode::kOutOfRange) << batch.status();
      return all;
    }
    std::vector<double>& of_batch = all.emplace_back();
    for (size_t field = 0; field < input.fields().size(); ++field) {
      for (const TowerBatch& tower : batch->towers()) {
        const std::vector<double> values = tower.fields[field].ToDoubles();
        of_batch.insert(of_batch.end(), values.begin(), values.end());
      }
    }
  }
}

TEST(BucketBatcher, BatchesArePaddedToTheBoundOfTheirBucket) {
  const Steps steps({2, 7, 0, 3, 5});
  const auto input =
      Batcher(steps, {.batch_size = 2, .buckets = {3, 9}, .shuffle = false, .epochs = 1, .padding = {{"tag", -1}}});
  EXPECT_EQ(FieldsText(input->fields()), "step float32 [?,2], tag int32 [?], label int32 [], length int32 []");
  EXPECT_EQ(input->fields()[1].categories, 0);  // -1 is none
  EXPECT_EQ(input->fields()[2].categories, 2);
  EXPECT_EQ(input->batches_per_epoch(), 3);
  const std::vector<std::vector<double>> expected = {
      {0, 0, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 2, 0},
      {100, 0,  101, -1, 102, -2, 103, -3, 104, -4, 105, -5, 106, -6, 0, 0, 0, 0, 400, 0,
       401, -1, 402, -2, 403, -3, 404, -4, 0,   0,  0,   0,  0,   0,  0, 0, 3, 3, 3,   3,
       3,   3,  3,   -1, -1,  12, 12,  12, 12,  12, -1,  -1, -1,  -1, 1, 0, 7, 5},
      {300, 0, 301, -1, 302, -2, 9, 9, 9, 1, 3}};
  EXPECT_EQ(BatchesOf(*input), expected);
  // 17 of 3 x 3 + 2 x 9 steps.
  EXPECT_DOUBLE_EQ(input->padding(), 1 - 17.0 / 27);
}

TEST(BucketBatcher, AnEpochHasEverySequenceOnceWithItsSteps) {
  const Steps steps = RandomSteps(203, 40);
  const auto input = Batcher(steps, {.batch_size = 9, .towers = 2, .seed = 5});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::multiset<int64_t> seen;
    for (int64_t i = 0; i < input->batches_per_epoch(); ++i) {
      ASSERT_OK_AND_ASSIGN(auto batch, input->Next());
      EXPECT_EQ(batch.position(), (Position{epoch, i}));
      EXPECT_EQ(batch.step(), epoch * input->batches_per_epoch() + i);
      EXPECT_EQ(static_cast<int64_t>(batch.indices().size()), batch.examples());
      seen.insert(batch.indices().begin(), batch.indices().end());
      for (const TowerBatch& tower : batch.towers()) {
        const int64_t padded = tower.fields[0].shape()[1];
        EXPECT_EQ(tower.fields[0].shape(), Shape({tower.count, padded, 2}));
        EXPECT_EQ(tower.fields[1].shape(), Shape({tower.count, padded}));
        for (int64_t row = 0; row < tower.count; ++row) {
          const int64_t index = batch.indices()[static_cast<size_t>(tower.offset + row)];
          const int32_t length = steps.lengths()[static_cast<size_t>(index)];
          EXPECT_EQ(tower.fields[3].data<int32_t>()[row], length);
          for (int64_t t = 0; t < padded; ++t) {
            const float* const at = tower.fields[0].data<float>() + (row * padded + t) * 2;
            EXPECT_EQ(at[0], t < length ? static_cast<float>(100 * index + t) : 0);
            EXPECT_EQ(at[1], t < length ? static_cast<float>(-t) : 0);
          }
        }
      }
    }
    EXPECT_EQ(seen.size(), 203u);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 203u);
  }
}

TEST(BucketBatcher, ShapesAreThoseOfTheBatches) {
  const Steps steps = RandomSteps(203, 40);
  for (const bool drop : {false, true}) {
    const auto input = Batcher(steps, {.batch_size = 9, .towers = 2, .drop_remainder = drop, .epochs = 2});
    std::set<BatchShape> seen;
    while (true) {
      auto batch = input->Next();
      if (!batch.ok()) break;
      const std::vector<int64_t> extents = UnknownExtents(input->fields(), batch->towers()[0]);
      EXPECT_EQ(extents, UnknownExtents(input->fields(), batch->towers()[1]));
      EXPECT_EQ(extents.size(), 2u);
      seen.insert({batch->examples(), extents});
    }
    const std::vector<BatchShape> shapes = input->shapes();
    EXPECT_EQ(std::set<BatchShape>(shapes.begin(), shapes.end()), seen);
    EXPECT_EQ(shapes.size(), seen.size());
  }
}

TEST(BucketBatcher, BoundsThatDoubleWasteLessThanHalf) {
  std::vector<int32_t> lengths;
  for (int i = 0; i < 1000; ++i) lengths.push_back(9 + i % 200);
  const Steps steps(lengths);
  const auto bucketed = Batcher(steps, {.batch_size = 32}), one = Batcher(steps, {.batch_size = 32, .buckets = {208}});
  EXPECT_LT(bucketed->padding(), 0.5);
  EXPECT_LT(bucketed->padding(), 0.6 * one->padding());
  EXPECT_GT(bucketed->padding(), 0);
}

TEST(BucketBatcher, TowersSplitTheSameBatches) {
  const Steps steps = RandomSteps(97, 30);
  BucketBatcherOptions options{.batch_size = 7, .seed = 3, .epochs = 2};
  const auto expected = BatchesOf(*Batcher(steps, options));
  options.towers = 3;
  EXPECT_EQ(BatchesOf(*Batcher(steps, options)), expected);
  // Each of two processes has its towers' parts.
  auto first = options, second = options;
  first.local_towers = 1;
  second.first_tower = 1;
  const auto a = Batcher(steps, first), b = Batcher(steps, second), all = Batcher(steps, options);
  EXPECT_EQ(b->local_towers(), 2);
  for (int64_t i = 0; i < all->batches_per_epoch(); ++i) {
    const auto of_a = a->Next(), of_b = b->Next(), of_all = all->Next();
    ASSERT_TRUE(of_a.ok() && of_b.ok() && of_all.ok());
    EXPECT_EQ(of_a->examples(), of_all->examples());
    for (size_t field = 0; field < all->fields().size(); ++field) {
      EXPECT_EQ(of_a->towers()[0].fields[field].ToDoubles(), of_all->towers()[0].fields[field].ToDoubles());
      EXPECT_EQ(of_b->towers()[1].fields[field].ToDoubles(), of_all->towers()[2].fields[field].ToDoubles());
    }
  }
}

TEST(BucketBatcher, ResumesWithinAnEpochAtTheSameBatch) {
  const Steps steps = RandomSteps(97, 30);
  const BucketBatcherOptions options{.batch_size = 7, .seed = 3, .epochs = 3};
  const auto all = BatchesOf(*Batcher(steps, options));
  for (const size_t done : {size_t{0}, size_t{5}, all.size() / 3, all.size() / 3 + 1, all.size() - 1}) {
    const auto before = Batcher(steps, options);
    Position next = before->position();
    for (size_t i = 0; i < done; ++i) next = before->Next()->next();
    io::Metadata metadata;
    before->PutPosition(next, metadata);
    const std::vector<std::vector<double>> rest(all.begin() + static_cast<int64_t>(done), all.end());
    const auto moved = Batcher(steps, options);
    ASSERT_TRUE(moved->Next().ok());
    ASSERT_TRUE(moved->Resume(metadata).ok());
    EXPECT_EQ(moved->position(), next);
    io::Metadata now;
    moved->PutPosition(moved->position(), now);
    EXPECT_TRUE(CheckPosition(metadata, now).ok());
    EXPECT_EQ(BatchesOf(*moved), rest) << done;
    BucketBatcherOptions from = options;
    from.start = next;
    EXPECT_EQ(BatchesOf(*Batcher(steps, from)), rest) << done;
  }
}

TEST(BucketBatcher, RefusesToResumeWithOtherBatches) {
  const Steps steps = RandomSteps(97, 30);
  const BucketBatcherOptions options{.batch_size = 7, .buckets = {10, 30}, .seed = 3};
  const auto input = Batcher(steps, options);
  io::Metadata metadata;
  input->PutPosition({1, 2}, metadata);
  const auto error = [&](BucketBatcherOptions other) {
    const absl::Status status = Batcher(steps, other)->Resume(metadata);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  BucketBatcherOptions other = options;
  other.buckets = {20, 30};
  EXPECT_THAT(error(other), HasSubstr("\"data.buckets\" 10,30 and would resume with 20,30"));
  other = options;
  other.seed = 4;
  EXPECT_THAT(error(other), HasSubstr("data.seed"));
  other = options;
  other.batch_size = 8;
  EXPECT_THAT(error(other), HasSubstr("data.batch_size"));
  metadata["data.batch"] = "1000";
  EXPECT_EQ(input->Resume(metadata).code(), absl::StatusCode::kInvalidArgument);
  metadata.erase("data.epoch");
  EXPECT_EQ(input->Resume(metadata).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(input->position(), (Position{0, 0}));
  const auto batch = input->Next();
  EXPECT_EQ(input->Resume(metadata).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(BucketBatcher, BatchesOnLoanKeepTheirContents) {
  const Steps steps({1, 2, 3, 4});
  const auto input = Batcher(steps, {.batch_size = 2, .buckets = {4}, .shuffle = false});
  const auto first = input->Next();
  const void* memory = nullptr;
  {
    const auto second = input->Next();
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_THAT(first->towers()[0].fields[3].ToDoubles(), ElementsAre(1, 2));
    EXPECT_THAT(second->towers()[0].fields[3].ToDoubles(), ElementsAre(3, 4));
    memory = second->towers()[0].fields[0].raw();
  }
  const auto third = input->Next();
  EXPECT_EQ(third->towers()[0].fields[0].raw(), memory);
  EXPECT_THAT(first->indices(), ElementsAre(0, 1));
}

// A dataset that fails once at each example.
class FailingSteps : public SequenceDataset {
 public:
  explicit FailingSteps(const SequenceDataset& from) : from_(from), failed_(static_cast<size_t>(from.size())) {}
  int64_t size() const override { return from_.size(); }
  absl::Span<const Field> fields() const override { return from_.fields(); }
  int64_t length(int64_t index) const override { return from_.length(index); }
  absl::Status Read(int64_t index, const Example& example) const override {
    if (std::exchange(failed_[static_cast<size_t>(index)], 1) == 0) return absl::DataLossError("a damaged record");
    return from_.Read(index, example);
  }

 private:
  const SequenceDataset& from_;
  mutable std::vector<char> failed_;
};

TEST(BucketBatcher, AnErrorOfTheDatasetIsThatOfItsBatch) {
  const Steps steps({1, 2, 3, 4});
  const FailingSteps failing(*steps);
  ASSERT_OK_AND_ASSIGN(const auto input, BucketBatcher::Create(failing, {.batch_size = 2}));
  EXPECT_EQ(input->Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(input->Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(input->position(), (Position{0, 0}));
  EXPECT_TRUE(input->Next().ok());
}

TEST(BucketBatcher, SeveralCallersShareTheBatches) {
  const Steps steps = RandomSteps(97, 30);
  const auto input = Batcher(steps, {.batch_size = 7, .epochs = 5});
  std::atomic<int64_t> examples = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (auto batch = input->Next(); batch.ok(); batch = input->Next()) examples += batch->examples();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(examples, 97 * 5);
  EXPECT_EQ(input->Next().status().code(), absl::StatusCode::kOutOfRange);
  input->Cancel();
  EXPECT_EQ(input->Next().status().code(), absl::StatusCode::kCancelled);
}

TEST(BucketBatcher, SettingsTellDataApart) {
  const auto lines = [](const Steps& steps, const BucketBatcherOptions& options) {
    return *Batcher(steps, options)->Settings();
  };
  const Steps steps({3, 1, 2}), other({1, 3, 2});
  EXPECT_EQ(lines(steps, {}), lines(Steps({3, 1, 2}), {}));
  EXPECT_NE(lines(steps, {}), lines(other, {}));
  EXPECT_NE(lines(steps, {}), lines(steps, {.buckets = {2, 3}}));
  EXPECT_NE(lines(steps, {}), lines(steps, {.seed = 1}));
}

TEST(BucketBatcher, RefusesOptionsThatMakeNoBatch) {
  const Steps steps({3, 1, 2});
  const auto error = [&](const BucketBatcherOptions& options) {
    const absl::Status status = BucketBatcher::Create(*steps, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({.batch_size = 0}), HasSubstr("batch_size is 0"));
  EXPECT_THAT(error({.towers = 0}), HasSubstr("towers is 0"));
  EXPECT_THAT(error({.towers = 2, .first_tower = 2}), HasSubstr("first_tower is 2"));
  EXPECT_THAT(error({.epochs = -1}), HasSubstr("epochs is -1"));
  EXPECT_THAT(error({.batch_size = 4, .drop_remainder = true}), HasSubstr("leaves no batch of any bucket"));
  EXPECT_THAT(error({.start = {0, 1}}), HasSubstr("start is epoch 0, batch 1; an epoch has 1 batch"));
  EXPECT_THAT(error({.buckets = {2}}), HasSubstr("example 0 has the length 3"));
  EXPECT_THAT(error({.buckets = {3, int64_t{1} << 31}}), HasSubstr("the last bound of buckets is 2147483648"));
  EXPECT_THAT(error({.padding = {{"label", 1}}}), HasSubstr("padding for 'label', which is no sequence"));
  EXPECT_THAT(error({.padding = {{"what", 1}}}), HasSubstr("padding for 'what'"));
  EXPECT_THAT(error({.padding = {{"tag", 0.5}}}), HasSubstr("tag int32 [?] is 0.5, which its dtype cannot hold"));
  EXPECT_THAT(error({.padding = {{"tag", 3e9}}}), HasSubstr("which its dtype cannot hold"));
  EXPECT_THAT(error({.length_field = "tag"}), HasSubstr("two fields have the name 'tag'"));
}

TEST(FromSequences, RefusesTensorsThatDoNotFit) {
  const auto error = [](const Tensor& lengths, std::vector<TensorField> sequences, std::vector<TensorField> others) {
    const absl::Status status = FromSequences(lengths, std::move(sequences), std::move(others)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Tensor lengths = Tensor::Of<int32_t>({2, 1}), three = Tensor::Of<float>({1, 2, 3});
  const Tensor two = Tensor::Of<int32_t>({1, 2});
  EXPECT_THAT(error(three, {{"x", three}}, {}), HasSubstr("the lengths of sequences are float32 [3]"));
  EXPECT_THAT(error(Tensor::Of<int32_t>({4, -1}), {{"x", three}}, {}), HasSubstr("example 1 has the length -1"));
  EXPECT_THAT(error(lengths, {}, {{"x", two}}), HasSubstr("no field is a sequence"));
  EXPECT_THAT(error(lengths, {{"x", two}}, {}), HasSubstr("'x' is [2]; expected [3, ...], the sum of the lengths"));
  EXPECT_THAT(error(lengths, {{"x", three}}, {{"y", three}}), HasSubstr("'y' is [3]; expected [2, ...]"));
  EXPECT_THAT(error(lengths, {{"x", three}}, {{"y", two, 2}}), HasSubstr("has y 2; expected 0 to 1"));
  EXPECT_THAT(error(lengths, {{"x", three}}, {{"x", two}}), HasSubstr("two fields have the name 'x'"));
}

}  // namespace
}  // namespace belfry::data
