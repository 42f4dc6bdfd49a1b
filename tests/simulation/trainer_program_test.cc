// Simulated runs of the product's Session and Trainer.
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/check.h"
#include "tests/simulation/simulation_fixture.h"

namespace belfry::simulation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SimulatedTrainer : public SimulationFixture {
 protected:
  static Scenario Small() {
    Scenario scenario{.seed = 7, .program = ProgramKind::kTrainer, .ranks = 3, .steps = 8, .elements = 4};
    scenario.computing = kMillisecond;
    return scenario;
  }
  std::map<int64_t, std::vector<float>> Checkpoints(const Scenario& scenario, Disk& disk) {
    std::vector<std::string> problems;
    auto checkpoints = ReadCheckpoints(scenario, disk, problems);
    EXPECT_THAT(problems, IsEmpty());
    return checkpoints;
  }
};

TEST_F(SimulatedTrainer, EveryLayoutHasTheBitsOfOneProcess) {
  for (const int towers : {1, 2}) {
    for (const bool sharded : {false, true}) {
      Scenario scenario = Small();
      scenario.towers = towers;
      scenario.shard_optimizer = sharded;
      scenario.threads_of_devices = true;
      const std::vector<std::vector<float>> expected = ExpectedWeights(scenario, machine_);
      ASSERT_THAT(expected, SizeIs(scenario.steps + 1));
      EXPECT_NE(expected.front(), expected.back());
      Disk disk;
      for (const RankResult& rank : Train(scenario, /*disturbed=*/false, disk, machine_).ranks) {
        ASSERT_TRUE(rank.status.ok()) << rank.status.status();
        EXPECT_EQ(rank.steps, scenario.steps);
        EXPECT_EQ(rank.weights, expected.back()) << towers << " towers";
      }
      const std::map<int64_t, std::vector<float>> checkpoints = Checkpoints(scenario, disk);
      EXPECT_THAT(checkpoints, ElementsAre(testing::Pair(3, expected[3]), testing::Pair(6, expected[6]),
                                           testing::Pair(8, expected[8])));
    }
  }
}

TEST_F(SimulatedTrainer, ARunThatLosesARankIsResumed) {
  Scenario scenario = Small();
  scenario.steps = 40;
  scenario.fault = Fault::kCrash;
  scenario.at = 50 * kMillisecond;
  for (scenario.victim = 0; scenario.victim < 2; ++scenario.victim) {
    Disk disk;
    const RunResult lost = Train(scenario, /*disturbed=*/true, disk, machine_);
    EXPECT_THAT(lost.ranks[2].status.status().ToString(),
                HasSubstr("no answer before the deadline from task " + std::to_string(scenario.victim)));
    ASSERT_THAT(Checkpoints(scenario, disk), testing::Not(IsEmpty()));
    const int64_t saved = Checkpoints(scenario, disk).rbegin()->first;
    EXPECT_GT(saved, scenario.checkpoint_every);
    EXPECT_LT(saved, scenario.steps);
    const RunResult resumed = Train(scenario, /*disturbed=*/false, disk, machine_);
    const std::vector<float> expected = ExpectedWeights(scenario, machine_).back();
    for (const RankResult& rank : resumed.ranks) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.status();
      EXPECT_EQ(rank.steps, scenario.steps);
      EXPECT_EQ(rank.weights, expected);
    }
  }
}

TEST_F(SimulatedTrainer, ASignalToOneRankStopsAllAfterTheSameStepAndSaves) {
  Scenario scenario = Small();
  scenario.steps = 1000;
  scenario.fault = Fault::kSignal;
  scenario.victim = 2;
  scenario.at = 40 * kMillisecond;
  Disk disk;
  const RunResult run = Train(scenario, /*disturbed=*/true, disk, machine_);
  for (const RankResult& rank : run.ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.status();
    EXPECT_EQ(*rank.status, SIGTERM);
    EXPECT_EQ(rank.steps, run.ranks[0].steps);
    EXPECT_EQ(rank.weights, Checkpoints(scenario, disk)[run.ranks[0].steps]);
  }
  EXPECT_GT(run.ranks[0].steps, 0);
  EXPECT_LT(run.ranks[0].steps, scenario.steps);
}

TEST_F(SimulatedTrainer, ASeedRepeatsItsRun) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Scenario scenario = Draw(seed, {.program = ProgramKind::kTrainer});
    const Report first = Simulate(scenario, machine_), second = Simulate(scenario, machine_);
    EXPECT_EQ(first.fingerprint, second.fingerprint) << ToString(scenario);
    EXPECT_EQ(first.disturbed.messages, second.disturbed.messages) << ToString(scenario);
    EXPECT_EQ(first.disturbed.switches, second.disturbed.switches) << ToString(scenario);
  }
}

// Found faults of the product: a step that met its deadline said that a stream of its own process was late, and not for
// which task that waited; and the chain of a run had no record of the checkpoint that was saved after others were lost.
// The list of tasks said for whom a task waits only after a list of its devices.
TEST_F(SimulatedTrainer, AFaultAtAnyMomentIsBlamedOnThoseWhoseItIs) {
  Scenario scenario = Small();
  scenario.steps = 4;
  scenario.checkpoint_every = 2;
  scenario.step_timeout = 90 * kMillisecond;
  scenario.victim = 2;
  scenario.other = 1;
  const Nanoseconds end = LengthOf(scenario);
  constexpr int kMoments = 20;
  for (const Fault fault : {Fault::kCrash, Fault::kStop, Fault::kCut, Fault::kPause, Fault::kError}) {
    scenario.fault = fault;
    scenario.lasting = fault == Fault::kPause ? 6 * scenario.timeout : 0;
    for (int moment = 0; moment < kMoments; ++moment) {
      scenario.at = end * moment / kMoments;
      scenario.towers = 1 + moment % 2;
      EXPECT_THAT(Simulate(scenario, machine_).problems, IsEmpty()) << ToString(scenario);
    }
  }
}

}  // namespace
}  // namespace belfry::simulation
