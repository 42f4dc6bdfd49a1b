#include "trainers/prediction/trace_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/io/trace_file.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

absl::Time At(int64_t microseconds) { return absl::FromUnixMicros(microseconds); }

TEST(ParseKernelTimes, TakesMediansOfTheSpansOfKernels) {
  io::TraceFile file;
  const int row = file.AddRow("GPU:0", "compute stream");
  for (const int64_t duration : {7, 2, 3}) file.AddSpan(row, "conv1", "kernel", At(100), At(100 + duration));
  file.AddSpan(row, "relu", "kernel", At(200), At(211));
  file.AddSpan(row, "average", "communication", At(300), At(400));
  const auto times = ParseKernelTimes(file.ToJson());
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 2u);
  EXPECT_NEAR(times->at("conv1"), 3e-6, 1e-12);
  EXPECT_NEAR(times->at("relu"), 11e-6, 1e-12);
}

TEST(ParseKernelTimes, RefusesWhatIsNoTrace) {
  for (const char* text : {"", "{", "[]", "3", "{}", "{\"traceEvents\": 3}"}) {
    EXPECT_THAT(ParseKernelTimes(text).status().message(), HasSubstr("no trace")) << text;
  }
  for (const char* events : {"", "3", "{}", "{\"cat\": \"kernel\"}", "{\"cat\": \"kernel\", \"name\": 3, \"dur\": 1}",
                             "{\"cat\": \"kernel\", \"name\": \"a\", \"dur\": \"1\"}",
                             "{\"cat\": \"kernel\", \"name\": \"a\", \"dur\": -1}"}) {
    EXPECT_THAT(ParseKernelTimes(std::string("{\"traceEvents\": [") + events + "]}").status().message(),
                HasSubstr("no spans of kernels"))
        << events;
  }
}

TEST(ReadKernelTimes, NamesTheFile) {
  EXPECT_THAT(ReadKernelTimes("/nowhere/trace.json").status().message(), HasSubstr("/nowhere/trace.json"));
}

}  // namespace
}  // namespace belfry
