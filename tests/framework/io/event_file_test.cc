#include "framework/io/event_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <vector>

#include "tests/framework/io/event_testing.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// All whole records, or the error.
absl::StatusOr<std::vector<std::string>> Records(const std::string& file, bool* truncated = nullptr) {
  RecordReader reader(file);
  std::vector<std::string> records;
  while (true) {
    auto record = reader.Next();
    if (!record.ok()) return record.status();
    if (!*record) break;
    records.emplace_back(**record);
  }
  if (truncated != nullptr) *truncated = reader.truncated();
  return records;
}

TEST(EventFile, ARecordIsAsTensorFlowWritesIt) {
  EXPECT_EQ(FrameRecord("abc"), FromHex("0300000000000000b099490e6162636e57f121"));
}

TEST(EventFile, WritesAndReadsBack) {
  const TemporaryFolder folder;
  FreshRandom random;
  std::vector<std::string> written = {"", "a"};
  for (int i = 0; i < 20; ++i) written.push_back(random.Bytes(static_cast<size_t>(random.Between(0, 3'000))));
  ASSERT_OK_AND_ASSIGN(auto writer, RecordWriter::Create(folder / "file"));
  for (const std::string& record : written) ASSERT_TRUE(writer.Write(record).ok());
  ASSERT_TRUE(writer.Sync().ok());
  const std::string file = Contents(folder / "file");
  EXPECT_EQ(writer.size(), file.size());
  EXPECT_EQ(Records(file).value(), written);
}

TEST(EventFile, NeverOverwrites) {
  const TemporaryFolder folder;
  ASSERT_TRUE(RecordWriter::Create(folder / "file").ok());
  EXPECT_EQ(RecordWriter::Create(folder / "file").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(RecordWriter::Create(folder / "no/file").status().code(), absl::StatusCode::kNotFound);
}

TEST(EventFile, EveryTruncationKeepsTheWholeRecords) {
  const std::string first = FrameRecord("first"), second = FrameRecord("the second"), file = first + second;
  for (size_t size = 0; size <= file.size(); ++size) {
    SCOPED_TRACE(size);
    bool truncated = false;
    ASSERT_OK_AND_ASSIGN(const auto records, Records(file.substr(0, size), &truncated));
    EXPECT_EQ(records.size(), size < first.size() ? 0u : size < file.size() ? 1u : 2u);
    EXPECT_EQ(truncated, size != 0 && size != first.size() && size != file.size());
  }
}

TEST(EventFile, EveryFlippedBitIsFound) {
  const std::string first = FrameRecord("first"), file = first + FrameRecord("the second");
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    SCOPED_TRACE(bit);
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(Records(flipped).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(bit / 8 < first.size() ? "at byte 0" : "at byte 21")));
  }
}

TEST(EventFile, AnEnormousLengthIsAPartialRecord) {
  std::string file = FromHex("ffffffffffffffff");
  // The checksum that a writer would have stored for this length.
  file += FrameRecord(file).substr(12 + 8, 4);
  bool truncated = false;
  EXPECT_THAT(Records(file + "abcdefgh", &truncated).value(), ElementsAre());
  EXPECT_TRUE(truncated);
}

TEST(EventFile, AnyBytesAreSafe) {
  FreshRandom random;
  for (int i = 0; i < 2'000; ++i) Records(random.Bytes(static_cast<size_t>(random.Between(0, 60)))).IgnoreError();
}

// Limits the size of this process's files, as if the disk were full.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = signal(SIGXFSZ, SIG_IGN);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  sighandler_t handler_;
};

TEST(EventFile, AFullDiskLeavesWholeRecordsAndMayRecover) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(auto writer, RecordWriter::Create(folder / "file"));
  ASSERT_TRUE(writer.Write("before").ok());
  for (const rlim_t room : {0, 1, 12, 100}) {
    const SizeLimit limit(writer.size() + room);
    EXPECT_THAT(writer.Write(std::string(1'000, 'x')),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(folder / "file")));
  }
  ASSERT_TRUE(writer.Write("after").ok());
  EXPECT_THAT(Records(Contents(folder / "file")).value(), ElementsAre("before", "after"));
}

TEST(EventFile, ADiskThatStaysFullFailsEachTime) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(auto writer, RecordWriter::Create(folder / "file"));
  const SizeLimit limit(0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(writer.Write("x").code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace belfry::io
