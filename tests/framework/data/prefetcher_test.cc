#include "framework/data/prefetcher.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/in_memory.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

// `size` random images of 12 x 11 x 3 in ten classes.
std::unique_ptr<Dataset> RandomImages(FreshRandom& random, int64_t size) {
  Tensor images(DType::kUInt8, {size, 12, 11, 3}), labels(DType::kInt32, {size});
  const std::string bytes = random.Bytes(images.bytes());
  std::copy(bytes.begin(), bytes.end(), images.data<uint8_t>());
  for (int64_t i = 0; i < size; ++i) labels.data<int32_t>()[i] = static_cast<int32_t>(random.Between(0, 9));
  return FromTensors({{"image", images}, {"label", labels, 10}}).value();
}

PrefetcherOptions SmallOptions(FreshRandom& random) {
  PrefetcherOptions options;
  options.batch_size = 7;
  options.seed = random.seed();
  options.epochs = 3;
  options.images["image"] = TutorialTraining();
  options.images["image"].crop = 9;
  return options;
}

// Everything that a run produced, by batch and within it by tower.
struct Record {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  std::vector<int64_t> indices, sizes;
  bool operator==(const Record& other) const {
    return inputs == other.inputs && labels == other.labels && indices == other.indices && sizes == other.sizes;
  }
};

void Append(const Batch& batch, Record& record) {
  int64_t offset = 0;
  for (const TowerBatch& tower : batch.towers()) {
    EXPECT_EQ(tower.offset, offset);
    EXPECT_EQ(tower.fields[0].shape()[0], tower.count);
    EXPECT_EQ(tower.fields[1].shape(), (Shape{tower.count}));
    offset += tower.count;
    record.inputs.insert(record.inputs.end(), tower.fields[0].span<float>().begin(),
                         tower.fields[0].span<float>().end());
    record.labels.insert(record.labels.end(), tower.fields[1].span<int32_t>().begin(),
                         tower.fields[1].span<int32_t>().end());
  }
  EXPECT_EQ(offset, batch.examples());
  record.indices.insert(record.indices.end(), batch.indices().begin(), batch.indices().end());
  record.sizes.push_back(batch.examples());
}

Record RunToEnd(const Dataset& dataset, const PrefetcherOptions& options) {
  Record record;
  auto prefetcher = ValueOf(Prefetcher::Create(dataset, options));
  while (true) {
    auto batch = prefetcher->Next();
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().code(), StatusCode::kOutOfRange) << batch.status();
      return record;
    }
    Append(*batch, record);
  }
}

TEST(Prefetcher, GivesTheSameForAnyThreadsTowersAndDepth) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  options.threads = 0;
  const Record expected = RunToEnd(*images, options);
  EXPECT_EQ(expected.sizes, (std::vector<int64_t>{7, 7, 7, 7, 3, 7, 7, 7, 7, 3, 7, 7, 7, 7, 3}));
  for (int threads : {0, 1, 4}) {
    for (int towers : {1, 2, 3, 5}) {
      for (int depth : {1, 3, 20}) {
        options.threads = threads;
        options.towers = towers;
        options.depth = depth;
        EXPECT_EQ(RunToEnd(*images, options), expected) << threads << " threads, " << towers << " towers";
      }
    }
  }
  options.seed += 1;
  EXPECT_NE(RunToEnd(*images, options).inputs, expected.inputs);
}

TEST(Prefetcher, EachEpochHoldsEachExampleOnceInANewOrder) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  const Record record = RunToEnd(*images, options);
  ASSERT_EQ(record.indices.size(), 93u);
  const auto epoch = [&](int e) {
    return std::vector<int64_t>(record.indices.begin() + 31 * e, record.indices.begin() + 31 * (e + 1));
  };
  for (int e = 0; e < 3; ++e) {
    const std::vector<int64_t> order = epoch(e);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 31u);
  }
  EXPECT_NE(epoch(0), epoch(1));
  options.shuffle = false;
  options.drop_remainder = true;
  const Record dropped = RunToEnd(*images, options);
  ASSERT_EQ(dropped.indices.size(), 84u);
  for (int64_t i = 0; i < 84; ++i) EXPECT_EQ(dropped.indices[i], i % 28);
}

TEST(Prefetcher, HoldsWhatTheAugmenterMakes) {
  FreshRandom random;
  const auto images = RandomImages(random, 10);
  const PrefetcherOptions options = SmallOptions(random);
  ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
  EXPECT_EQ(FieldsText(prefetcher->fields()), "image float32 [9,9,3], label int32 []");
  ASSERT_OK_AND_ASSIGN(auto augmenter,
                       Augmenter::Create(images->fields()[0], options.images.at("image"), options.seed));
  std::vector<float> expected(243);
  for (int b = 0; b < 4; ++b) {
    ASSERT_OK_AND_ASSIGN(auto batch, prefetcher->Next());
    EXPECT_EQ(batch.step(), b);
    EXPECT_EQ(batch.position(), (Position{b / 2, b % 2}));
    for (int64_t i = 0; i < batch.examples(); ++i) {
      const std::vector<Tensor> example = ReadExample(*images, batch.indices()[i]).value();
      augmenter.Apply(example[0].data<uint8_t>(), b / 2, batch.indices()[i], expected.data());
      const TowerBatch& tower = batch.towers()[0];
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tower.fields[0].data<float>() + i * 243));
      EXPECT_EQ(tower.fields[1].data<int32_t>()[i], example[1].scalar<int32_t>());
    }
  }
}

TEST(Prefetcher, TowersMayGetNothingOfALastBatch) {
  FreshRandom random;
  const auto images = RandomImages(random, 9);
  PrefetcherOptions options = SmallOptions(random);
  options.towers = 4;
  ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
  const auto counts = [&] {
    std::vector<int64_t> result;
    auto batch = prefetcher->Next();
    for (const TowerBatch& tower : batch->towers()) result.push_back(tower.count);
    return result;
  };
  EXPECT_THAT(counts(), testing::ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(counts(), testing::ElementsAre(1, 1, 0, 0));
}

TEST(Prefetcher, GoesOnWhereItIsStarted) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  const Record whole = RunToEnd(*images, options);
  const int64_t taken = random.Between(0, 14);
  Record record;
  {
    ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
    for (int64_t i = 0; i < taken; ++i) {
      ASSERT_OK_AND_ASSIGN(auto batch, prefetcher->Next());
      Append(batch, record);
      EXPECT_EQ(batch.next(), prefetcher->position());
    }
    options.start = prefetcher->position();
  }
  const Record rest = RunToEnd(*images, options);
  record.inputs.insert(record.inputs.end(), rest.inputs.begin(), rest.inputs.end());
  EXPECT_EQ(record.inputs, whole.inputs) << "after " << taken;
}

TEST(Prefetcher, PassesFeaturesThrough) {
  const Tensor features = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}), targets = Tensor::Of<float>({7, 8, 9});
  const auto dataset = FromTensors({{"x", features}, {"y", targets}}).value();
  for (int threads : {0, 2}) {
    auto prefetcher =
        Prefetcher::Create(*dataset, {.batch_size = 2, .shuffle = false, .epochs = 1, .threads = threads});
    ASSERT_TRUE(prefetcher.ok()) << prefetcher.status();
    auto batch = (*prefetcher)->Next();
    ASSERT_TRUE(batch.ok());
    EXPECT_THAT(batch->towers()[0].fields[0].span<float>(), testing::ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(batch->towers()[0].fields[1].span<float>(), testing::ElementsAre(7, 8));
    batch = (*prefetcher)->Next();
    EXPECT_EQ(batch->towers()[0].fields[0].shape(), (Shape{1, 2}));
    EXPECT_THAT(batch->towers()[0].fields[0].span<float>(), testing::ElementsAre(5, 6));
    ExpectError((*prefetcher)->Next().status(), StatusCode::kOutOfRange, "end of data after 1 epoch");
  }
}

// Fields of every dtype, of any rank and of no elements; pictures without a policy stay bytes.
TEST(Prefetcher, PassesAnyFieldsThrough) {
  const Tensor tokens = Tensor::Of<int64_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 2});
  Tensor flags(DType::kBool, {5, 1, 2}), halves(DType::kBFloat16, {5});
  const Tensor pictures = Tensor::Of<uint8_t>({9, 8, 7, 6, 5}, {5, 1, 1, 1}), nothing(DType::kFloat64, {5, 0});
  for (int i = 0; i < 10; ++i) flags.data<bool>()[i] = i % 3 == 0;
  for (uint16_t i = 0; i < 5; ++i) static_cast<uint16_t*>(halves.raw())[i] = i;
  const auto dataset =
      FromTensors({{"tokens", tokens}, {"flags", flags}, {"picture", pictures}, {"nothing", nothing}, {"half", halves}})
          .value();
  auto prefetcher = Prefetcher::Create(*dataset, {.batch_size = 5, .towers = 2, .shuffle = false, .epochs = 1}).value();
  EXPECT_EQ(FieldsText(prefetcher->fields()),
            "tokens int64 [2], flags bool [1,2], picture uint8 [1,1,1], nothing float64 [0], half bfloat16 []");
  const Batch batch = prefetcher->Next().value();
  const std::vector<Tensor>& second = batch.towers()[1].fields;
  EXPECT_THAT(second[0].span<int64_t>(), testing::ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(second[1].span<bool>(), testing::ElementsAre(true, false, false, true));
  EXPECT_THAT(second[2].span<uint8_t>(), testing::ElementsAre(6, 5));
  EXPECT_EQ(second[3].shape(), (Shape{2, 0}));
  EXPECT_EQ(static_cast<const uint16_t*>(second[4].raw())[1], 4);
}

TEST(Prefetcher, BatchesOnLoanStayAsTheyAre) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  for (int threads : {0, 3}) {
    options.threads = threads;
    options.depth = 2;
    ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
    Batch held[3];
    for (Batch& batch : held) batch = std::move(prefetcher->Next()).value();
    ExpectError(prefetcher->Next().status(), StatusCode::kFailedPrecondition, "still on loan", "only 3 slots");
    const Tensor kept = held[0].towers()[0].fields[0].Clone();
    held[1].Release();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(kept.span<float>(), held[0].towers()[0].fields[0].span<float>());
    held[0].Release();
    EXPECT_TRUE(prefetcher->Next().ok());
  }
}

TEST(Prefetcher, GoesOnWhileOneBatchStaysOnLoan) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  const Record expected = RunToEnd(*images, options);
  options.depth = 1;
  for (int threads : {0, 3}) {
    options.threads = threads;
    auto prefetcher = Prefetcher::Create(*images, options).value();
    Record record;
    const Batch first = prefetcher->Next().value();
    Append(first, record);
    for (size_t i = 1; i < expected.sizes.size(); ++i) Append(prefetcher->Next().value(), record);
    EXPECT_EQ(record, expected);
    EXPECT_EQ(prefetcher->Next().status().code(), StatusCode::kOutOfRange);
  }
}

// Fails for some examples, and reads slowly.
class FaultyDataset : public Dataset {
 public:
  FaultyDataset(std::unique_ptr<Dataset> dataset, std::set<int64_t> faults)
      : dataset_(std::move(dataset)), faults_(std::move(faults)) {}
  int64_t size() const override { return dataset_->size(); }
  absl::Span<const Field> fields() const override { return dataset_->fields(); }
  absl::Status Read(int64_t index, const Example& example) const override {
    if (faults_.contains(index)) return absl::DataLossError(absl::StrCat("some.bin: record ", index, " is damaged"));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return dataset_->Read(index, example);
  }

 private:
  std::unique_ptr<Dataset> dataset_;
  std::set<int64_t> faults_;
};

TEST(Prefetcher, PassesTheFirstErrorOnAfterTheBatchesBeforeIt) {
  FreshRandom random;
  const FaultyDataset dataset(RandomImages(random, 40), {17, 19, 20, 33});
  PrefetcherOptions options = SmallOptions(random);
  options.shuffle = false;
  for (int threads : {0, 1, 4}) {
    options.threads = threads;
    ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(dataset, options));
    EXPECT_TRUE(prefetcher->Next().ok());
    EXPECT_TRUE(prefetcher->Next().ok());
    for (int i = 0; i < 3; ++i) {
      ExpectError(prefetcher->Next().status(), StatusCode::kDataLoss, "some.bin: record 17");
    }
    EXPECT_EQ(prefetcher->position(), (Position{0, 2}));
  }
}

// A decoder that throws at example 17.
class ThrowingDataset : public Dataset {
 public:
  ThrowingDataset(std::unique_ptr<Dataset> dataset, std::function<void()> fault)
      : dataset_(std::move(dataset)), fault_(std::move(fault)) {}
  int64_t size() const override { return dataset_->size(); }
  absl::Span<const Field> fields() const override { return dataset_->fields(); }
  absl::Status Read(int64_t index, const Example& example) const override {
    if (index == 17) fault_();
    return dataset_->Read(index, example);
  }

 private:
  std::unique_ptr<Dataset> dataset_;
  std::function<void()> fault_;
};

TEST(Prefetcher, AnExceptionOfTheDatasetIsAnError) {
  FreshRandom random;
  const struct {
    std::function<void()> fault;
    StatusCode code;
    const char* text;
  } kCases[] = {
      {[] { throw std::runtime_error("not a JPEG"); }, StatusCode::kInternal, "not a JPEG"},
      {[] { throw 7; }, StatusCode::kInternal, "no std::exception"},
      {[] { throw std::bad_alloc(); }, StatusCode::kResourceExhausted, ""},
  };
  for (const auto& [fault, code, text] : kCases) {
    const ThrowingDataset dataset(RandomImages(random, 40), fault);
    const char* const index = code == StatusCode::kInternal ? "example 17" : "";
    ExpectError(ReadExample(dataset, 17).status(), code, text, index);
    for (int threads : {0, 1, 4}) {
      PrefetcherOptions options = SmallOptions(random);
      options.shuffle = false;
      options.threads = threads;
      ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(dataset, options));
      absl::Status status;
      while (status.ok()) status = prefetcher->Next().status();
      ExpectError(status, code, text, index);
      EXPECT_EQ(prefetcher->Next().status(), status);
    }
  }
}

TEST(Prefetcher, CancelWakesAWaitingCaller) {
  FreshRandom random;
  const FaultyDataset dataset(RandomImages(random, 1'000), {});
  PrefetcherOptions options = SmallOptions(random);
  options.batch_size = 1'000;
  options.threads = 1;
  ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(dataset, options));
  std::thread caller([&] { EXPECT_EQ(prefetcher->Next().status().code(), StatusCode::kCancelled); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  prefetcher->Cancel();
  caller.join();
  EXPECT_EQ(prefetcher->Next().status().code(), StatusCode::kCancelled);
}

TEST(Prefetcher, StopsAtAnyMoment) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  options.epochs = 0;
  for (int i = 0; i < 60; ++i) {
    options.threads = i % 5;
    ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
    for (int b = 0; b < i % 7; ++b) EXPECT_TRUE(prefetcher->Next().ok());
  }
}

TEST(Prefetcher, SeveralCallersShareTheBatches) {
  FreshRandom random;
  const auto images = RandomImages(random, 31);
  PrefetcherOptions options = SmallOptions(random);
  options.epochs = 20;
  for (int threads : {0, 2}) {
    options.threads = threads;
    ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
    std::atomic<int64_t> examples = 0;
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&] {
        while (true) {
          auto batch = prefetcher->Next();
          if (batch.ok()) {
            examples += batch->examples();
          } else if (batch.status().code() == StatusCode::kOutOfRange) {
            return;
          } else {
            ASSERT_EQ(batch.status().code(), StatusCode::kFailedPrecondition) << batch.status();
          }
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(examples, 31 * 20);
  }
}

TEST(Prefetcher, RejectsOptionsThatMakeNoBatch) {
  FreshRandom random;
  const auto images = RandomImages(random, 5);
  const auto error = [&](PrefetcherOptions options) { return Prefetcher::Create(*images, options).status(); };
  ExpectError(error({.batch_size = 0}), StatusCode::kInvalidArgument, "batch_size is 0");
  ExpectError(error({.towers = 0}), StatusCode::kInvalidArgument, "towers is 0");
  ExpectError(error({.threads = -1}), StatusCode::kInvalidArgument, "threads is -1");
  ExpectError(error({.threads = 100'000}), StatusCode::kInvalidArgument, "threads is 100000; expected 0 to 1024");
  ExpectError(error({.depth = 0}), StatusCode::kInvalidArgument, "depth is 0");
  ExpectError(error({.depth = 1 << 30}), StatusCode::kInvalidArgument, "expected 1 to 1024");
  ExpectError(error({.batch_size = 6, .drop_remainder = true}), StatusCode::kInvalidArgument, "no batch from 5");
  ExpectError(error({.batch_size = 2, .start = {0, 3}}), StatusCode::kInvalidArgument, "batch 3", "3 batches");
  ExpectError(error({.images = {{"image", {.crop = 24}}}}), StatusCode::kInvalidArgument, "24x24");
  ExpectError(error({.images = {{"picture", {}}}}), StatusCode::kInvalidArgument, "policy for 'picture'",
              "an example has image uint8 [12,11,3], label int32 []");
  ExpectError(error({.images = {{"label", {}}}}), StatusCode::kInvalidArgument, "label int32 []");
  const auto empty = FromTensors({{"x", Tensor(DType::kFloat32, {0, 3})}}).value();
  ExpectError(Prefetcher::Create(*empty, {}).status(), StatusCode::kInvalidArgument, "no examples");
}

TEST(Prefetcher, SaysThatThereAreNoThreadsLeft) {
  FreshRandom random;
  const auto images = RandomImages(random, 5);
  pthread_attr_t former, huge;
  ASSERT_EQ(pthread_getattr_default_np(&former), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);  // of address space, more than any process has
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const absl::Status status = Prefetcher::Create(*images, {.threads = 3}).status();
  ASSERT_EQ(pthread_setattr_default_np(&former), 0);
  ExpectError(status, StatusCode::kResourceExhausted, "to read data, number 1 of 3");
}

}  // namespace
}  // namespace belfry::data
