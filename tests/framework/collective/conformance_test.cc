// Conformance suite of collectives.
#include <atomic>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/steady_time.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr CollectiveKind kKinds[] = {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast};
constexpr int kMaxDevices = 9;  // within one test
constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 1023, 1025, 5001};

class CollectiveConformance : public testing::TestWithParam<CollectiveBackend> {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const auto& [name, reason] : GetParam().cannot) {
      if (test.substr(0, test.find('/')) == name) GTEST_SKIP() << GetParam().name << ": " << reason;
    }
    if (const auto devices = GetParam().open(kMaxDevices); !devices.ok()) {
      GTEST_SKIP() << GetParam().name << ": " << devices.status();
    }
  }

  // Checks that every rank holds the expected values, to an error of `tolerance` relative to the sum of magnitudes.
  template <class T>
  void CheckAllKinds(double tolerance, bool exact) {
    for (CollectiveKind kind : kKinds) {
      for (int participants : {1, 2, 3, 4}) {
        for (int ranks : {participants, participants + 1, 2 * participants + 1}) {
          const int64_t elements = kSizes[random_() % std::size(kSizes)];
          SCOPED_TRACE(absl::StrCat("kind ", static_cast<int>(kind), ", ", participants, " participants, ", ranks,
                                    " ranks, ", elements, " elements"));
          Meeting<T> meeting(GetParam(), {kind, participants, ranks, elements});
          for (uint32_t run = 1; run <= 2; ++run) {
            meeting.Fill(exact, random_);
            const auto before = meeting.data;
            ASSERT_THAT(meeting.Run(run), Each(IsOk()));
            for (int64_t i = 0; i < elements; ++i) {
              const double expected = Expected(kind, before, meeting.weights, i);
              // Partial sums are rounded, and may be large where the sum is near 0.
              const double magnitude = Expected(kind, before, meeting.weights, i, [](double x) { return std::abs(x); });
              const double allowed = kind == CollectiveKind::kBroadcast ? 0 : tolerance * std::max(1.0, magnitude);
              for (int r = 0; r < ranks; ++r) {
                ASSERT_NEAR(static_cast<double>(meeting.data[r][i]), expected, allowed) << "rank " << r << ", " << i;
              }
            }
          }
        }
      }
    }
  }

  std::mt19937 random_{TestSeed()};
};

TEST_P(CollectiveConformance, Float) { CheckAllKinds<float>(1e-5, false); }
TEST_P(CollectiveConformance, Double) { CheckAllKinds<double>(1e-7, false); }
TEST_P(CollectiveConformance, Half) { CheckAllKinds<Half>(1e-2, false); }
TEST_P(CollectiveConformance, BFloat16) { CheckAllKinds<BFloat16>(5e-2, false); }

TEST_P(CollectiveConformance, EveryRankGetsItsSliceOfTheMean) {
  for (const bool weighted : {false, true}) {
    for (const int ranks : {1, 2, 3, 5}) {
      const int64_t slice = kSizes[random_() % std::size(kSizes)];
      SCOPED_TRACE(absl::StrCat(ranks, " ranks with ", slice, " elements each"));
      Meeting<float> meeting(GetParam(), {CollectiveKind::kReduceScatter, 1 + ranks / 2, ranks, ranks * slice});
      for (float& weight : meeting.weights) weight = weighted ? static_cast<float>(1 + random_() % 4) : 2.0f;
      for (uint32_t run = 1; run <= 2; ++run) {
        meeting.Fill(true, random_);
        const auto before = meeting.data;
        ASSERT_THAT(meeting.Run(run), Each(IsOk()));
        for (int64_t i = 0; i < ranks * slice; ++i) {
          const double expected = Expected(CollectiveKind::kMean, before, meeting.weights, i);
          ASSERT_NEAR(meeting.data[i / slice][i], expected, 1e-5) << i;
        }
      }
    }
  }
}

TEST_P(CollectiveConformance, SlicesOfAllRanksAreGathered) {
  for (const int ranks : {1, 2, 3, 5}) {
    const int64_t slice = kSizes[random_() % std::size(kSizes)];
    SCOPED_TRACE(absl::StrCat(ranks, " ranks with ", slice, " elements each"));
    Meeting<int32_t> meeting(GetParam(), {CollectiveKind::kAllGather, 1 + ranks / 2, ranks, ranks * slice});
    for (uint32_t run = 1; run <= 2; ++run) {
      for (auto& rank : meeting.data) {
        for (int32_t& x : rank) x = static_cast<int32_t>(random_());
      }
      const auto before = meeting.data;
      ASSERT_THAT(meeting.Run(run), Each(IsOk()));
      for (int64_t i = 0; i < ranks * slice; ++i) {
        for (int r = 0; r < ranks; ++r)
          ASSERT_EQ(meeting.data[r][i], before[i / slice][i]) << "rank " << r << ", " << i;
      }
    }
  }
}

TEST_P(CollectiveConformance, SumsOfIntegersAreExact) {
  for (int64_t elements : kSizes) {
    Meeting<float> meeting(GetParam(), {CollectiveKind::kSum, 3, 4, elements});
    meeting.Fill(true, random_);
    const auto before = meeting.data;
    ASSERT_THAT(meeting.Run(1), Each(IsOk()));
    for (int64_t i = 0; i < elements; ++i) {
      const auto expected = static_cast<float>(Expected(CollectiveKind::kSum, before, {}, i));
      for (const auto& rank : meeting.data) ASSERT_EQ(rank[i], expected) << i;
    }
  }
}

TEST_P(CollectiveConformance, MeansOfIntegersAreRoundedOnce) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (bool weighted : {false, true}) {
      Meeting<float> meeting(GetParam(), {CollectiveKind::kMean, 1 + ranks / 4, ranks, 1025});
      meeting.Fill(true, random_);
      if (weighted) {
        for (float& weight : meeting.weights) weight = static_cast<float>(1 + random_() % 128);
      }
      const auto before = meeting.data;
      ASSERT_THAT(meeting.Run(1), Each(IsOk()));
      for (int64_t i = 0; i < 1025; ++i) {
        const auto expected = static_cast<float>(Expected(CollectiveKind::kMean, before, meeting.weights, i));
        for (const auto& rank : meeting.data) ASSERT_EQ(rank[i], expected) << ranks << " ranks";
      }
    }
  }
}

TEST_P(CollectiveConformance, HalvesAreSummedWide) {
  Meeting<Half> meeting(GetParam(), {CollectiveKind::kMean, 2, 4, 3});
  for (auto& rank : meeting.data) rank.assign(3, static_cast<Half>(40000.0f));
  ASSERT_THAT(meeting.Run(1), Each(IsOk()));
  for (const auto& rank : meeting.data) EXPECT_EQ(static_cast<float>(rank[1]), 40000.0f) << "the sum overflows a half";
}

// The bits are the same however ranks are spread over participants.
TEST_P(CollectiveConformance, BitsDoNotDependOnTheNumberOfParticipants) {
  for (CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum}) {
    for (bool weighted : {false, true}) {
      constexpr int kRanks = 5, kElements = 3001;
      Meeting<float> one(GetParam(), {kind, 1, kRanks, kElements});
      one.Fill(false, random_);
      for (auto& rank : one.data) {
        for (float& x : rank) x *= std::ldexp(1.0f, static_cast<int>(random_() % 24));
      }
      if (weighted) one.weights = {3, 1, 4, 0, 5};
      const auto before = one.data;
      ASSERT_THAT(one.Run(1), Each(IsOk()));
      for (int participants : {2, 3, 4, 5}) {
        Meeting<float> many(GetParam(), {kind, participants, kRanks, kElements});
        many.data = before;
        std::copy(one.weights.begin(), one.weights.end(), many.weights.begin());
        ASSERT_THAT(many.Run(1), Each(IsOk()));
        for (int r = 0; r < kRanks; ++r) {
          ASSERT_EQ(std::memcmp(many.data[r].data(), one.data[0].data(), kElements * sizeof(float)), 0) << participants;
        }
      }
    }
  }
}

// Ranks are added up in pairs, these in pairs, and so on.
TEST_P(CollectiveConformance, TheOrderIsATree) {
  constexpr int kRanks = 7, kElements = 1500;
  for (const bool weighted : {false, true}) {
    Meeting<float> meeting(GetParam(), {weighted ? CollectiveKind::kMean : CollectiveKind::kSum, 3, kRanks, kElements});
    meeting.Fill(false, random_);
    for (auto& rank : meeting.data) {
      for (float& x : rank) x *= std::ldexp(1.0f, static_cast<int>(random_() % 24));
    }
    meeting.weights = {3, 1, 4, 0, 5, 0.3f, 0.7f};
    const auto before = meeting.data;
    ASSERT_THAT(meeting.Run(1), Each(IsOk()));
    for (int i = 0; i < kElements; ++i) {
      const auto leaf = [&](int r) {
        const volatile float product =
            before[r][i] * (weighted ? meeting.weights[r] : 1);  // rounded before it is added
        return product;
      };
      const float whole = ((leaf(0) + leaf(1)) + (leaf(2) + leaf(3))) + ((leaf(4) + leaf(5)) + leaf(6));
      double total = 0;
      for (const float weight : meeting.weights) total += weight;
      ASSERT_EQ(meeting.data[0][i], weighted ? whole / static_cast<float>(total) : whole);
    }
  }
}

TEST_P(CollectiveConformance, WeightsCount) {
  Meeting<float> meeting(GetParam(), {CollectiveKind::kMean, 3, 4, 777});
  const std::vector<float> weights[] = {{1, 2, 3, 2}, {0.5f, 0.25f, 8, 0}, {0, 0, 0, 3}, {100, 28, 100, 28}};
  uint32_t run = 0;
  for (const std::vector<float>& weight : weights) {
    std::copy(weight.begin(), weight.end(), meeting.weights.begin());
    meeting.Fill(true, random_);
    const auto before = meeting.data;
    ASSERT_THAT(meeting.Run(++run), Each(IsOk()));
    for (int64_t i = 0; i < 777; ++i) {
      const double expected = Expected(CollectiveKind::kMean, before, weight, i);
      for (const auto& rank : meeting.data) ASSERT_NEAR(rank[i], expected, 1e-5);
    }
  }
}

TEST_P(CollectiveConformance, ARankOfWeightZeroHoldsAnything) {
  Meeting<float> meeting(GetParam(), {CollectiveKind::kMean, 2, 3, 5});
  meeting.data = {{1, 2, 3, 4, 5}, std::vector<float>(5, std::numeric_limits<float>::quiet_NaN()), {3, 4, 5, 6, 7}};
  meeting.data[1][2] = std::numeric_limits<float>::infinity();
  meeting.weights[1] = 0;
  ASSERT_THAT(meeting.Run(1), Each(IsOk()));
  for (const auto& rank : meeting.data) EXPECT_EQ(rank, (std::vector<float>{2, 3, 4, 5, 6}));
}

TEST_P(CollectiveConformance, NotANumberOfATowerThatCountsIsSeenByAll) {
  Meeting<float> meeting(GetParam(), {CollectiveKind::kMean, 2, 2, 2});
  meeting.data = {{1, 2}, {std::numeric_limits<float>::quiet_NaN(), 2}};
  ASSERT_THAT(meeting.Run(1), Each(IsOk()));
  for (const auto& rank : meeting.data) {
    EXPECT_TRUE(std::isnan(rank[0]));
    EXPECT_EQ(rank[1], 2);
  }
}

// The host does not look at the weights, so there is no error.
TEST_P(CollectiveConformance, AllWeightsZeroIsNotANumberOnGpus) {
  auto devices = GetParam().open(1);
  if (devices->device(devices->TowerDevices()[0]).type() != "GPU") GTEST_SKIP() << "on a CPU it is an error";
  for (float bad : {0.0f, std::numeric_limits<float>::quiet_NaN()}) {
    Meeting<Half> half(GetParam(), {CollectiveKind::kMean, 3, 4, 100});
    Meeting<float> single(GetParam(), {CollectiveKind::kMean, 3, 4, 100});
    for (float& weight : half.weights) weight = bad;
    for (float& weight : single.weights) weight = bad;
    ASSERT_THAT(half.Run(1), Each(IsOk()));
    ASSERT_THAT(single.Run(1), Each(IsOk()));
    for (int r = 0; r < 4; ++r) {
      EXPECT_TRUE(std::isnan(static_cast<float>(half.data[r][99])));
      EXPECT_TRUE(std::isnan(single.data[r][0]));
    }
  }
}

TEST_P(CollectiveConformance, AllWeightsZeroIsAnErrorForAll) {
  auto devices = GetParam().open(1);
  if (devices->device(devices->TowerDevices()[0]).type() != "CPU") GTEST_SKIP() << "on a GPU it is not a number";
  for (int64_t elements : {0, 1, 100}) {
    Meeting<float> meeting(GetParam(), {CollectiveKind::kMean, 3, 4, elements});
    for (float bad : {0.0f, std::numeric_limits<float>::quiet_NaN()}) {
      for (float& weight : meeting.weights) weight = bad;
      const auto statuses = meeting.Run(bad == 0 ? 1 : 3);
      EXPECT_THAT(statuses, Each(HasCode(absl::StatusCode::kInvalidArgument)));
      EXPECT_THAT(statuses[0].message(), HasSubstr("'test'"));
      for (float& weight : meeting.weights) weight = 1;
      EXPECT_THAT(meeting.Run(bad == 0 ? 2 : 4), Each(IsOk())) << "the next run is as usual";
    }
  }
}

// A replay gives the bits of a normal run; both are used in turn.
TEST_P(CollectiveConformance, WhatIsCapturedGivesTheBitsOfARun) {
  auto devices = GetParam().open(1);
  if (!devices->device(devices->TowerDevices()[0]).asynchronous()) GTEST_SKIP() << "nothing is captured on a CPU";
  std::vector<CollectiveKind> kinds(std::begin(kKinds), std::end(kKinds));
  kinds.insert(kinds.end(), {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather});
  for (CollectiveKind kind : kinds) {
    for (int participants : {1, 2, 4}) {
      for (int64_t elements : {1, 1025}) {
        Meeting<float> meeting(GetParam(), {kind, participants, participants, elements * participants});
        for (float& weight : meeting.weights) weight = static_cast<float>(random_() % 100);
        meeting.weights[0] = 1;
        uint32_t run = 0;
        for (int round = 0; round < 3; ++round) {
          meeting.Fill(false, random_);
          const auto before = meeting.data;
          ASSERT_THAT(meeting.Run(++run), Each(IsOk()));
          const auto after = meeting.data;
          if (round == 0) {
            ASSERT_EQ(meeting.Capture(++run), absl::OkStatus());
            EXPECT_EQ(meeting.data, after) << "a capture runs nothing";
          }
          meeting.data = before;
          ASSERT_EQ(meeting.Replay(), absl::OkStatus());
          ASSERT_EQ(meeting.data, after);
        }
      }
    }
  }
}

TEST_P(CollectiveConformance, SumsIgnoreWeights) {
  Meeting<float> meeting(GetParam(), {CollectiveKind::kSum, 2, 2, 1});
  for (float& weight : meeting.weights) weight = 0;
  meeting.data = {{1}, {2}};
  ASSERT_THAT(meeting.Run(1), Each(IsOk()));
  EXPECT_EQ(meeting.data[1][0], 3);
}

TEST_P(CollectiveConformance, DeadlineWhenAParticipantNeverComes) {
  Meeting<float> meeting(GetParam(), {CollectiveKind::kMean, 3, 3, 10});
  const auto statuses =
      meeting.Run(1, SteadyNow() + absl::Milliseconds(30), [](int participant) { return participant == 1; });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(statuses[2].code(), absl::StatusCode::kDeadlineExceeded);
  meeting.collective->Reset(1);
  EXPECT_THAT(meeting.Run(2), Each(IsOk()));
}

TEST_P(CollectiveConformance, CancelWakesWhoWaits) {
  Meeting<float> meeting(GetParam(), {CollectiveKind::kSum, 4, 4, 10});
  uint32_t run = 0;
  for (int round = 0; round < 10; ++round) {
    std::thread canceller([&] {
      if (round % 2 == 0) absl::SleepFor(absl::Milliseconds(2));
      meeting.collective->Cancel();
    });
    const auto statuses = meeting.Run(++run, kNever, [](int participant) { return participant == 3; });
    canceller.join();
    for (int p = 0; p < 3; ++p) EXPECT_EQ(statuses[p].code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(meeting.Run(run), Each(HasCode(absl::StatusCode::kCancelled))) << "until Reset";
    meeting.collective->Reset(run);
    meeting.Fill(true, random_);
    const auto before = meeting.data;
    ASSERT_THAT(meeting.Run(++run), Each(IsOk()));
    EXPECT_EQ(meeting.data[3][9], static_cast<float>(Expected(CollectiveKind::kSum, before, {}, 9)));
  }
}

// Participants run freely, some fast and some slow; each changes its data between runs without further synchronisation.
TEST_P(CollectiveConformance, ManyRunsAcrossTheWrapOfTheCounter) {
  constexpr int kParticipants = 3, kRuns = 2000;
  constexpr uint32_t kFirst = 0u - kRuns / 2;
  ASSERT_OK_AND_ASSIGN(auto devices, GetParam().open(kParticipants));
  const std::vector<int> towers = devices.TowerDevices();
  if (devices.device(towers[0]).asynchronous()) GTEST_SKIP() << "the host cannot touch this device's memory";
  std::vector<float> data(kParticipants), weights(kParticipants, 1.0f);
  CollectiveSpec spec{.kind = CollectiveKind::kSum, .name = "test", .elements = 1};
  for (int p = 0; p < kParticipants; ++p) {
    spec.participants.push_back(&devices.device(towers[p]));
    spec.ranks.push_back({p, &data[p], &weights[p]});
  }
  ASSERT_OK_AND_ASSIGN(auto collective, GetParam().make(spec));
  collective->Reset(kFirst);
  std::vector<std::unique_ptr<Stream>> streams;
  for (Device* device : spec.participants) streams.push_back(device->NewStream(StreamKind::kCollective).value());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int p = 0; p < kParticipants; ++p) {
    threads.emplace_back([&, p] {
      for (int i = 1; i <= kRuns; ++i) {
        data[p] = static_cast<float>(i * (p + 1));
        if (!collective->Run(p, *streams[p], kFirst + static_cast<uint32_t>(i), kNever).ok()) ++wrong;
        if (data[p] != static_cast<float>(6 * i)) ++wrong;
        if (p == 2 && i % 100 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(CollectiveConformance, OnlyFloatsAreAveragedButAnythingIsBroadcast) {
  ASSERT_OK_AND_ASSIGN(auto devices, GetParam().open(1));
  int64_t a = 1;
  const float weight = 1;
  const CollectiveSpec spec{.name = "counts",
                            .dtype = DType::kInt64,
                            .elements = 1,
                            .participants = {&devices.device(devices.TowerDevices()[0])},
                            .ranks = {{0, &a, &weight}}};
  EXPECT_THAT(GetParam().make(spec).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'counts'")));

  Meeting<int64_t> meeting(GetParam(), {CollectiveKind::kBroadcast, 2, 3, 5});
  meeting.data = {{1, -2, 3, int64_t{1} << 60, 5}, std::vector<int64_t>(5), std::vector<int64_t>(5, 7)};
  ASSERT_THAT(meeting.Run(1), Each(IsOk()));
  for (const auto& rank : meeting.data) EXPECT_EQ(rank, meeting.data[0]);
  EXPECT_EQ(meeting.data[0][3], int64_t{1} << 60);
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectiveConformance, testing::ValuesIn(CollectiveBackends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace belfry
