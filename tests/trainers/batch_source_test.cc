#include "framework/data/batch_source.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/functions.h"
#include "framework/io/checkpoint_directory.h"
#include "ops/formula.h"
#include "ops/math.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/run_directory.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kExamples = 6, kBatches = 9;

// A stream of points of a line, made as they are asked for, for two towers. It has no epochs.
class Stream : public data::BatchSource {
 public:
  // `of_first`: the examples that it says the first tower has; RangeOfTower says half of them.
  Stream(int64_t first, int64_t of_first) : next_(first) {
    for (data::TowerBatch& tower : towers_) {
      tower.count = kExamples / 2;
      for (const data::Field& field : fields_) tower.fields.emplace_back(field.dtype, Shape{tower.count});
    }
    towers_[0].count = of_first;
    towers_[1].offset = kExamples / 2;
  }
  absl::Span<const data::Field> fields() const override { return fields_; }
  int64_t batch_size() const override { return kExamples; }
  int towers() const override { return 2; }
  int local_towers() const override { return 2; }
  absl::StatusOr<data::Batch> Next() override {
    EXPECT_FALSE(lent_);
    if (next_ == kBatches) return absl::OutOfRangeError("the stream has ended");
    for (int64_t i = 0; i < kExamples; ++i) {
      const float x = static_cast<float>((next_ * kExamples + i) * 37 % 11) / 11;
      towers_[i / 3].fields[0].data<float>()[i % 3] = x;
      towers_[i / 3].fields[1].data<float>()[i % 3] = 2 * x + 1;
    }
    contents_ = {
        .towers = towers_, .examples = kExamples, .position = {0, next_}, .next = {0, next_ + 1}, .step = next_};
    ++next_;
    lent_ = true;
    return data::Batch(*this, contents_);
  }
  data::Position position() const override { return {0, next_}; }
  void PutPosition(data::Position next, io::Metadata& metadata) const override {
    metadata["stream.next"] = absl::StrCat(next.batch);
  }
  absl::StatusOr<std::vector<std::string>> Settings() const override { return std::vector<std::string>{"a stream"}; }

 private:
  void GiveBack(data::BatchContents& contents) override {
    EXPECT_EQ(&contents, &contents_);
    lent_ = false;
  }
  const std::vector<data::Field> fields_ = {{"x", DType::kFloat32, {}}, {"y", DType::kFloat32, {}}};
  std::vector<data::TowerBatch> towers_{2};
  data::BatchContents contents_;
  int64_t next_;
  bool lent_ = false;
};

// Fits a line to the batches. Returns the last loss.
absl::StatusOr<double> Fit(data::BatchSource& source, int64_t steps, const std::string& directory,
                           const ResumeOptions& resume) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:2", {.cpu_threads = 1}));
  Graph graph(BuiltinOps());
  const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    const Variable slope = GetVariable(tower, "slope", {}, ConstantInitializer(0));
    const Variable base = GetVariable(tower, "base", {}, ConstantInitializer(0));
    return Mean(SquaredDifference(batch["x"] * slope + base, batch["y"]));
  };
  const models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, source, model,
                                                         optim::Momentum({.learning_rate = 0.05, .momentum = 0.9}));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  Trainer trainer(*session, step, source, {.steps = steps, .quiet = true, .directory = directory, .resume = resume});
  RETURN_IF_ERROR(trainer.Run());
  return trainer.loss();
}

absl::StatusOr<double> Train(int64_t steps, const std::string& directory, const io::Checkpoint* resume,
                             int64_t of_first = kExamples / 2) {
  const int64_t first = resume == nullptr ? 0 : std::stoll(resume->metadata.at("stream.next"));
  Stream stream(first, of_first);
  return Fit(stream, steps, directory, {.checkpoint = resume});
}

TEST(BatchSource, OfOnesOwnTrainsAndResumes) {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole", parts = folder / "parts";
  ASSERT_OK_AND_ASSIGN(const auto loss, Train(kBatches, whole, nullptr));
  EXPECT_LT(loss, 2);  // 4.4 at first
  ASSERT_TRUE(Train(4, parts, nullptr).ok());
  const io::Checkpoint checkpoint = io::LoadLatestCheckpoint(CheckpointFolder(parts)).value();
  EXPECT_EQ(checkpoint.metadata.at("stream.next"), "4");
  ASSERT_OK_AND_ASSIGN(const auto resumed, Train(kBatches, parts, &checkpoint));
  EXPECT_EQ(resumed, loss);
}

TEST(BatchSource, OfAGeneratorTrainsAndResumes) {
  const TemporaryFolder folder;
  const auto train = [](int64_t steps, const std::string& directory) -> absl::StatusOr<double> {
    int64_t made = 0;
    ASSIGN_OR_RETURN(const auto line, data::FromGenerator({{"x"}, {"y"}}, {.batch_size = kExamples, .towers = 2},
                                                          [&](const data::Example& example) {
                                                            const float x = static_cast<float>(made++ * 37 % 11) / 11;
                                                            *example.field<float>(0) = x;
                                                            *example.field<float>(1) = 2 * x + 1;
                                                            return made <= kBatches * kExamples;
                                                          }));
    return Fit(*line, steps, directory, {.latest = true});
  };
  // The same examples as the stream's above.
  ASSERT_OK_AND_ASSIGN(const auto stream, Train(kBatches, "", nullptr));
  ASSERT_OK_AND_ASSIGN(const auto whole, train(kBatches, folder / "whole"));
  EXPECT_EQ(whole, stream);
  ASSERT_TRUE(train(4, folder / "parts").ok());
  ASSERT_OK_AND_ASSIGN(const auto resumed, train(kBatches, folder / "parts"));
  EXPECT_EQ(resumed, whole);
  EXPECT_TRUE(absl::IsOutOfRange(train(kBatches + 1, folder / "parts").status()));
}

TEST(BatchSource, AnotherSplitOfItsBatchesIsAnError) {
  const auto loss = Train(1, "", nullptr, /*of_first=*/2);
  EXPECT_TRUE(absl::IsInvalidArgument(loss.status())) << loss.status();
  EXPECT_THAT(
      loss.status().message(),
      testing::HasSubstr("gave tower 0 of 2 2 examples of a batch of 6, but data::RangeOfTower, by which batches "
                         "are split, says 3"));
}

TEST(BatchSource, ItsEndIsAnErrorOfTheRun) {
  const auto loss = Train(kBatches + 1, "", nullptr);
  EXPECT_TRUE(absl::IsOutOfRange(loss.status())) << loss.status();
  EXPECT_THAT(loss.status().message(), testing::HasSubstr("the stream has ended"));
}

}  // namespace
}  // namespace belfry::trainers
