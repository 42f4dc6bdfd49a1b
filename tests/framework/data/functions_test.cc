#include "framework/data/functions.h"

#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "framework/data/prefetcher.h"
#include "framework/data/ring/batch_ring.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

// Numbers 0, 1, 2, ... as "n", and twice as much in both elements of "pair", up to `end`.
Generator Count(int64_t end, int64_t first = 0) {
  return [end, next = first](const Example& example) mutable {
    if (next == end) return false;
    example.field<int64_t>(0)[0] = next;
    example.field<float>(1)[0] = example.field<float>(1)[1] = 2 * static_cast<float>(next);
    ++next;
    return true;
  };
}

const std::vector<Field>& CountFields() {
  static const auto* const fields = new std::vector<Field>{{"n", DType::kInt64}, {"pair", DType::kFloat32, {2}}};
  return *fields;
}

// The numbers in the parts of a batch: "0 1 | 2" for two towers.
std::string MadeNumbers(const Batch& batch) {
  std::vector<std::string> parts;
  for (const TowerBatch& tower : batch.towers()) {
    const absl::Span<const int64_t> numbers = tower.fields[0].span<int64_t>();
    parts.push_back(absl::StrJoin(numbers, " "));
    for (int64_t i = 0; i < tower.count; ++i) {
      EXPECT_EQ(tower.fields[1].data<float>()[2 * i], 2 * numbers[i]);
      EXPECT_EQ(batch.indices()[tower.offset + i], numbers[i]);
    }
  }
  return absl::StrJoin(parts, " | ");
}

std::string NextMade(BatchSource& source) {
  const absl::StatusOr<Batch> batch = source.Next();
  return batch.ok() ? MadeNumbers(*batch) : batch.status().ToString();
}

class GeneratorTest : public testing::TestWithParam<int> {};  // depth

TEST_P(GeneratorTest, GivesWhatItMakesInItsOrder) {
  ASSERT_OK_AND_ASSIGN(const auto source,
                       FromGenerator(CountFields(), {.batch_size = 5, .towers = 2, .depth = GetParam()}, Count(12)));
  EXPECT_EQ(NextMade(*source), "0 1 2 | 3 4");
  EXPECT_EQ(NextMade(*source), "5 6 7 | 8 9");
  EXPECT_EQ(NextMade(*source), "10 | 11") << "what was made before the end";
  for (int i = 0; i < 2; ++i) {
    ExpectError(source->Next().status(), StatusCode::kOutOfRange, "the generator has ended after 12 examples");
  }
}

TEST_P(GeneratorTest, HasEpochs) {
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      FromGenerator(CountFields(), {.batch_size = 4, .examples_per_epoch = 7, .depth = GetParam()}, Count(kEndless)));
  EXPECT_EQ(source->batches_per_epoch(), 2);
  EXPECT_EQ(source->last_batch_size(), 3);
  EXPECT_EQ(NextMade(*source), "0 1 2 3");
  EXPECT_EQ(NextMade(*source), "4 5 6");
  ASSERT_OK_AND_ASSIGN(const Batch batch, source->Next());
  EXPECT_EQ(MadeNumbers(batch), "7 8 9 10");
  EXPECT_EQ(batch.position(), (Position{1, 0}));
  EXPECT_EQ(batch.step(), 2);
}

// A batch that the end cuts short is split over the towers of all processes anew.
TEST_P(GeneratorTest, ProcessesHaveThePartsOfOne) {
  for (int towers = 1; towers <= 3; ++towers) {
    SCOPED_TRACE(towers);
    std::vector<std::unique_ptr<BatchSource>> processes;
    for (int i = 0; i < towers; ++i) {
      processes.push_back(ValueOf(FromGenerator(
          CountFields(), {.batch_size = 7, .towers = towers, .first_tower = i, .local_towers = 1, .depth = GetParam()},
          Count(17))));
    }
    ASSERT_OK_AND_ASSIGN(
        const auto one,
        FromGenerator(CountFields(), {.batch_size = 7, .towers = towers, .depth = GetParam()}, Count(17)));
    for (int step = 0; step < 4; ++step) {
      std::vector<std::string> parts;
      for (const auto& process : processes) parts.push_back(NextMade(*process));
      if (step == 3) {
        EXPECT_THAT(parts, testing::Each(NextMade(*one)));
      } else {
        EXPECT_EQ(absl::StrJoin(parts, " | "), NextMade(*one));
      }
    }
  }
}

TEST_P(GeneratorTest, GoesOnWhereItStopped) {
  for (const int64_t epoch : {0, 7}) {
    const GeneratorOptions options = {.batch_size = 3, .examples_per_epoch = epoch, .depth = GetParam()};
    ASSERT_OK_AND_ASSIGN(const auto whole, FromGenerator(CountFields(), options, Count(kEndless)));
    for (int i = 0; i < 4; ++i) NextMade(*whole);
    io::Metadata saved;
    whole->PutPosition(whole->position(), saved);
    ASSERT_OK_AND_ASSIGN(const auto resumed, FromGenerator(CountFields(), options, Count(kEndless)));
    ASSERT_EQ(resumed->Resume(saved), absl::OkStatus());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(NextMade(*resumed), NextMade(*whole));

    // The two are nine batches on, or more with those made ahead.
    for (const absl::Status& status : {whole->Resume(saved), whole->Next().status()}) {
      ExpectError(status, StatusCode::kFailedPrecondition, "cannot go back to number");
    }
    ASSERT_OK_AND_ASSIGN(const auto shorter, FromGenerator(CountFields(), options, Count(4)));
    ExpectError(shorter->Resume(saved), StatusCode::kOutOfRange, "ended after 4 examples", "is to go on at number");
    GeneratorOptions other = options;
    other.batch_size = 2;
    ASSERT_OK_AND_ASSIGN(const auto smaller, FromGenerator(CountFields(), other, Count(kEndless)));
    ExpectError(smaller->Resume(saved), StatusCode::kFailedPrecondition, "data.batch_size");
  }
}

TEST_P(GeneratorTest, SaysItsErrors) {
  const auto error = [](Generator generate) {
    const auto source =
        FromGenerator({{"x", DType::kFloat32}}, {.batch_size = 2, .depth = GetParam()}, std::move(generate));
    EXPECT_TRUE((*source)->Next().ok());
    return (*source)->Next().status();
  };
  int made = 0;
  ExpectError(error([&](const Example&) -> absl::StatusOr<bool> {
                if (++made < 4) return true;
                return absl::UnavailableError("the sensor is gone");
              }),
              StatusCode::kUnavailable, "the sensor is gone");
  made = 0;
  ExpectError(error([&](const Example&) -> absl::StatusOr<bool> {
                if (++made < 4) return true;
                return absl::OutOfRangeError("record 3 is cut off");
              }),
              StatusCode::kInternal, "the generator failed: record 3 is cut off");
  made = 0;
  ExpectError(error([&](const Example&) {
                if (++made == 3) throw std::runtime_error("no more ink");
                return true;
              }),
              StatusCode::kInternal, "example 2", "no more ink");
}

INSTANTIATE_TEST_SUITE_P(Depths, GeneratorTest, testing::Values(0, 1, 3));

// A program whose examples depend on its steps counts on this.
TEST(Generators, AreNotCalledBeforeTheyMust) {
  int calls = 0;
  const auto count = [&](const Example&) { return ++calls > 0; };
  ASSERT_OK_AND_ASSIGN(const auto source, FromGenerator({{"x"}}, {.batch_size = 4, .depth = 0}, count));
  EXPECT_EQ(calls, 0);
  for (int step = 1; step < 4; ++step) {
    ASSERT_TRUE(source->Next().ok());
    EXPECT_EQ(calls, 4 * step);
  }
}

TEST(Generators, RejectOptionsThatMakeNoBatch) {
  const auto error = [](const GeneratorOptions& options, std::vector<Field> fields = {{"x"}}) {
    return FromGenerator(std::move(fields), options, Count(3)).status();
  };
  ExpectError(error({}, {}), StatusCode::kInvalidArgument, "no field");
  ExpectError(error({.batch_size = 0}), StatusCode::kInvalidArgument, "batch_size is 0");
  ExpectError(error({.towers = 0}), StatusCode::kInvalidArgument, "tower");
  ExpectError(error({.examples_per_epoch = -1}), StatusCode::kInvalidArgument, "examples_per_epoch is -1");
  ExpectError(error({.depth = -1}), StatusCode::kInvalidArgument, "depth -1");
  EXPECT_FALSE(error({.batch_size = int64_t{1} << 62}).ok());  // more elements than a tensor has
  ExpectError(FromGenerator({{"x"}}, {}, nullptr).status(), StatusCode::kInvalidArgument, "no function");
}

// A run that ended with a smaller batch goes on there.
TEST(Generators, ResumeAtTheirEnd) {
  ASSERT_OK_AND_ASSIGN(const auto source, FromGenerator(CountFields(), {.batch_size = 5}, Count(12)));
  for (int i = 0; i < 3; ++i) NextMade(*source);
  io::Metadata saved;
  source->PutPosition(source->position(), saved);
  ASSERT_OK_AND_ASSIGN(const auto resumed, FromGenerator(CountFields(), {.batch_size = 5}, Count(12)));
  EXPECT_EQ(resumed->Resume(saved), absl::OkStatus());
  ExpectError(resumed->Next().status(), StatusCode::kOutOfRange, "ended after 12 examples");
}

TEST(Generators, StopBetweenExamples) {
  std::atomic<bool> stopping = false;
  std::atomic<int> made = 0;
  ASSERT_OK_AND_ASSIGN(auto source, FromGenerator({{"x"}}, {.batch_size = 1'000'000}, [&](const Example&) {
                         ++made;
                         while (!stopping) std::this_thread::yield();
                         return true;
                       }));
  std::thread reader([&] { EXPECT_TRUE(absl::IsCancelled(source->Next().status())); });
  while (made == 0) std::this_thread::yield();
  std::thread stopper([&] {
    absl::SleepFor(absl::Milliseconds(20));
    stopping = true;
  });
  static_cast<BatchRing&>(*source).Cancel();
  reader.join();
  source.reset();
  stopper.join();
  EXPECT_LT(made, 1'000'000);
}

TEST(FromFunction, IsADatasetOfWhatItMakes) {
  ASSERT_OK_AND_ASSIGN(const auto squares,
                       FromFunction({{"n", DType::kInt64}}, 10, [](int64_t index, const Example& example) {
                         example.field<int64_t>(0)[0] = index * index;
                         return index == 7 ? absl::DataLossError("seven is broken") : absl::OkStatus();
                       }));
  EXPECT_EQ(squares->size(), 10);
  EXPECT_EQ(ReadExample(*squares, 9).value()[0].scalar<int64_t>(), 81);
  ExpectError(ReadExample(*squares, 7).status(), StatusCode::kDataLoss, "seven is broken");
  ExpectError(FromFunction({{"n"}}, -1, nullptr).status(), StatusCode::kInvalidArgument, "size is -1");
  ASSERT_OK_AND_ASSIGN(const auto batches, Prefetcher::Create(*squares, {.batch_size = 5, .shuffle = false}));
  ASSERT_OK_AND_ASSIGN(const Batch batch, batches->Next());
  EXPECT_THAT(batch.towers()[0].fields[0].span<int64_t>(), testing::ElementsAre(0, 1, 4, 9, 16));
}

}  // namespace
}  // namespace belfry::data
