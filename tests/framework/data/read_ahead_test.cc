#include "framework/data/read_ahead.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/sequences/bucket_batcher.h"
#include "tests/main/testing.h"

namespace belfry::data {
namespace {

using ::testing::ElementsAre;

// Batches of the number of the batch, each in new memory, up to a last one.
class Numbers : public BatchSource {
 public:
  explicit Numbers(int64_t count, absl::Status end = absl::OutOfRangeError("no more")) : count_(count), end_(end) {}
  ~Numbers() override { EXPECT_EQ(lent_, 0); }
  absl::Span<const Field> fields() const override { return fields_; }
  int64_t batch_size() const override { return 1; }
  int towers() const override { return 1; }
  int local_towers() const override { return 1; }
  absl::StatusOr<Batch> Next() override {
    if (next_ == count_) return end_;
    Made& made = *made_.emplace_back(std::make_unique<Made>());
    made.tower = {.fields = {Tensor::Of<int64_t>({next_})}, .count = 1};
    made.towers = absl::MakeConstSpan(&made.tower, 1);
    made.examples = 1;
    made.indices = {next_};
    made.position = {0, next_};
    made.next = {0, next_ + 1};
    made.step = next_++;
    ++lent_;
    return Batch(*this, made);
  }
  Position position() const override { return {0, next_}; }
  void PutPosition(Position next, io::Metadata& metadata) const override { metadata["at"] = absl::StrCat(next.batch); }
  absl::Status Resume(const io::Metadata& saved) override {
    EXPECT_EQ(lent_, 0);
    int64_t at;
    if (!absl::SimpleAtoi(saved.at("at"), &at) || at > count_)
      return absl::InvalidArgumentError("there is no such batch");
    next_ = at;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> Settings() const override { return std::vector<std::string>{"numbers"}; }

 private:
  struct Made : BatchContents {
    TowerBatch tower;
  };
  void GiveBack(BatchContents& contents) override {
    static_cast<Made&>(contents).tower.fields[0].data<int64_t>()[0] = -1;
    --lent_;
  }
  const std::vector<Field> fields_ = {{"number", DType::kInt64, {}}};
  const int64_t count_;
  const absl::Status end_;
  std::vector<std::unique_ptr<Made>> made_;
  int64_t next_ = 0;
  int lent_ = 0;
};

int64_t NumberIn(const Batch& batch) { return batch.towers()[0].fields[0].data<int64_t>()[0]; }

std::unique_ptr<ReadAhead> Ahead(BatchSource& source, int depth = 3) {
  return ValueOf(ReadAhead::Create(source, depth));
}

TEST(ReadAhead, GivesTheBatchesOfItsSourceInOrder) {
  for (const int depth : {1, 3, 40}) {
    Numbers numbers(20);
    const auto ahead = Ahead(numbers, depth);
    EXPECT_EQ(ahead->position(), (Position{0, 0}));
    for (int64_t i = 0; i < 20; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto batch, ahead->Next());
      EXPECT_EQ(NumberIn(batch), i);
      EXPECT_THAT(batch.indices(), ElementsAre(i));
      EXPECT_EQ(batch.examples(), 1);
      EXPECT_EQ(batch.position(), (Position{0, i}));
      EXPECT_EQ(batch.next(), (Position{0, i + 1}));
      EXPECT_EQ(batch.step(), i);
      EXPECT_EQ(ahead->position(), (Position{0, i + 1}));
    }
    for (int i = 0; i < 2; ++i) EXPECT_EQ(ahead->Next().status(), absl::OutOfRangeError("no more"));
  }
}

TEST(ReadAhead, ErrorsComeAfterTheBatchesBefore) {
  Numbers numbers(2, absl::DataLossError("a damaged record"));
  const auto ahead = Ahead(numbers);
  EXPECT_EQ(NumberIn(*ahead->Next()), 0);
  EXPECT_EQ(NumberIn(*ahead->Next()), 1);
  EXPECT_EQ(ahead->Next().status(), absl::DataLossError("a damaged record"));
}

TEST(ReadAhead, BatchesOnLoanStayAsTheyAre) {
  Numbers numbers(30);
  const auto ahead = Ahead(numbers, 2);
  std::vector<Batch> kept;
  for (int64_t i = 0; i < 30; ++i) {
    ASSERT_OK_AND_ASSIGN(auto batch, ahead->Next());
    if (i % 3 == 0) kept.push_back(std::move(batch));
  }
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(NumberIn(kept[i]), static_cast<int64_t>(3 * i));
}

TEST(ReadAhead, ResumesElsewhere) {
  Numbers numbers(20);
  const auto ahead = Ahead(numbers);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(ahead->Next().ok());
  io::Metadata metadata;
  ahead->PutPosition({0, 17}, metadata);
  {
    const auto batch = ahead->Next();
    EXPECT_EQ(ahead->Resume(metadata).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(NumberIn(*ahead->Next()), 6);
  ASSERT_TRUE(ahead->Resume(metadata).ok());
  EXPECT_EQ(ahead->position(), (Position{0, 17}));
  for (int64_t i = 17; i < 20; ++i) EXPECT_EQ(NumberIn(*ahead->Next()), i);
  EXPECT_EQ(ahead->Next().status().code(), absl::StatusCode::kOutOfRange);
  metadata["at"] = "3";  // also after the end
  ASSERT_TRUE(ahead->Resume(metadata).ok());
  EXPECT_EQ(NumberIn(*ahead->Next()), 3);
  metadata["at"] = "99";
  EXPECT_EQ(ahead->Resume(metadata).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ahead->Next().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReadAhead, IsWhatItsSourceIs) {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 50; ++i) lengths.push_back(i % 20);
  int64_t total = 0;
  for (const int32_t length : lengths) total += length;
  const auto dataset =
      FromSequences(Tensor::Of<int32_t>(lengths, {50}), {{"x", Tensor::Zeros(DType::kFloat32, {total})}});
  ASSERT_TRUE(dataset.ok());
  const BucketBatcherOptions options{.batch_size = 8, .towers = 2, .epochs = 2};
  const auto source = BucketBatcher::Create(**dataset, options), same = BucketBatcher::Create(**dataset, options);
  ASSERT_TRUE(source.ok() && same.ok());
  const auto ahead = Ahead(**source);
  EXPECT_EQ(FieldsText(ahead->fields()), FieldsText((*same)->fields()));
  EXPECT_EQ(ahead->shapes(), (*same)->shapes());
  EXPECT_EQ(ahead->batches_per_epoch(), (*same)->batches_per_epoch());
  EXPECT_EQ(ahead->towers(), 2);
  EXPECT_EQ(*ahead->Settings(), *(*same)->Settings());
  int64_t batches = 0;
  for (auto expected = (*same)->Next(); expected.ok(); expected = (*same)->Next()) {
    ASSERT_OK_AND_ASSIGN(const auto batch, ahead->Next());
    EXPECT_EQ(batch.indices(), expected->indices());
    EXPECT_EQ(batch.towers()[1].fields[1].ToDoubles(), expected->towers()[1].fields[1].ToDoubles());
    ++batches;
  }
  EXPECT_EQ(batches, 2 * ahead->batches_per_epoch());
}

TEST(ReadAhead, RefusesADepthThatCannotBe) {
  Numbers numbers(1);
  EXPECT_EQ(ReadAhead::Create(numbers, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadAhead::Create(numbers, 1025).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace belfry::data
