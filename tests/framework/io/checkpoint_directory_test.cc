#include "framework/io/checkpoint_directory.h"

#include <sys/stat.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class CheckpointDirectoryTest : public testing::Test {
 protected:
  CheckpointDirectory Open(const CheckpointDirectoryOptions& options = {}) {
    return ValueOf(CheckpointDirectory::Open(path_, options));
  }
  // A checkpoint whose only tensor holds its step.
  absl::Status Save(CheckpointDirectory& directory, int64_t step, std::optional<double> value = std::nullopt) {
    std::optional<Metric> metric;
    if (value.has_value()) metric = Metric{name_, *value, larger_is_better_};
    return directory.Save(step, {{"step", Tensor::Scalar(step)}}, {{"by", absl::StrCat("step ", step)}}, metric);
  }
  void SaveAll(CheckpointDirectory& directory, std::initializer_list<std::pair<int64_t, double>> steps_and_metrics) {
    for (const auto& [step, metric] : steps_and_metrics) ASSERT_EQ(Save(directory, step, metric), absl::OkStatus());
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const CheckpointFile& file : ValueOf(ListCheckpoints(path_))) steps.push_back(file.step);
    return steps;
  }
  int64_t LatestStep() { return StepIn(LoadLatestCheckpoint(path_)); }
  int64_t BestStep() { return StepIn(LoadBestCheckpoint(path_)); }
  static int64_t StepIn(const absl::StatusOr<Checkpoint>& checkpoint) {
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (!checkpoint.ok()) return -1;
    EXPECT_EQ(checkpoint->tensors.at(0).value.scalar<int64_t>(), checkpoint->step);
    return checkpoint->step;
  }
  // Changes the last byte, which belongs to a tensor.
  void Damage(const std::string& name) {
    std::string bytes = Contents(folder_ / ("checkpoints/" + name));
    bytes.back() ^= 1;
    folder_.Write("checkpoints/" + name, bytes);
  }

  std::string name_ = "accuracy";  // of the metric
  bool larger_is_better_ = true;
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "checkpoints";
};

TEST_F(CheckpointDirectoryTest, AMetricOfAnyMagnitudeComesBack) {
  CheckpointDirectory directory = Open();
  for (const double value : {1e-310, 1e-40, 1.0 / 3, 1e300}) {
    ASSERT_EQ(Save(directory, 12, value), absl::OkStatus());
    EXPECT_EQ(ValueOf(LoadCheckpointOfStep(path_, 12)).metric->value, value);
  }
}

TEST_F(CheckpointDirectoryTest, ACheckpointComesBack) {
  CheckpointDirectory directory = Open();
  ASSERT_EQ(directory.Save(12, {{"w", Tensor::Of<float>({1, 2})}}, {{"seed", "3"}}, Metric{"loss", 0.1}),
            absl::OkStatus());
  for (const auto& loaded : {LoadLatestCheckpoint(path_), LoadBestCheckpoint(path_), LoadCheckpointOfStep(path_, 12),
                             LoadCheckpoint(path_ + "/step-00000012.safetensors"), LoadCheckpoint(path_ + "/latest")}) {
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->step, 12);
    ASSERT_TRUE(loaded->metric.has_value());
    EXPECT_EQ(loaded->metric->value, 0.1);
    EXPECT_EQ(loaded->metric->name, "loss");
    EXPECT_FALSE(loaded->metric->larger_is_better);
    EXPECT_EQ(loaded->metadata, (Metadata{{"seed", "3"}}));
    ASSERT_EQ(loaded->tensors.size(), 1u);
    EXPECT_THAT(loaded->tensors[0].value.span<float>(), ElementsAre(1, 2));
  }
  EXPECT_EQ(ValueOf(LoadLatestCheckpoint(path_)).path, path_ + "/step-00000012.safetensors");
}

TEST_F(CheckpointDirectoryTest, TheLatestAndTheBestAreKept) {
  CheckpointDirectory directory = Open({.keep_latest = 2, .keep_best = 2});
  SaveAll(directory, {{10, 0.5}, {20, 0.9}, {30, 0.7}, {40, 0.1}, {50, 0.2}, {60, NAN}});
  EXPECT_THAT(Steps(), ElementsAre(20, 30, 50, 60));
  EXPECT_EQ(LatestStep(), 60);
  EXPECT_EQ(BestStep(), 20);
  EXPECT_THAT(ValueOf(FindBest(path_)), testing::HasSubstr("step-00000020.safetensors"));
  ASSERT_EQ(Save(directory, 70), absl::OkStatus());
  ASSERT_EQ(Save(directory, 80, 0.9), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(20, 70, 80));
  EXPECT_EQ(BestStep(), 20) << "of equals the earlier counts";
}

TEST_F(CheckpointDirectoryTest, ALossIsBestWhenItIsSmall) {
  CheckpointDirectory directory = Open({.keep_latest = 1, .keep_best = 1});
  larger_is_better_ = false;
  SaveAll(directory, {{1, NAN}, {2, INFINITY}, {3, 0.5}, {4, 0.25}, {5, 0.75}, {6, NAN}});
  EXPECT_THAT(Steps(), ElementsAre(4, 6));
  EXPECT_EQ(BestStep(), 4);
}

TEST_F(CheckpointDirectoryTest, MetricsOfOtherNamesAreNotCompared) {
  CheckpointDirectory directory = Open({.keep_latest = 2});
  SaveAll(directory, {{1, 0.9}, {2, 0.5}});
  name_ = "loss";
  larger_is_better_ = false;
  SaveAll(directory, {{3, 7.5}});
  EXPECT_EQ(BestStep(), 3);
  SaveAll(directory, {{4, 8.5}});
  ASSERT_EQ(Save(directory, 5), absl::OkStatus());
  EXPECT_EQ(BestStep(), 3);
  EXPECT_THAT(ValueOf(FindBest(path_)), testing::HasSubstr("step-00000003.safetensors"));
  EXPECT_THAT(Steps(), ElementsAre(3, 4, 5)) << "the best accuracy is old, and no longer the best";
}

TEST_F(CheckpointDirectoryTest, NoMetricMeansNoBest) {
  CheckpointDirectory directory = Open({.keep_latest = 1});
  ASSERT_EQ(Save(directory, 1), absl::OkStatus());
  ASSERT_EQ(Save(directory, 2, NAN), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_EQ(ValueOf(FindBest(path_)), "");
  ExpectError(LoadBestCheckpoint(path_).status(), StatusCode::kNotFound, path_,
              "no checkpoint in this folder has a metric");
}

TEST_F(CheckpointDirectoryTest, NumbersAreOrderedAsNumbers) {
  CheckpointDirectory directory = Open({.keep_latest = 9});
  SaveAll(directory, {{9, 0}, {100'000'000'000, 0}, {10, 0}});
  fs::rename(path_ + "/step-00000009.safetensors", path_ + "/step-9.safetensors");
  EXPECT_THAT(Steps(), ElementsAre(9, 10, 100'000'000'000));
  EXPECT_EQ(StepIn(LoadCheckpointOfStep(path_, 9)), 9);
  ASSERT_EQ(Save(directory, 9, 1), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(9, 10, 100'000'000'000)) << "one of two spellings is left";
  EXPECT_FALSE(fs::exists(path_ + "/step-9.safetensors"));
  ExpectError(LoadCheckpointOfStep(path_, 11).status(), StatusCode::kNotFound, "step 11", "9, 10, 100000000000");
}

TEST_F(CheckpointDirectoryTest, ARunThatGoesBackKeepsWhatItSaves) {
  CheckpointDirectory directory = Open({.keep_latest = 3, .keep_best = 0});
  SaveAll(directory, {{80, 0}, {90, 0}, {100, 0}});
  SaveAll(directory, {{50, 0}});
  EXPECT_EQ(LatestStep(), 50);
  EXPECT_THAT(Steps(), ElementsAre(50, 90, 100));
  SaveAll(directory, {{60, 0}, {70, 0}});
  EXPECT_THAT(Steps(), ElementsAre(50, 60, 70));
}

TEST_F(CheckpointDirectoryTest, OtherFilesAreLeftAlone) {
  fs::create_directories(path_ + "/step-1.safetensors");
  const std::vector<std::string> others = {
      "step-.safetensors", "step-1x.safetensors", "step--1.safetensors", "step-1.safetensors.bak",
      "model.safetensors", "latest.1.tmp",        "notes.1.2.tmp",       "step-99999999999999999999.safetensors"};
  for (const std::string& name : others) folder_.Write("checkpoints/" + name, "mine");
  const std::vector<std::string> leftovers = {"step-00000003.safetensors.77.0.tmp", "latest.1.2.tmp", "best.1.2.tmp"};
  for (const std::string& name : leftovers) folder_.Write("checkpoints/" + name, "half");
  CheckpointDirectory directory = Open({.keep_latest = 1});
  for (const std::string& name : leftovers) EXPECT_FALSE(fs::exists(path_ + "/" + name)) << name;
  SaveAll(directory, {{1, 0}, {2, 0.1}, {3, 0.2}});
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(path_ + "/" + name)) << name;
  EXPECT_TRUE(fs::is_directory(path_ + "/step-1.safetensors"));
  EXPECT_THAT(Steps(), ElementsAre(3));
}

TEST_F(CheckpointDirectoryTest, TheNewestWholeOneCountsWhenTheLatestIsDamaged) {
  CheckpointDirectory directory = Open();
  SaveAll(directory, {{1, 0.9}, {2, 0.1}, {3, 0.2}});
  Damage("step-00000003.safetensors");
  testing::internal::CaptureStdout();
  EXPECT_EQ(LatestStep(), 2);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::AllOf(testing::HasSubstr("step 2"), testing::HasSubstr("tensor 'step' is damaged")));
  fs::remove(path_ + "/step-00000003.safetensors");
  EXPECT_EQ(LatestStep(), 2) << "a link that leads nowhere";
  fs::remove(path_ + "/latest");
  EXPECT_EQ(LatestStep(), 2) << "no link";
  folder_.Write("checkpoints/step-00000002.safetensors", "");
  EXPECT_EQ(LatestStep(), 1);
  ASSERT_EQ(Save(directory, 4), absl::OkStatus());
  EXPECT_EQ(BestStep(), 1);
  Damage("step-00000001.safetensors");
  Damage("step-00000004.safetensors");
  ExpectError(LoadLatestCheckpoint(path_).status(), StatusCode::kDataLoss, path_, "none", "step-00000001",
              "step-00000002", "step-00000004");
  ExpectError(LoadBestCheckpoint(path_).status(), StatusCode::kDataLoss, "step-00000001");
}

TEST_F(CheckpointDirectoryTest, TheLatestMayBeACopyInsteadOfALink) {
  CheckpointDirectory directory = Open();
  SaveAll(directory, {{1, 0}, {2, 0}});
  fs::remove(path_ + "/latest");
  fs::copy(path_ + "/step-00000001.safetensors", path_ + "/latest");
  EXPECT_EQ(LatestStep(), 1);
}

TEST_F(CheckpointDirectoryTest, WhatIsNoFileInThePlaceOfTheLatestIsPassedOver) {
  CheckpointDirectory directory = Open();
  SaveAll(directory, {{1, 0}, {2, 0}});
  const std::string latest = path_ + "/latest";
  fs::remove(latest);
  ASSERT_EQ(mkfifo(latest.c_str(), 0600), 0);
  EXPECT_EQ(LatestStep(), 2);
  fs::remove(latest);
  fs::create_directory(latest);
  EXPECT_EQ(LatestStep(), 2);
  fs::remove(latest);
  fs::create_symlink("latest", latest);
  EXPECT_EQ(LatestStep(), 2);
}

TEST_F(CheckpointDirectoryTest, LinksToCheckpointsThatAreGoneAreNamed) {
  CheckpointDirectory directory = Open();
  SaveAll(directory, {{1, 0}});
  fs::remove(path_ + "/step-00000001.safetensors");
  testing::internal::CaptureStdout();
  EXPECT_EQ(LoadLatestCheckpoint(path_).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::AllOf(testing::HasSubstr("latest leads to step-00000001.safetensors, which does not exist"),
                             testing::HasSubstr("best leads to")));
}

TEST_F(CheckpointDirectoryTest, NothingToLoadIsAnErrorThatSaysSo) {
  ExpectError(LoadLatestCheckpoint(path_).status(), StatusCode::kNotFound, path_);
  ExpectError(ListCheckpoints(path_).status(), StatusCode::kNotFound, path_);
  fs::create_directory(path_);
  ExpectError(LoadLatestCheckpoint(path_).status(), StatusCode::kNotFound, path_, "no checkpoints");
  ExpectError(LoadCheckpointOfStep(path_, 1).status(), StatusCode::kNotFound, "step 1", "none");
  ASSERT_EQ(WriteSafetensors(path_ + "/file", {{"w", Tensor::Scalar(1.0f)}}), absl::OkStatus());
  ExpectError(LoadCheckpoint(path_ + "/file").status(), StatusCode::kInvalidArgument, "belfry.step");
}

TEST_F(CheckpointDirectoryTest, WhereNothingCanBeWrittenIsAnError) {
  folder_.Write("file", "");
  const auto open = [&](const std::string& path) { return CheckpointDirectory::Open(path).status(); };
  ExpectError(open(folder_ / "file"), StatusCode::kNotFound, folder_ / "file", "Not a directory");
  ExpectError(open(folder_ / "file/below"), StatusCode::kNotFound, folder_ / "file/below", "Not a directory");
  ExpectError(open("/proc/checkpoints"), StatusCode::kNotFound, "/proc/checkpoints");
  ExpectError(open(""), StatusCode::kInvalidArgument, "empty");
  CheckpointDirectory directory = Open();
  fs::remove_all(path_);
  ExpectError(Save(directory, 1), StatusCode::kNotFound, path_, "No such file");
}

TEST_F(CheckpointDirectoryTest, WhatCannotBeSavedIsAnError) {
  ExpectError(CheckpointDirectory::Open(path_, {.keep_latest = 0}).status(), StatusCode::kInvalidArgument,
              "keep_latest");
  ExpectError(CheckpointDirectory::Open(path_, {.keep_best = -1}).status(), StatusCode::kInvalidArgument, "keep_best");
  CheckpointDirectory directory = Open();
  ExpectError(Save(directory, -1), StatusCode::kInvalidArgument, "step -1");
  ExpectError(directory.Save(1, {}, {}, Metric{"", 0.5}), StatusCode::kInvalidArgument, "step 1 has no name");
  for (const char* key : {"belfry.step", "belfry.metric", "belfry.metric_name", "belfry.metric_better"}) {
    ExpectError(directory.Save(1, {}, {{key, "1"}}), StatusCode::kInvalidArgument, key);
  }
  EXPECT_THAT(Steps(), ElementsAre());
}

TEST_F(CheckpointDirectoryTest, AFolderHasOneWriter) {
  {
    CheckpointDirectory first = Open();
    ExpectError(CheckpointDirectory::Open(path_).status(), StatusCode::kFailedPrecondition, path_, "another training");
    CheckpointDirectory moved = std::move(first);
    ExpectError(CheckpointDirectory::Open(path_).status(), StatusCode::kFailedPrecondition, path_);
    ASSERT_EQ(Save(moved, 1), absl::OkStatus());
  }
  CheckpointDirectory next = Open();
  EXPECT_EQ(LatestStep(), 1);
}

// Found at the start, not at the first save.
TEST(CheckpointDirectory, RefusesAFolderInThePlaceOfALink) {
  for (const char* name : {"latest", "best"}) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / name);
    EXPECT_THAT(CheckpointDirectory::Open(folder.path(), {}).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr(folder / name)));
  }
}

}  // namespace
}  // namespace belfry::io
