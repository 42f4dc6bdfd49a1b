#include "framework/io/summary_writer.h"

#include <unistd.h>

#include <cstdio>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/framework/io/event_reader.h"
#include "tests/framework/io/event_testing.h"

namespace belfry::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<SummaryWriter> OpenIn(const std::string& directory) { return ValueOf(SummaryWriter::Open(directory)); }

TEST(SummaryWriter, WritesEventsInOrder) {
  const TemporaryFolder folder;
  const auto writer = OpenIn(folder / "made/for/it");
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->WriteGraph("a graph").ok());
  ASSERT_TRUE(writer->WriteStart(100).ok());
  ASSERT_TRUE(writer->WriteScalar(100, "loss", 0.5).ok());
  ASSERT_TRUE(writer->Write(101, Summary()).ok());
  Summary summary;
  summary.AddScalar("loss", 0.25);
  summary.AddHistogram("weights", Histogram(Tensor::Of<float>({1, 2, 3})));
  ASSERT_TRUE(summary.AddImages("input", Tensor::Zeros(DType::kUInt8, {2, 4, 5, 3}), 1).ok());
  ASSERT_TRUE(writer->Write(200, summary).ok());
  ASSERT_TRUE(writer->Sync().ok());

  // Everything is readable while the writer is still open.
  ASSERT_OK_AND_ASSIGN(const auto file, ReadEventFile(writer->path()));
  EXPECT_FALSE(file.truncated);
  ASSERT_EQ(file.events.size(), 5u);
  EXPECT_EQ(file.events[0].file_version, "brain.Event:2");
  EXPECT_GT(file.events[0].wall_time, 1.6e9);
  EXPECT_EQ(file.events[1].graph_def, "a graph");
  EXPECT_TRUE(file.events[2].start);
  EXPECT_EQ(file.events[2].step, 100);
  EXPECT_FALSE(file.events[3].start);
  ASSERT_EQ(file.events[3].values.size(), 1u);
  EXPECT_EQ(std::get<float>(file.events[3].values[0].value), 0.5f);
  const Event& last = file.events[4];
  EXPECT_EQ(last.step, 200);
  EXPECT_GE(last.wall_time, file.events[3].wall_time);
  ASSERT_EQ(last.values.size(), 3u);
  EXPECT_EQ(last.values[0].tag, "loss");
  EXPECT_EQ(std::get<HistogramValue>(last.values[1].value).sum, 6);
  const auto& image = std::get<ImageValue>(last.values[2].value);
  EXPECT_EQ(last.values[2].tag, "input/image");
  EXPECT_THAT((std::vector<int>{image.height, image.width, image.channels}), ElementsAre(4, 5, 3));
}

TEST(SummaryWriter, EachHasAFileThatTensorBoardRecognises) {
  const TemporaryFolder folder;
  const auto first = OpenIn(folder.path()), second = OpenIn(folder.path());
  EXPECT_NE(first->path(), second->path());
  EXPECT_THAT(first->path(), HasSubstr(folder / "events.out.tfevents."));
}

TEST(SummaryWriter, ThreadsDoNotMix) {
  const TemporaryFolder folder;
  const auto writer = OpenIn(folder.path());
  constexpr int kThreads = 4, kEvents = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < kEvents; ++i) {
        EXPECT_TRUE(writer->WriteScalar(i, absl::StrCat("thread", t, std::string(i, 'x')), t).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK_AND_ASSIGN(const auto file, ReadEventFile(writer->path()));
  std::set<std::string> tags;
  for (const Event& event : file.events) {
    for (const SummaryValue& value : event.values) tags.insert(value.tag);
  }
  EXPECT_EQ(tags.size(), size_t{kThreads * kEvents});
}

TEST(SummaryWriter, ADirectoryThatCannotBeIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(SummaryWriter::Open(folder / "file/below").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(folder / "file/below")));
}

// The output of a command, and true if it succeeded.
std::pair<std::string, bool> Output(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text.push_back(static_cast<char>(c));
  return {text, pclose(pipe) == 0};
}

TEST(SummaryWriter, TensorBoardsReaderReadsIt) {
  if (!Output("python3 -c 'import tensorboard'").second) GTEST_SKIP() << "python3 has no module tensorboard here";
  const TemporaryFolder folder;
  {
    const auto writer = OpenIn(folder.path());
    Summary summary;
    summary.AddScalar("loss", 0.25);
    summary.AddHistogram("weights", Histogram(Tensor::Of<float>({-1, 2, 3})));
    ASSERT_TRUE(summary.AddImages("input", Tensor::Zeros(DType::kUInt8, {4, 5, 3}), 1).ok());
    ASSERT_TRUE(writer->Write(7, summary).ok());
  }
  std::ofstream(folder / "read.py") << R"py(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
scalar = events.Scalars('loss')[0]
print('loss', scalar.step, scalar.value)
histogram = events.Histograms('weights')[0].histogram_value
print('weights', histogram.min, histogram.max, histogram.num, histogram.sum)
image = events.Images('input/image')[0]
print('input', image.width, image.height, image.encoded_image_string[1:4])
)py";
  const auto [text, succeeded] = Output(absl::StrCat("python3 ", folder / "read.py", " ", folder.path()));
  ASSERT_TRUE(succeeded) << text;
  EXPECT_THAT(text, HasSubstr("loss 7 0.25\n"));
  EXPECT_THAT(text, HasSubstr("weights -1.0 3.0 3.0 4.0\n"));
  EXPECT_THAT(text, HasSubstr("input 5 4 b'PNG'\n"));
}

}  // namespace
}  // namespace belfry::io
