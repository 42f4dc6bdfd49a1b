#include "tests/framework/io/event_reader.h"

#include "framework/io/event_file.h"
#include "tests/framework/io/event_testing.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string WholeFile() {
  std::string file;
  for (const char* hex : {kVersionHex, kStartHex, kGraphHex, kSummaryHex, kTensorValueHex}) {
    file += FrameRecord(FromHex(hex));
  }
  return file;
}

TEST(EventReader, ReadsWhatTensorBoardsClassesWrote) {
  ASSERT_OK_AND_ASSIGN(const auto file, ParseEventFile(WholeFile()));
  ASSERT_EQ(file.events.size(), 5u);
  EXPECT_EQ(file.events[0].file_version, "brain.Event:2");
  EXPECT_EQ(file.events[0].wall_time, 1.5);
  EXPECT_TRUE(file.events[1].start);
  EXPECT_EQ(file.events[1].step, 9);
  EXPECT_EQ(file.events[2].graph_def, "gd");
  const Event& summary = file.events[3];
  EXPECT_EQ(summary.step, 7);
  ASSERT_EQ(summary.values.size(), 3u);
  EXPECT_EQ(summary.values[0].tag, "a");
  EXPECT_EQ(std::get<float>(summary.values[0].value), 2.5f);
  const auto& histogram = std::get<HistogramValue>(summary.values[1].value);
  EXPECT_THAT((std::vector<double>{histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares}),
              ElementsAre(-1, 3, 4, 5, 15));
  EXPECT_THAT(histogram.limits, ElementsAre(-2, 1, 4));
  EXPECT_THAT(histogram.counts, ElementsAre(0, 1, 3));
  const auto& image = std::get<ImageValue>(summary.values[2].value);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.png, "png");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(file.events[4].values[0].value));
}

TEST(EventReader, EveryTruncationGivesTheWholeEvents) {
  const std::string file = WholeFile();
  size_t events = 0;
  for (size_t size = 0; size <= file.size(); ++size) {
    const auto part = ParseEventFile(file.substr(0, size));
    ASSERT_TRUE(part.ok()) << size << ": " << part.status();
    if (!part->truncated && size > 0) ++events;
    EXPECT_EQ(part->events.size(), events);
  }
  EXPECT_EQ(events, 5u);
}

TEST(EventReader, EveryFlippedByteIsFound) {
  const std::string file = WholeFile();
  for (size_t i = 0; i < file.size(); ++i) {
    std::string flipped = file;
    flipped[i] = static_cast<char>(~flipped[i]);
    EXPECT_EQ(ParseEventFile(flipped).status().code(), absl::StatusCode::kDataLoss) << i;
  }
}

// Data that was wrong before it was written has good checksums.
TEST(EventReader, AnyRecordIsAnEventOrDataLoss) {
  FreshRandom random;
  const std::string seeds[] = {FromHex(kSummaryHex), FromHex(kStartHex), FromHex(kTensorValueHex), ""};
  int errors = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = seeds[i % 4].empty() ? random.Bytes(static_cast<size_t>(random.Between(0, 40))) : seeds[i % 4];
    for (int64_t change = random.Between(0, 3); change > 0 && !bytes.empty(); --change) {
      bytes[static_cast<size_t>(random.Between(0, static_cast<int64_t>(bytes.size()) - 1))] =
          static_cast<char>(random.Between(0, 255));
    }
    bytes.resize(static_cast<size_t>(random.Between(0, static_cast<int64_t>(bytes.size()))));
    const absl::Status status = ParseEventFile(FrameRecord(bytes)).status();
    errors += status.ok() ? 0 : 1;
    ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss) << status;
  }
  EXPECT_GT(errors, 100);
}

TEST(EventReader, BucketsWithoutLimitsAreDataLoss) {
  // summary { value { histo { bucket: 1 } } }
  EXPECT_THAT(ParseEventFile(FrameRecord(FromHex("2a0e0a0c2a0a3a08000000000000f03f"))).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("1 buckets and 0 limits")));
}

TEST(EventReader, AFileThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  const absl::Status missing = ReadEventFile(folder / "missing").status();
  EXPECT_THAT(missing, StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder / "missing")));
  EXPECT_EQ(ReadEventFile(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(folder / "bad") << std::string(30, 'x');
  const absl::Status bad = ReadEventFile(folder / "bad").status();
  EXPECT_THAT(bad, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(folder / "bad")));
}

}  // namespace
}  // namespace belfry::io
