// A run that finds that the hardware has computed wrong.
#include <filesystem>
#include <string>

#include "framework/io/checkpoint_directory.h"
#include "tests/framework/runtime/faulty_collective.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/run_directory.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs for 20 steps with a fault in step 7, if there is one.
absl::Status RunWithFault(const std::string& directory, double recheck, bool fault) {
  std::filesystem::remove_all(directory);
  int faults = 0, steps = 0;
  const CollectiveFactory averager = [&](CollectiveSpec spec) -> absl::StatusOr<std::unique_ptr<Collective>> {
    return std::make_unique<FaultyCollective>(std::move(spec), &faults);
  };
  Experiment run("cpu:2", 16, 0.1, 3, {}, 0, {}, DType::kFloat32, averager, recheck);
  TrainerOptions options{.steps = 20, .quiet = true, .directory = directory, .checkpoint_every = 5};
  options.stop = [&] {
    faults = ++steps == 7 && fault ? 1 : 0;
    return 0;
  };
  return Trainer(*run.session, run.step, *run.input, options).Run();
}

TEST(Recheck, AFaultEndsTheRunBeforeItIsSaved) {
  const std::string directory = ::testing::TempDir() + "/recheck_test";
  EXPECT_THAT(RunWithFault(directory, 1, true),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("In step 7, which is not saved: silent corruption: all towers get the same"),
                             HasSubstr("device:CPU:1 has other bits than"), HasSubstr("step-00000005.safetensors"))));
  ASSERT_OK_AND_ASSIGN(const auto last, io::LoadLatestCheckpoint(CheckpointFolder(directory)));
  EXPECT_EQ(last.step, 5);
}

TEST(Recheck, NothingIsFoundWithoutAFault) {
  const std::string directory = ::testing::TempDir() + "/recheck_test_sound";
  for (const double recheck : {1.0, 0.2}) {
    EXPECT_EQ(RunWithFault(directory, recheck, false), absl::OkStatus());
    EXPECT_EQ(io::LoadLatestCheckpoint(CheckpointFolder(directory))->step, 20);
  }
}

}  // namespace
}  // namespace belfry::trainers
