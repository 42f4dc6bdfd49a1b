#include "trainers/callbacks/progress.h"
#include "tests/main/testing.h"

#include <limits>
#include <string>
#include <vector>

#include "trainers/callbacks/evaluation.h"

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

TEST(ProgressLine, ShortensFieldsBeforeItLeavesAnyOut) {
  const std::vector<ProgressField> fields = {{"step 10/200", 0, {"10/200"}},
                                             {"loss 2.3071", 1, {"loss 2.31"}},
                                             {"12345 +/- 678 images/s", 2, {"12345 images/s", "12.3k/s"}},
                                             {"2 towers, 62 MiB each", 3, {"2 x 62 MiB"}}};
  EXPECT_EQ(ProgressLine(fields, 71), "step 10/200  loss 2.3071  12345 +/- 678 images/s  2 towers, 62 MiB each");
  EXPECT_EQ(ProgressLine(fields, 70), "step 10/200  loss 2.3071  12345 images/s  2 towers, 62 MiB each");
  EXPECT_EQ(ProgressLine(fields, 52), "step 10/200  loss 2.3071  12345 images/s  2 x 62 MiB");
  EXPECT_EQ(ProgressLine(fields, 45), "step 10/200  loss 2.3071  12.3k/s  2 x 62 MiB");
  EXPECT_EQ(ProgressLine(fields, 39), "10/200  loss 2.31  12.3k/s  2 x 62 MiB");
  EXPECT_EQ(ProgressLine(fields, 37), "step 10/200  loss 2.3071  12.3k/s");
  EXPECT_EQ(ProgressLine(fields, 20), "10/200  loss 2.3071");
}

// The lines of all kinds of runs, at the widths of terminals less the last column.
TEST(ProgressFields, FitIntoTerminals) {
  ProgressValues values{.step = 123456, .total = 2'000'000};
  for (const char* unit : {"images", "tokens", "rows", "examples"}) {
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      for (const double loss : {2.30712, 3.5e-6, 8.384371615e27, -1234.5, std::nan("")}) {
        for (const double rate : {0.0, 3.14159, 345.6, 9999.6, 123456.7, 999'600.0, 2.5e7}) {
          values.unit = unit;
          values.loss = loss;
          values.rate = rate;
          values.error = rate / 17;
          values.left = absl::Seconds(rate > 1000 ? 3723 : 245);
          values.learning_rate = 0.0998217;
          std::vector<ProgressField> notes = {{"2 towers, 162 MiB each", 0, {"2 x 162 MiB"}}};
          if (dtype == std::string("float16")) notes.push_back({"loss scale 32768", 0, {"scale 32768"}});
          const std::vector<ProgressField> fields =
              ProgressFields(values, std::vector<Metric>{{"cross_entropy", 0.8}}, notes);
          for (const int width : {39, 79, 119}) {
            const std::string line = ProgressLine(fields, width);
            EXPECT_LE(static_cast<int>(line.size()), width) << line;
            EXPECT_THAT(line, AllOf(HasSubstr("123456/2000000"), HasSubstr("loss ")));
            if (rate > 0) {
              EXPECT_THAT(line, HasSubstr("/s"));
            }
            if (width < 79) continue;
            EXPECT_THAT(line, AllOf(HasSubstr(" lr "), testing::ContainsRegex(" ce | cross-entropy ")));
            EXPECT_THAT(line, testing::AnyOf(HasSubstr(" left"), HasSubstr(" -1:02:03"), HasSubstr(" -4:05")));
            EXPECT_THAT(line, HasSubstr(notes.size() > 1 ? "scale 32768" : "MiB"));
            if (width == 119) {
              EXPECT_THAT(line, HasSubstr("MiB"));
            }
          }
        }
      }
    }
  }
}

TEST(ProgressFields, AtFortyColumns) {
  const ProgressValues values{.step = 1200,
                              .total = 2000,
                              .loss = 2.30712,
                              .learning_rate = 0.0998,
                              .rate = 12345,
                              .error = 67,
                              .unit = "tokens",
                              .left = absl::Seconds(245)};
  const std::vector<Metric> parts = {{"cross_entropy", 0.8}};
  const std::vector<ProgressField> fields = ProgressFields(values, parts, {});
  EXPECT_EQ(ProgressLine(fields, 39), "1200/2000  loss 2.3071  12.3k/s  -4:05");
  EXPECT_EQ(ProgressLine(fields, 79), "step 1200/2000  loss 2.3071  ce 0.8000  lr 0.0998  12345 tokens/s  4:05 left");
}

// Returns the text that a run prints into a file.
std::string Shown(int64_t steps, double loss, const std::vector<Metric>& parts,
                  const std::vector<ProgressField>& notes) {
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
  EXPECT_EQ(Shown(1, 2.5, {{"cross_entropy", 0.8}}, {{"2 towers"}}),
            "step 0/1  loss 2.5000  cross-entropy 0.8000  lr 0.1  2 towers\n");
  EXPECT_EQ(Shown(1, 1e-40, {}, {}), "step 0/1  loss 1e-40  lr 0.1\n");
  const std::string text = Shown(5, 3.5e-6, {}, {});
  EXPECT_THAT(text, AllOf(HasSubstr("step 0/5  loss 3.5e-06  lr 0.1\n"), HasSubstr(" images/s  0:00 left\n"),
                          Not(HasSubstr("?"))));
}

}  // namespace
}  // namespace belfry::trainers
