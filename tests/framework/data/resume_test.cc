#include "framework/data/resume.h"

#include <set>
#include <vector>

#include "framework/data/in_memory.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

constexpr int64_t kExamples = 23;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    const std::string bytes = random_.Bytes(kExamples * 12 * 11 * 3);
    Tensor images(DType::kUInt8, {kExamples, 12, 11, 3}), labels(DType::kInt32, {kExamples});
    std::copy(bytes.begin(), bytes.end(), images.data<uint8_t>());
    for (int32_t i = 0; i < kExamples; ++i) labels.data<int32_t>()[i] = i % 10;
    dataset_ = FromTensors({{"image", images}, {"label", labels, 10}}).value();
    options_ = {.batch_size = 7, .seed = random_.seed(), .epochs = 3, .images = {{"image", TutorialTraining()}}};
    options_.images["image"].crop = 9;
  }

  struct Seen {
    std::vector<float> inputs;
    std::vector<int64_t> indices;
  };
  // All examples from now on, batch by batch, with the towers' parts one after the other.
  std::vector<Seen> Run(const PrefetcherOptions& options) {
    auto prefetcher = Prefetcher::Create(*dataset_, options);
    EXPECT_TRUE(prefetcher.ok()) << prefetcher.status();
    return prefetcher.ok() ? Rest(**prefetcher) : std::vector<Seen>();
  }
  std::vector<Seen> Rest(Prefetcher& prefetcher) {
    std::vector<Seen> batches;
    next_.clear();
    for (auto batch = prefetcher.Next(); batch.ok(); batch = prefetcher.Next()) {
      Seen& seen = batches.emplace_back();
      seen.indices.assign(batch->indices().begin(), batch->indices().end());
      for (const TowerBatch& tower : batch->towers()) {
        const auto inputs = tower.fields[0].span<float>();
        seen.inputs.insert(seen.inputs.end(), inputs.begin(), inputs.end());
      }
      next_.push_back(batch->next());
    }
    return batches;
  }

  FreshRandom random_;
  std::unique_ptr<Dataset> dataset_;
  PrefetcherOptions options_;
  std::vector<Position> next_;  // after each batch of the last Run
};

TEST_F(ResumeTest, MovesToASavedPositionBitForBit) {
  const std::vector<Seen> whole = Run(options_);
  const std::vector<Position> next = next_;
  for (size_t done = 1; done <= whole.size(); ++done) {
    io::Metadata metadata;
    PutPosition(options_, kExamples, next[done - 1], metadata);
    PrefetcherOptions again = options_;
    again.threads = static_cast<int>(done % 3);
    const auto prefetcher = ValueOf(Prefetcher::Create(*dataset_, again));
    // It may have made some, and be making others.
    for (size_t taken = 0; taken < done % 5; ++taken) ASSERT_TRUE(prefetcher->Next().ok());
    ASSERT_TRUE(prefetcher->Resume(metadata).ok());
    EXPECT_EQ(prefetcher->position(), next[done - 1]);
    const std::vector<Seen> rest = Rest(*prefetcher);
    ASSERT_EQ(rest.size(), whole.size() - done);
    for (size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].indices, whole[done + i].indices);
      EXPECT_TRUE(rest[i].inputs == whole[done + i].inputs) << "after " << done << " batches";
    }
  }
}

TEST_F(ResumeTest, DoesNotMoveWhileABatchIsOnLoanOrToOtherData) {
  io::Metadata metadata;
  PutPosition(options_, kExamples, {1, 2}, metadata);
  const auto prefetcher = ValueOf(Prefetcher::Create(*dataset_, options_));
  Batch batch = ValueOf(prefetcher->Next());
  ExpectError(prefetcher->Resume(metadata), StatusCode::kFailedPrecondition, "on loan");
  batch.Release();
  EXPECT_TRUE(prefetcher->Resume(metadata).ok());
  metadata["data.seed"] = "12345";
  ExpectError(prefetcher->Resume(metadata), StatusCode::kFailedPrecondition, "data.seed");
  EXPECT_EQ(prefetcher->position(), (Position{1, 2}));
}

TEST_F(ResumeTest, GoesOnBitForBitWithAnyNumberOfTowers) {
  for (const bool drop_remainder : {false, true}) {
    options_.drop_remainder = drop_remainder;
    const std::vector<Seen> whole = Run(options_);
    const std::vector<Position> next = next_;
    ASSERT_EQ(whole.size(), drop_remainder ? 9u : 12u);
    for (size_t done = 1; done <= whole.size(); ++done) {
      io::Metadata metadata;
      PutPosition(options_, kExamples, next[done - 1], metadata);
      PrefetcherOptions again = options_;
      again.towers = static_cast<int>(done % 4) + 1;
      again.threads = static_cast<int>(done % 3);
      again.start = ValueOf(TakePosition(metadata, again, kExamples));
      const std::vector<Seen> rest = Run(again);
      ASSERT_EQ(rest.size(), whole.size() - done);
      for (size_t i = 0; i < rest.size(); ++i) {
        EXPECT_EQ(rest[i].indices, whole[done + i].indices);
        EXPECT_TRUE(rest[i].inputs == whole[done + i].inputs) << "after " << done << " batches";
      }
    }
  }
}

TEST_F(ResumeTest, WhatChangesTheBatchesIsFound) {
  io::Metadata metadata = {{"other", "kept"}};
  options_.seed = 5;
  PutPosition(options_, kExamples, {2, 1}, metadata);
  EXPECT_EQ(metadata["other"], "kept");
  EXPECT_EQ(ValueOf(TakePosition(metadata, options_, kExamples)), (Position{2, 1}));
  const auto with = [&](auto change, int64_t examples = kExamples) {
    PrefetcherOptions changed = options_;
    change(changed);
    return TakePosition(metadata, changed, examples).status();
  };
  const auto code = StatusCode::kFailedPrecondition;
  ExpectError(with([](auto& o) { o.seed = 6; }), code, "data.seed", "5", "6");
  ExpectError(with([](auto& o) { o.batch_size = 8; }), code, "data.batch_size", "7", "8");
  ExpectError(with([](auto& o) { o.shuffle = false; }), code, "data.shuffle", "true", "false");
  ExpectError(with([](auto& o) { o.drop_remainder = true; }), code, "data.drop_remainder");
  ExpectError(with([](auto&) {}, 24), code, "data.examples", "23", "24");
  ExpectError(with([](auto& o) { o.batch_size = 0; }), StatusCode::kInvalidArgument, "batch_size is 0");
}

TEST_F(ResumeTest, APositionThatIsNoneIsAnError) {
  io::Metadata whole;
  PutPosition(options_, kExamples, {0, 3}, whole);
  for (const auto& entry : whole) {
    io::Metadata without = whole;
    without.erase(entry.first);
    ExpectError(TakePosition(without, options_, kExamples).status(), StatusCode::kInvalidArgument, entry.first);
  }
  const auto with = [&](const char* key, const char* value) {
    io::Metadata metadata = whole;
    metadata[key] = value;
    return TakePosition(metadata, options_, kExamples).status();
  };
  ExpectError(with("data.epoch", "-1"), StatusCode::kInvalidArgument, "data.epoch", "-1");
  ExpectError(with("data.batch", "x"), StatusCode::kInvalidArgument, "data.batch", "x");
  ExpectError(with("data.batch", "4"), StatusCode::kInvalidArgument, "batch 4", "has 4");
  ExpectError(with("data.batch_size", "0"), StatusCode::kInvalidArgument, "data.batch_size");
  ExpectError(with("data.batch_size", "9223372036854775807"), StatusCode::kInvalidArgument, "has 1");
}

TEST_F(ResumeTest, AnotherBatchSizeSkipsNothing) {
  options_.epochs = 1;
  const std::vector<Seen> whole = Run(options_);
  const std::vector<Position> next = next_;
  for (const int64_t other : {1, 3, 5, 8, 14, 23, 100}) {
    for (size_t done = 1; done + 1 < whole.size(); ++done) {
      io::Metadata metadata;
      PutPosition(options_, kExamples, next[done - 1], metadata);
      PrefetcherOptions again = options_;
      again.batch_size = other;
      again.start = ValueOf(TakePosition(metadata, again, kExamples, {.allow_other_batch_size = true}));
      std::multiset<int64_t> seen;
      for (size_t i = 0; i < done; ++i) seen.insert(whole[i].indices.begin(), whole[i].indices.end());
      for (const Seen& batch : Run(again)) seen.insert(batch.indices.begin(), batch.indices.end());
      EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), static_cast<size_t>(kExamples)) << other;
      EXPECT_LT(seen.size(), kExamples + static_cast<size_t>(other)) << other;
    }
  }
  options_.drop_remainder = true;
  io::Metadata metadata;
  PutPosition(options_, kExamples, {4, 2}, metadata);
  options_.batch_size = 12;
  EXPECT_EQ(ValueOf(TakePosition(metadata, options_, kExamples, {.allow_other_batch_size = true})), (Position{5, 0}));
}

}  // namespace
}  // namespace belfry::data
