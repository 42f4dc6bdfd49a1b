#include "trainers/datasets/cifar10.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "framework/data/augment.h"
#include "framework/data/image_statistics.h"
#include "tests/trainers/datasets/random_records.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

void ExpectHolds(const Dataset& dataset, const std::string& bytes) {
  ASSERT_EQ(dataset.size() * kCifar10RecordBytes, static_cast<int64_t>(bytes.size()));
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::vector<Tensor> example = ReadExample(dataset, i).value();
    const char* record = bytes.data() + i * kCifar10RecordBytes;
    EXPECT_EQ(example[1].scalar<int32_t>(), record[0]);
    EXPECT_EQ(Planes(example[0]), std::string(record + 1, kCifar10RecordBytes - 1)) << "record " << i;
  }
}

class Cifar10Test : public testing::Test {
 protected:
  FreshRandom random_;
  TemporaryFolder folder_;
};

TEST_F(Cifar10Test, ReadsAllFilesInOrder) {
  const std::string first = RandomRecords(random_, 3), second = RandomRecords(random_, 3);
  const std::string test = RandomRecords(random_, 2);
  folder_.Write("data_batch_1.bin", first);
  folder_.Write("data_batch_2.bin", second);
  folder_.Write("test_batch.bin", test);
  ASSERT_OK_AND_ASSIGN(const auto cifar10, OpenCifar10(folder_.path()));
  ExpectHolds(*cifar10.train, first + second);
  ExpectHolds(*cifar10.test, test);
  EXPECT_EQ(FieldsText(cifar10.train->fields()), "image uint8 [32,32,3], label int32 []");
  EXPECT_EQ(cifar10.train->fields()[1].categories, 10);
  EXPECT_TRUE(cifar10.train->fields()[1].category_names.empty());
}

TEST_F(Cifar10Test, FindsTheUnpackedArchiveAndItsClassNames) {
  std::filesystem::create_directory(folder_ / "cifar-10-batches-bin");
  folder_.Write("cifar-10-batches-bin/data_batch_1.bin", RandomRecords(random_, 1));
  folder_.Write("cifar-10-batches-bin/test_batch.bin", RandomRecords(random_, 1));
  folder_.Write("cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\r\nd\ne\nf\ng\nh\ni\nj\n\n");
  ASSERT_OK_AND_ASSIGN(const auto cifar10, OpenCifar10(folder_.path()));
  EXPECT_THAT(cifar10.test->fields()[1].category_names,
              testing::ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  folder_.Write("cifar-10-batches-bin/batches.meta.txt", "a\nb\n");
  ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kDataLoss, "batches.meta.txt", "2 class names");
}

TEST_F(Cifar10Test, NamesWhatIsMissing) {
  ExpectError(OpenCifar10(folder_ / "nowhere").status(), StatusCode::kNotFound, "nowhere", "no such directory");
  ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kNotFound, folder_.path(), "holds nothing",
              "data_batch_1.bin");
  folder_.Write("data_batch_1.bin", RandomRecords(random_, 1));
  ExpectError(OpenCifar10(folder_ / "data_batch_1.bin").status(), StatusCode::kNotFound, "not a directory");
  ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kNotFound, "test_batch.bin", "no such file");
  folder_.Write("test_batch.bin", RandomRecords(random_, 1));
  folder_.Write("data_batch_4.bin", RandomRecords(random_, 1));
  ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kNotFound, "data_batch_2.bin", "data_batch_4.bin");
  ExpectError(OpenCifar10File(folder_ / "test_batch_2.bin").status(), StatusCode::kNotFound, "test_batch_2.bin");
}

TEST_F(Cifar10Test, TrainingFilesHoldAsManyRecords) {
  folder_.Write("test_batch.bin", RandomRecords(random_, 1));
  for (int cut : {1, 2, 3}) {
    for (int i = 1; i <= 3; ++i) {
      folder_.Write("data_batch_" + std::to_string(i) + ".bin", RandomRecords(random_, i == cut ? 2 : 5));
    }
    ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kDataLoss,
                "data_batch_" + std::to_string(cut) + ".bin: holds 2 records, but data_batch_", ".bin holds 5");
  }
  // The last file of a generated set holds whatever remains.
  folder_.Write("textures.txt", "");
  EXPECT_TRUE(OpenCifar10(folder_.path()).ok());
}

TEST_F(Cifar10Test, TestFileOfTheRealSetHasItsSize) {
  const std::string records(10'000 * kCifar10RecordBytes, '\0');
  for (int i = 1; i <= 5; ++i) folder_.Write("data_batch_" + std::to_string(i) + ".bin", records);
  folder_.Write("test_batch.bin", records.substr(0, 9'000 * kCifar10RecordBytes));
  ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kDataLoss, "test_batch.bin: holds 9000 records",
              "10000");
  folder_.Write("test_batch.bin", records);
  EXPECT_TRUE(OpenCifar10(folder_.path()).ok());
}

TEST_F(Cifar10Test, WarnsOfMissingFiles) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"}) {
    folder_.Write(name, RandomRecords(random_, 2));
  }
  const auto warnings = [&] {
    std::ostringstream text;
    const auto former = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    const auto set = OpenCifar10(folder_.path());
    spdlog::set_default_logger(former);
    EXPECT_TRUE(set.ok()) << set.status();
    return text.str();
  };
  EXPECT_THAT(warnings(),
              testing::HasSubstr("no data_batch_3.bin, data_batch_4.bin, data_batch_5.bin; training on 2 of the 5"));
  for (int i = 3; i <= 5; ++i) folder_.Write("data_batch_" + std::to_string(i) + ".bin", RandomRecords(random_, 2));
  EXPECT_EQ(warnings(), "");
}

TEST_F(Cifar10Test, NamesTheRecordThatIsCutShort) {
  const int64_t records = random_.Between(0, 4), rest = random_.Between(1, kCifar10RecordBytes - 1);
  folder_.Write("file.bin", RandomRecords(random_, records + 1).substr(0, records * kCifar10RecordBytes + rest));
  ExpectError(OpenCifar10File(folder_ / "file.bin").status(), StatusCode::kDataLoss, "file.bin",
              "record " + std::to_string(records) + " ends after " + std::to_string(rest) + " bytes", "3073");
  folder_.Write("empty.bin", "");
  ExpectError(OpenCifar10File(folder_ / "empty.bin").status(), StatusCode::kDataLoss, "empty.bin", "empty", "3073");
}

TEST_F(Cifar10Test, NamesTheRecordWithALabelOutOfRange) {
  std::string bytes = RandomRecords(random_, 5);
  const int64_t record = random_.Between(0, 4), label = random_.Between(10, 255);
  bytes[record * kCifar10RecordBytes] = static_cast<char>(label);
  folder_.Write("data_batch_1.bin", RandomRecords(random_, 1));
  folder_.Write("data_batch_2.bin", bytes);
  folder_.Write("test_batch.bin", RandomRecords(random_, 1));
  ExpectError(OpenCifar10(folder_.path()).status(), StatusCode::kDataLoss, "data_batch_2.bin",
              "record " + std::to_string(record), "label " + std::to_string(label), "0 to 9");
}

TEST(RealCifar10, HasItsKnownSizesAndStatistics) {
  const char* directory = std::getenv("BELFRY_CIFAR10");
  if (directory == nullptr) GTEST_SKIP() << "BELFRY_CIFAR10 does not name a directory with the real data";
  ASSERT_OK_AND_ASSIGN(const auto cifar10, OpenCifar10(directory));
  EXPECT_EQ(cifar10.train->size(), 50'000);
  EXPECT_EQ(cifar10.test->size(), 10'000);
  std::vector<int> counts(10);
  for (int64_t i = 0; i < cifar10.test->size(); ++i) {
    ++counts[ReadExample(*cifar10.test, i).value()[1].scalar<int32_t>()];
  }
  EXPECT_THAT(counts, testing::Each(1'000));
  ASSERT_OK_AND_ASSIGN(const auto statistics, ComputeChannelStatistics(*cifar10.train));
  // The published numbers, with a margin for copies of the set whose images went through a lossy format.
  const float means[] = {0.4914f, 0.4822f, 0.4465f}, deviations[] = {0.2470f, 0.2435f, 0.2616f};
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(statistics.mean[c] / 255, means[c], 3e-3);
    EXPECT_NEAR(statistics.deviation[c] / 255, deviations[c], 3e-3);
  }
}

TEST_F(Cifar10Test, DoesNotReadAFileThatIsTooLarge) {
  const TemporaryFolder folder;
  folder.Write("data_batch_1.bin", "");
  std::filesystem::resize_file(folder / "data_batch_1.bin", 3'000'000 * kCifar10RecordBytes);  // 9 GB of holes
  ExpectError(OpenCifar10File(folder / "data_batch_1.bin").status(), absl::StatusCode::kResourceExhausted,
              "data_batch_1.bin", "more than the limit");
}

}  // namespace
}  // namespace belfry::data
