#include "tests/simulation/training.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/mpi/mpi_world.h"
#include "framework/collective/world_collective.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/loop/task_sync.h"

namespace belfry::simulation {
namespace {

constexpr float kRate = 0.1f;

// An example's element, and the number of examples that a rank has, which weighs its gradient.
float Target(const Scenario& scenario, int rank, int64_t step, int element) {
  Random random(scenario.seed ^ static_cast<uint64_t>(rank) << 48 ^ static_cast<uint64_t>(step) << 32 ^ element);
  return static_cast<float>(random.Below(1 << 20)) / (1 << 19) - 1;
}
float Examples(const Scenario& scenario, int rank, int64_t step) {
  if (rank == step % scenario.ranks) return 2;  // so that there are some
  return static_cast<float>(Random(scenario.seed + 31 * static_cast<uint64_t>(step) + rank).Below(4));
}

void ComputeGradient(const Scenario& scenario, int rank, int64_t step, absl::Span<const float> weights,
                     absl::Span<float> gradient) {
  for (int i = 0; i < scenario.elements; ++i) gradient[i] = weights[i] - Target(scenario, rank, step, i);
}

void Update(absl::Span<const float> gradient, std::vector<float>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradient[i];
}

std::vector<float> FirstWeights(const Scenario& scenario) { return std::vector<float>(scenario.elements, 0.5f); }

// One rank's program.
class Program {
 public:
  Program(const Scenario& scenario, bool disturbed, Scheduler& scheduler, World& world, Disk& disk, Device& device,
          RankResult& result)
      : scenario_(scenario),
        is_victim_(disturbed && scenario.victim == world.rank()),
        scheduler_(scheduler),
        world_(world),
        disk_(disk),
        device_(device),
        result_(result),
        gradient_(scenario.elements) {}

  absl::StatusOr<int> Run() {
    world_.SetPosition([this] { return absl::StrCat("step ", result_.steps); });
    const absl::Cleanup leave = [this] {
      world_.SetPosition([steps = result_.steps] { return absl::StrCat("step ", steps, ": has ended"); });
    };
    RETURN_IF_ERROR(Start());
    trainers::TaskReports reports(world_, result_.steps);
    for (uint32_t run = 1; result_.steps < scenario_.steps; ++run) {
      scheduler_.Compute(scenario_.computing);
      RETURN_IF_ERROR(Fails());
      ComputeGradient(scenario_, world_.rank(), result_.steps, weights(), absl::MakeSpan(gradient_));
      examples_ = Examples(scenario_, world_.rank(), result_.steps);
      RETURN_IF_ERROR(average_->Run(0, *stream_, run, In(scenario_.step_timeout)));
      Update(gradient_, weights());
      ++result_.steps;
      const bool asked = is_victim_ && scenario_.fault == Fault::kSignal && scheduler_.now() >= scenario_.at;
      ASSIGN_OR_RETURN(const int stopped, reports.AfterStep(result_.steps, asked ? SIGTERM : 0, absl::ZeroDuration(),
                                                            In(scenario_.step_timeout)));
      const bool last = result_.steps == scenario_.steps || stopped != 0;
      if (world_.rank() == 0 && (last || result_.steps % scenario_.checkpoint_every == 0)) {
        disk_ = {.step = result_.steps, .weights = weights()};
      }
      if (stopped != 0) return stopped;
    }
    return 0;
  }

 private:
  absl::Status Fails() const {
    if (!is_victim_ || scenario_.fault != Fault::kError || scheduler_.now() < scenario_.at) return absl::OkStatus();
    return absl::DataLossError("data_batch_4.bin is too short");
  }
  std::vector<float>& weights() { return result_.weights; }
  static absl::Time In(Nanoseconds time) { return SteadyNow() + ToDuration(time); }

  // The part of the Trainer before its first step.
  absl::Status Start() {
    std::optional<io::Checkpoint> checkpoint;
    if (world_.rank() == 0 && disk_.step >= 0) {
      checkpoint = io::Checkpoint{.path = "simulated", .step = disk_.step, .metadata = {{"epoch", "1"}}};
    }
    const absl::Duration timeout = ToDuration(scenario_.timeout);
    ASSIGN_OR_RETURN(checkpoint, trainers::ShareCheckpoint(std::move(checkpoint), world_, timeout));
    weights() = FirstWeights(scenario_);
    if (checkpoint.has_value()) {
      result_.steps = checkpoint->step;
      if (world_.rank() == 0) weights() = disk_.weights;
    }
    const size_t bytes = weights().size() * sizeof(float);
    ASSIGN_OR_RETURN(const std::string copied,
                     world_.Broadcast({reinterpret_cast<const char*>(weights().data()), bytes}, In(scenario_.timeout)));
    if (copied.size() != bytes) return absl::DataLossError("the weights of task 0 came in with another size");
    std::memcpy(weights().data(), copied.data(), bytes);
    RETURN_IF_ERROR(trainers::CheckSameLines(
        world_, "settings", {absl::StrCat("steps=", scenario_.steps), absl::StrCat("first step=", result_.steps)},
        In(scenario_.timeout)));
    ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world_, 1, In(scenario_.timeout)));
    ASSIGN_OR_RETURN(stream_, device_.NewStream(StreamKind::kCollective));
    ASSIGN_OR_RETURN(average_, WorldCollectives(world_, towers, scenario_.sum, scenario_.route)(
                                   {.kind = CollectiveKind::kMean,
                                    .name = "gradients",
                                    .dtype = DType::kFloat32,
                                    .elements = scenario_.elements,
                                    .participants = {&device_},
                                    .ranks = {{.participant = 0, .data = gradient_.data(), .weight = &examples_}},
                                    .first = world_.rank(),
                                    .size = world_.size()}));
    return absl::OkStatus();
  }

  const Scenario& scenario_;
  const bool is_victim_;
  Scheduler& scheduler_;
  World& world_;
  Disk& disk_;
  Device& device_;
  RankResult& result_;
  std::vector<float> gradient_;
  float examples_ = 0;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Collective> average_;
};

absl::StatusOr<int> RunRank(const Scenario& scenario, bool disturbed, int rank, Scheduler& scheduler, Network& network,
                            Disk& disk, Device& device, RankResult& result) {
  const absl::Duration timeout = ToDuration(scenario.timeout);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<World> world,
      OpenMpiWorld(network.Open(rank), {scenario.ranks, "a simulation", "simulated"}, "1", SteadyNow() + timeout));
  return trainers::RunInWorld(
      *world, [&](World& in) { return Program(scenario, disturbed, scheduler, in, disk, device, result).Run(); },
      timeout);
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

}  // namespace

Machine::Machine() {
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
    const bool late = disturbed && scenario.fault == Fault::kLate && rank == scenario.victim;
    scheduler.AddProcess(late ? scenario.lasting : 0, [&, rank] {
      results[rank].status =
          RunRank(scenario, disturbed, rank, scheduler, network, disk, machine.devices.device(0), results[rank]);
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
  }
  const Disk left = disk;
  scheduler.Bury();
  disk = left;
  return result;
}

std::vector<float> ExpectedWeights(const Scenario& scenario, int64_t steps, Machine& machine) {
  std::vector<float> weights = FirstWeights(scenario);
  std::vector<std::vector<float>> gradients(scenario.ranks, std::vector<float>(scenario.elements));
  std::vector<float> examples(scenario.ranks);
  CollectiveSpec spec{.kind = CollectiveKind::kMean,
                      .dtype = DType::kFloat32,
                      .elements = scenario.elements,
                      .participants = {&machine.devices.device(0)}};
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    spec.ranks.push_back({.participant = 0, .data = gradients[rank].data(), .weight = &examples[rank]});
  }
  for (int64_t step = 0; step < steps; ++step) {
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      ComputeGradient(scenario, rank, step, weights, absl::MakeSpan(gradients[rank]));
      examples[rank] = Examples(scenario, rank, step);
    }
    if (scenario.sum == WorldSum::kTowers) {
      BELFRY_CHECK(ReduceOnHost(spec, 0, scenario.elements).ok());
    } else {
      double divisor = 0;
      std::vector<std::vector<float>> sums = gradients;
      std::vector<const void*> all;
      for (int rank = 0; rank < scenario.ranks; ++rank) {
        divisor += examples[rank];
        for (float& element : sums[rank]) element *= examples[rank];
        all.push_back(sums[rank].data());
      }
      AddSumsOnHost(spec, all, 0, divisor, 0, scenario.elements);
    }
    Update(gradients[0], weights);
  }
  return weights;
}

}  // namespace belfry::simulation
