#include "tests/simulation/training.h"

#include <malloc.h>

#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/mpi/mpi_world.h"
#include "tests/simulation/program.h"
#include "trainers/loop/run_in_world.h"

namespace belfry::simulation {
namespace {

// The main function of a rank's process.
absl::StatusOr<int> RunRank(const Scenario& scenario, bool is_victim, int rank, Scheduler& scheduler, Network& network,
                            Disk& disk, Machine& machine, RankResult& result) {
  const absl::Duration timeout = ToDuration(scenario.timeout);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<World> world,
      OpenMpiWorld(network.Open(rank), {scenario.ranks, "a simulation", "simulated"}, "1", SteadyNow() + timeout));
  const auto program = [&](World& in) {
    const RankOfRun own{scenario, is_victim, scheduler, in, machine, disk, result};
    return scenario.program == ProgramKind::kTrainer ? RunTrainerProgram(own) : RunHandMadeProgram(own);
  };
  return trainers::RunInWorld(*world, program, timeout);
}

void Disturb(const Scenario& scenario, Scheduler& scheduler, Network& network) {
  const auto at = [&](const std::function<void()>& act) { scheduler.At(scenario.at, act); };
  switch (scenario.fault) {
    case Fault::kCrash: at([&] { scheduler.Crash(scenario.victim); }); break;
    case Fault::kStop: at([&] { scheduler.Stop(scenario.victim, kNever); }); break;
    case Fault::kPause: at([&] { scheduler.Stop(scenario.victim, scenario.at + scenario.lasting); }); break;
    case Fault::kCut: at([&] { network.Cut(scenario.victim, scenario.other); }); break;
    case Fault::kDelay: at([&] { network.Delay(scenario.victim, scenario.lasting); }); break;
    default: break;
  }
}

// Blocks of up to so many bytes, the most that malloc takes, stay in the process for the next run, and so much memory.
constexpr int kLargest = 32 << 20, kKept = std::numeric_limits<int>::max();

}  // namespace

absl::Status InputError() { return absl::DataLossError("data_batch_4.bin is too short"); }

Machine::Machine() {
  // The notes of a thousand ranks take 1 GB, which takes the system a second to give.
  BELFRY_CHECK(mallopt(M_MMAP_THRESHOLD, kLargest) == 1 && mallopt(M_TRIM_THRESHOLD, kKept) == 1);
  auto opened = DeviceSet::Open("cpu:1", {.cpu_threads = 1, .ignore_launcher = true});
  BELFRY_CHECK(opened.ok());
  devices = *std::move(opened);
}

Nanoseconds LimitOf(const Scenario& scenario) {
  return 60 * kSecond + scenario.lasting + scenario.steps * (scenario.computing + 100 * kMillisecond);
}

RunResult Train(const Scenario& scenario, bool disturbed, Disk& disk, Machine& machine) {
  Scheduler scheduler(machine.stacks, scenario.seed + 1, scenario.switch_every, scenario.slack, scenario.laziness);
  Network network(scheduler, scenario.ranks, scenario.network, scenario.seed + 2);
  std::vector<RankResult> results(scenario.ranks);
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    const bool is_victim = disturbed && rank == scenario.victim;
    scheduler.AddProcess(is_victim && scenario.fault == Fault::kLate ? scenario.lasting : 0, [&, rank, is_victim] {
      results[rank].status = RunRank(scenario, is_victim, rank, scheduler, network, disk, machine, results[rank]);
    });
  }
  if (disturbed) Disturb(scenario, scheduler, network);
  scheduler.Run(LimitOf(scenario));
  RunResult result{.ranks = results,
                   .messages = network.messages(),
                   .switches = scheduler.switches(),
                   .lock_cycles = scheduler.lock_order().Cycles()};
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    RankResult& of_rank = result.ranks[rank];
    of_rank.ended = scheduler.end(rank) == End::kReturned;
    of_rank.ended_at = scheduler.ended_at(rank);
    // It had done its work, and MPI's end was cut short.
    if (of_rank.ended && absl::IsUnknown(of_rank.status.status())) of_rank.status = 0;
    if (of_rank.status.ok()) continue;
    const absl::Status& status = of_rank.status.status();
    of_rank.status = absl::Status(status.code(), disk.WithoutFolder(status.message()));
  }
  disk.Protect([&] { scheduler.Bury(); });
  return result;
}

std::map<int64_t, std::vector<float>> ReadCheckpoints(const Scenario& scenario, Disk& disk,
                                                      std::vector<std::string>& problems) {
  return scenario.program == ProgramKind::kTrainer ? CheckpointsOfTrainerProgram(disk, problems)
                                                   : CheckpointsOfHandMadeProgram(disk);
}

std::vector<std::vector<float>> ExpectedWeights(const Scenario& scenario, Machine& machine) {
  return scenario.program == ProgramKind::kTrainer ? WeightsOfTrainerProgram(scenario, machine)
                                                   : WeightsOfHandMadeProgram(scenario, machine);
}

}  // namespace belfry::simulation
