// The averager `local` among processes, against that of one process.
#include "framework/collective/world_collective.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/collective/process_tree.h"
#include "framework/collective/world_messages.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/framework/collective/process_towers.h"

namespace belfry {
namespace {

using testing::HasSubstr;

// The trees of 5 and 7 processes have subtrees of all shapes.
std::vector<Layout> Layouts() {
  return {{4}, {2, 2}, {1, 1, 1, 1}, {3, 1}, {1, 2, 2}, {1, 1}, {2, 1, 1, 3, 1}, {1, 2, 1, 1, 1, 2, 1}};
}
constexpr WorldRoute kRoutes[] = {WorldRoute::kDirect, WorldRoute::kTree};
const char* Name(WorldRoute route) { return route == WorldRoute::kTree ? "tree" : "direct"; }

template <class T>
HostTowers<T> Draw(int count, int64_t elements, bool equal_weights, std::mt19937& random) {
  std::normal_distribution<float> values;
  HostTowers<T> towers;
  for (int t = 0; t < count; ++t) {
    towers.data.emplace_back();
    for (int64_t i = 0; i < elements; ++i) towers.data.back().push_back(static_cast<T>(values(random)));
    towers.weights.push_back(equal_weights ? 3.0f : static_cast<float>(random() % 4));
  }
  if (!equal_weights) towers.weights[random() % count] = 2.0f;
  return towers;
}

template <class T>
class WorldCollectiveTest : public testing::Test {};
using DTypes = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(WorldCollectiveTest, DTypes);

// Three runs each on the results of the one before.
TYPED_TEST(WorldCollectiveTest, EveryLayoutHasTheBitsOfOneProcess) {
  using T = TypeParam;
  std::mt19937& random = TestRandom();
  for (const Layout& layout : Layouts()) {
    int count = 0;
    for (const int n : layout) count += n;
    for (const CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast}) {
      for (const int64_t elements : {int64_t{0}, int64_t{1}, int64_t{3}, static_cast<int64_t>(random() % 5000)}) {
        SCOPED_TRACE(absl::StrCat("towers ", absl::StrJoin(layout, " + "), ", kind ", static_cast<int>(kind), ", ",
                                  elements, " elements"));
        const HostTowers<T> start = Draw<T>(count, elements, random() % 2 == 0, random);
        HostTowers<T> expected = start;
        ProcessTowers<T> alone(expected, 0, count, 1, kind);
        ASSERT_OK_AND_ASSIGN(const auto collective, MakeLocalCollective(alone.spec()));
        for (uint32_t run = 1; run <= 3; ++run) ASSERT_TRUE(alone.Run(*collective, run, absl::InfiniteFuture()).ok());
        alone.Move(/*in=*/false);
        for (const WorldRoute route : kRoutes) {
          HostTowers<T> actual = start;
          ASSERT_EQ(RunLayout(layout, kind, actual, {.route = route}), absl::OkStatus());
          for (int t = 0; t < count; ++t) {
            EXPECT_TRUE(SameBits(expected.data[t], actual.data[t])) << Name(route) << ", tower " << t;
          }
        }
      }
    }
  }
}

TYPED_TEST(WorldCollectiveTest, SlicesHaveTheBitsOfTheMeanInEveryLayout) {
  using T = TypeParam;
  std::mt19937& random = TestRandom();
  for (const Layout& layout : Layouts()) {
    int count = 0;
    for (const int n : layout) count += n;
    for (const int64_t slice : {int64_t{0}, int64_t{1}, static_cast<int64_t>(random() % 1000)}) {
      SCOPED_TRACE(absl::StrCat("towers ", absl::StrJoin(layout, " + "), ", ", slice, " elements each"));
      const HostTowers<T> start = Draw<T>(count, slice * count, random() % 2 == 0, random);
      HostTowers<T> expected = start;
      ProcessTowers<T> alone(expected, 0, count, 1, CollectiveKind::kMean);
      ASSERT_OK_AND_ASSIGN(const auto collective, MakeLocalCollective(alone.spec()));
      ASSERT_TRUE(alone.Run(*collective, 1, absl::InfiniteFuture()).ok());
      alone.Move(/*in=*/false);
      for (const WorldRoute route : kRoutes) {
        SCOPED_TRACE(Name(route));
        HostTowers<T> actual = start;
        // One run: the data outside of its slice is lost to a tower.
        absl::Status status = RunLayout(layout, CollectiveKind::kReduceScatter, actual, {.route = route, .runs = 1});
        ASSERT_TRUE(status.ok()) << status;
        for (int t = 0; t < count; ++t) {
          const auto own = [&](const std::vector<T>& data) {
            return std::vector<T>(data.begin() + t * slice, data.begin() + (t + 1) * slice);
          };
          EXPECT_TRUE(SameBits(own(expected.data[t]), own(actual.data[t]))) << "tower " << t;
        }
        HostTowers<T> sums = start;
        status = RunLayout(layout, CollectiveKind::kReduceScatter, sums,
                           {.sum = WorldSum::kProcesses, .route = route, .runs = 1});
        ASSERT_TRUE(status.ok()) << status;
        for (int64_t i = 0; i < slice * count; ++i) {
          ASSERT_NEAR(static_cast<double>(sums.data[i / slice][i]), static_cast<double>(expected.data[0][i]),
                      sizeof(T) == 2 ? 0.05 : 1e-5);
        }
        status = RunLayout(layout, CollectiveKind::kAllGather, actual, {.route = route});
        ASSERT_TRUE(status.ok()) << status;
        for (int t = 0; t < count; ++t) EXPECT_TRUE(SameBits(expected.data[t], actual.data[t])) << "tower " << t;
      }
    }
  }
}

// Up to rounding, and with the same bits in all towers, whatever the route; a tower of weight 0 does not count whatever
// it holds.
TYPED_TEST(WorldCollectiveTest, SumsOfProcessesAreClose) {
  using T = TypeParam;
  std::mt19937& random = TestRandom();
  for (const Layout& layout : Layouts()) {
    int count = 0;
    for (const int n : layout) count += n;
    for (const CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast}) {
      const int64_t elements = static_cast<int64_t>(random() % 3000);
      SCOPED_TRACE(absl::StrCat("towers ", absl::StrJoin(layout, " + "), ", kind ", static_cast<int>(kind), ", ",
                                elements, " elements"));
      HostTowers<T> start = Draw<T>(count, elements, random() % 2 == 0, random);
      if (kind == CollectiveKind::kMean && count > 3) {
        start.weights[0] = 0;
        start.weights[1] = 2;  // one tower must count
        for (T& x : start.data[0]) x = static_cast<T>(std::nanf(""));
      }
      HostTowers<T> expected = start, actual = start;
      ProcessTowers<T> alone(expected, 0, count, 1, kind);
      ASSERT_OK_AND_ASSIGN(const auto collective, MakeLocalCollective(alone.spec()));
      for (uint32_t run = 1; run <= 3; ++run) ASSERT_TRUE(alone.Run(*collective, run, absl::InfiniteFuture()).ok());
      alone.Move(/*in=*/false);
      HostTowers<T> through_tree = start;
      absl::Status status =
          RunLayout(layout, kind, actual, {.sum = WorldSum::kProcesses, .route = WorldRoute::kDirect});
      ASSERT_TRUE(status.ok()) << status;
      status = RunLayout(layout, kind, through_tree, {.sum = WorldSum::kProcesses, .route = WorldRoute::kTree});
      ASSERT_TRUE(status.ok()) << status;
      const double rounding = sizeof(T) == 8 ? 1e-14 : sizeof(T) == 4 ? 1e-5 : std::is_same_v<T, Half> ? 4e-3 : 3e-2;
      for (int t = 0; t < count; ++t) {
        EXPECT_TRUE(SameBits(actual.data[0], actual.data[t])) << "tower " << t;
        EXPECT_TRUE(SameBits(actual.data[0], through_tree.data[t])) << "tower " << t;
      }
      for (int64_t i = 0; i < elements; ++i) {
        const auto want = static_cast<double>(expected.data[0][i]), got = static_cast<double>(actual.data[0][i]);
        ASSERT_LE(std::abs(got - want), rounding * std::max(100.0, std::abs(want))) << i << ": " << got << ", " << want;
      }
    }
  }
}

TEST(WorldCollective, SlicesMayBeLongerThanMessages) {
  const Layout layout = {2, 1, 1};
  const Ranks ranks{.options = std::vector<FakeMpiOptions>(3, {.longest = 1100})};
  for (const WorldSum sum : {WorldSum::kTowers, WorldSum::kProcesses}) {
    const HostTowers<float> start = Draw<float>(4, 10'000, true, TestRandom());
    HostTowers<float> expected = start;
    ASSERT_EQ(RunLayout(layout, CollectiveKind::kMean, expected, {.sum = sum}), absl::OkStatus());
    for (const WorldRoute route : kRoutes) {
      HostTowers<float> actual = start;
      const absl::Status cut =
          RunLayout(layout, CollectiveKind::kMean, actual, {.ranks = ranks, .sum = sum, .route = route});
      ASSERT_TRUE(cut.ok()) << cut;
      for (int t = 0; t < 4; ++t) {
        EXPECT_TRUE(SameBits(expected.data[t], actual.data[t])) << Name(route) << ", tower " << t;
      }
    }
  }
}

// NaN, infinity, the largest values and -0 in towers that count, and in one that does not.
TYPED_TEST(WorldCollectiveTest, SpecialValuesHaveTheBitsOfOneProcess) {
  using T = TypeParam;
  const Layout layout = {1, 2, 1, 3, 1};
  HostTowers<T> start = Draw<T>(8, 70, /*equal_weights=*/true, TestRandom());
  start.weights = {1, 0, 2, 3, 0.5f, 1, 7, 0};
  const float values[] = {NAN, INFINITY, -INFINITY, 65'504, -65'504, 0.0f, -0.0f};
  for (size_t t = 0; t < 8; ++t) {
    for (size_t i = 0; i < 70; ++i) {
      if (TestRandom()() % 3 == 0) start.data[t][i] = static_cast<T>(values[(t + i) % std::size(values)]);
    }
  }
  for (const CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum}) {
    HostTowers<T> expected = start;
    ProcessTowers<T> alone(expected, 0, 8, 1, kind);
    ASSERT_TRUE(alone.Run(**MakeLocalCollective(alone.spec()), 1, absl::InfiniteFuture()).ok());
    alone.Move(/*in=*/false);
    for (const WorldRoute route : kRoutes) {
      HostTowers<T> actual = start;
      ASSERT_EQ(RunLayout(layout, kind, actual, {.route = route, .runs = 1}), absl::OkStatus());
      for (size_t t = 0; t < 8; ++t) EXPECT_TRUE(SameBits(expected.data[t], actual.data[t])) << Name(route) << t;
    }
  }
}

TEST(WorldCollective, TheTreeIsForManyProcessesAndFewBytes) {
  const auto is_tree = [](int processes, int towers, int64_t elements, WorldSum sum) {
    TowersOfWorld all{{0}};
    for (int process = 0; process < processes; ++process) all.first.push_back(all.first.back() + towers);
    const CollectiveSpec spec{.elements = elements, .size = all.total()};
    return IsTreeFaster({.spec = spec, .towers = all, .sum = sum});
  };
  EXPECT_FALSE(is_tree(2, 1, 1, WorldSum::kTowers));
  EXPECT_FALSE(is_tree(kFewestInTree - 1, 1, 1, WorldSum::kTowers));
  EXPECT_TRUE(is_tree(kFewestInTree, 1, 1, WorldSum::kTowers));
  EXPECT_TRUE(is_tree(1000, 1, 0, WorldSum::kTowers));
  EXPECT_TRUE(is_tree(1000, 1, 2048, WorldSum::kTowers));
  EXPECT_FALSE(is_tree(1000, 1, 2049, WorldSum::kTowers));
  EXPECT_TRUE(is_tree(1000, 4, 512, WorldSum::kTowers));
  EXPECT_FALSE(is_tree(1000, 4, 513, WorldSum::kTowers));
  EXPECT_TRUE(is_tree(1000, 4, 2048, WorldSum::kProcesses));
  EXPECT_FALSE(is_tree(1000, 1, int64_t{1} << 59, WorldSum::kTowers));
}

// In a world of many processes the tree is chosen, and agrees with one process.
TEST(WorldCollective, ManyProcessesHaveTheBitsOfOne) {
  const Layout layout(kFewestInTree, 1);
  const HostTowers<float> start = Draw<float>(kFewestInTree, 7, /*equal_weights=*/false, TestRandom());
  HostTowers<float> expected = start, actual = start;
  ProcessTowers<float> alone(expected, 0, kFewestInTree, 1, CollectiveKind::kMean);
  ASSERT_TRUE(alone.Run(**MakeLocalCollective(alone.spec()), 1, absl::InfiniteFuture()).ok());
  alone.Move(/*in=*/false);
  ASSERT_EQ(RunLayout(layout, CollectiveKind::kMean, actual, {.runs = 1}), absl::OkStatus());
  for (int t = 0; t < kFewestInTree; ++t) EXPECT_TRUE(SameBits(expected.data[t], actual.data[t])) << "tower " << t;
}

TEST(WorldCollective, AProcessThatDoesNotComeIsNamed) {
  HostTowers<float> towers = Draw<float>(2, 1000, true, TestRandom());
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    ProcessTowers<float> part(towers, world.rank(), 1, 1, CollectiveKind::kMean);
    ASSIGN_OR_RETURN(const auto collective, WorldCollectives(world, {{0, 1, 2}})(part.spec()));
    if (world.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(400));
      return absl::OkStatus();
    }
    return part.Run(*collective, 1, In(absl::Milliseconds(100)));
  });
  EXPECT_EQ(results[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(results[0].message(), HasSubstr("collective 'test': no answer before the deadline from task 1"));
}

// On a tree a process may wait for one that waits in turn. The roll call shows for which, and begins with the one that
// waits for none.
TEST(WorldCollective, TheRollCallLeadsThroughTheTreeToTheProcessThatDoesNotCome) {
  HostTowers<float> towers = Draw<float>(4, 10, true, TestRandom());
  const auto results = RunRanks(4, {}, [&](World& world) -> absl::Status {
    ProcessTowers<float> part(towers, world.rank(), 1, 1, CollectiveKind::kMean);
    ASSIGN_OR_RETURN(const auto collective,
                     WorldCollectives(world, {{0, 1, 2, 3, 4}}, WorldSum::kTowers, WorldRoute::kTree)(part.spec()));
    if (world.rank() == 3) {
      absl::SleepFor(absl::Milliseconds(700));
      return absl::OkStatus();
    }
    const absl::Status status = part.Run(*collective, 1, In(absl::Milliseconds(100)));
    const std::string roll_call = world.RollCall();
    absl::SleepFor(absl::Milliseconds(500));  // the others may still ask it
    return absl::Status(status.code(), absl::StrCat(status.message(), "\n", roll_call));
  });
  EXPECT_EQ(results[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(results[1].message()),
              testing::ContainsRegex("collective 'test': no answer before the deadline from task 0 .*\n"
                                     "  task 0 .*  waiting for task 2\n"
                                     "  task 2 .*  waiting for task 3\n"
                                     "  task 3 .*  answers\n"
                                     "  task 1 .*  waiting for task 0"));
}

TEST(WorldCollective, OtherRanksThanTheWorldKnowsAreRefused) {
  HostTowers<float> towers = Draw<float>(4, 10, true, TestRandom());
  const auto results = RunRanks(2, {}, [&](World& world) -> absl::Status {
    ProcessTowers<float> part(towers, world.rank(), 1, 1, CollectiveKind::kMean);
    return WorldCollectives(world, {{0, 2, 4}})(part.spec()).status();
  });
  EXPECT_THAT(results[0].message(), HasSubstr("this process has towers 0 to 0 of 4, but should have 0 to 1 of 4"));
}

// Whichever call of MPI fails in whichever process: an error that names it, and no hang.
TEST(WorldCollective, EveryCallMayFail) {
  int failed = 0;
  for (int k = 0; k < 400; ++k) {
    HostTowers<float> towers = Draw<float>(3, 10, true, TestRandom());
    Ranks ranks{.options = std::vector<FakeMpiOptions>(3), .notice_ends = true};
    ranks.options[k % 3].fail_at = k / 6;
    const absl::Status status =
        RunLayout({1, 1, 1}, CollectiveKind::kMean, towers, {.ranks = ranks, .route = kRoutes[k / 3 % 2]});
    if (status.ok()) continue;
    ++failed;
    EXPECT_THAT(status.message(), testing::AnyOf(HasSubstr("failed: injected"), HasSubstr("has ended"))) << k;
  }
  EXPECT_GT(failed, 200);
}

}  // namespace
}  // namespace belfry
