#include "trainers/loop/progress.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainers/loop/evaluation.h"

namespace belfry::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<ProgressField> kFields = {
    {"step 123456/2000000"}, {"loss 2.3071", 1},           {"lr 0.09982", 4},      {"12345 +/- 678 images/s", 2},
    {"1:02:03 left", 3},     {"2 towers, 62 MiB each", 8}, {"loss scale 32768", 7}};

TEST(ProgressLine, KeepsToTheTerminal) {
  EXPECT_EQ(
      ProgressLine(kFields, 200),
      "step 123456/2000000  loss 2.3071  lr 0.09982  12345 +/- 678 images/s  1:02:03 left  2 towers, 62 MiB each  "
      "loss scale 32768");
  EXPECT_EQ(ProgressLine(kFields, 119),
            "step 123456/2000000  loss 2.3071  lr 0.09982  12345 +/- 678 images/s  1:02:03 left  loss scale 32768");
  EXPECT_EQ(ProgressLine(kFields, 79), "step 123456/2000000  loss 2.3071  12345 +/- 678 images/s  1:02:03 left");
  EXPECT_EQ(ProgressLine(kFields, 39), "step 123456/2000000  loss 2.3071");
  EXPECT_EQ(ProgressLine(kFields, 10), "step 12345");
  for (int width = 0; width < 200; ++width) {
    EXPECT_LE(ProgressLine(kFields, width).size(), static_cast<size_t>(width));
  }
}

TEST(ProgressLine, LeavesOutEmptyFields) {
  EXPECT_EQ(ProgressLine({{"step 1/2"}, {"", 1}, {"lr 1", 2}}, 80), "step 1/2  lr 1");
  EXPECT_EQ(ProgressLine({}, 80), "");
}

// Returns the text that a run prints into a file.
std::string Shown(int64_t steps, double loss, const std::vector<std::string>& parts,
                  const std::vector<std::string>& notes) {
  testing::internal::CaptureStdout();
  Progress progress({.total = steps, .unit = "images"});
  for (int64_t step = 0; step < steps; ++step) {
    progress.Step(64);
    if (step == 0 || step + 1 == steps) progress.Show(step, loss, 0.1, parts, notes);
  }
  progress.Finish();
  return testing::internal::GetCapturedStdout();
}

TEST(ShortNumber, KeepsFourDigitsOfAnySize) {
  EXPECT_EQ(ShortNumber(0), "0.0000");
  EXPECT_EQ(ShortNumber(-2.30259), "-2.3026");
  EXPECT_EQ(ShortNumber(3.5e-6), "3.5e-06");
  EXPECT_EQ(ShortNumber(8.384371615e27), "8.384e+27");
  EXPECT_EQ(ShortNumber(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Progress, SaysOnlyWhatIsKnown) {
  EXPECT_EQ(Shown(1, 2.5, {"cross-entropy 0.8000"}, {"2 towers"}),
            "step 0/1  loss 2.5000  cross-entropy 0.8000  lr 0.1  2 towers\n");
  EXPECT_EQ(Shown(1, 1e-40, {}, {}), "step 0/1  loss 1e-40  lr 0.1\n");
  const std::string text = Shown(5, 3.5e-6, {}, {});
  EXPECT_THAT(text, AllOf(HasSubstr("step 0/5  loss 3.5e-06  lr 0.1\n"), HasSubstr(" images/s  0:00 left\n"),
                          Not(HasSubstr("?"))));
}

}  // namespace
}  // namespace belfry::trainers
