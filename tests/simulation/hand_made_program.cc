// The model written by hand: a vector of weights, which each rank moves towards examples of its own.
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world_collective.h"
#include "tests/simulation/program.h"
#include "tests/simulation/random.h"
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
  if (rank == step % scenario.ranks) return 2;  // each step has examples
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

class HandMadeProgram {
 public:
  explicit HandMadeProgram(const RankOfRun& rank)
      : rank_(rank),
        scenario_(rank.scenario),
        world_(rank.world),
        result_(rank.result),
        gradient_(scenario_.elements) {}

  absl::StatusOr<int> Run() {
    world_.SetPosition([this] { return absl::StrCat("step ", result_.steps); });
    const absl::Cleanup leave = [this] {
      world_.SetPosition([steps = result_.steps] { return absl::StrCat("step ", steps, ": has ended"); });
    };
    RETURN_IF_ERROR(Start());
    trainers::TaskReports reports(world_, result_.steps);
    for (uint32_t run = 1; result_.steps < scenario_.steps; ++run) {
      rank_.scheduler.Compute(scenario_.computing);
      if (rank_.Meets(Fault::kError)) return InputError();
      ComputeGradient(scenario_, world_.rank(), result_.steps, weights(), absl::MakeSpan(gradient_));
      examples_ = Examples(scenario_, world_.rank(), result_.steps);
      RETURN_IF_ERROR(average_->Run(0, *stream_, run, In(scenario_.step_timeout)));
      Update(gradient_, weights());
      ++result_.steps;
      ASSIGN_OR_RETURN(const int stopped, reports.AfterStep(result_.steps, rank_.Meets(Fault::kSignal) ? SIGTERM : 0,
                                                            absl::ZeroDuration(), In(scenario_.step_timeout)));
      const bool last = result_.steps == scenario_.steps || stopped != 0;
      if (world_.rank() == 0 && (last || result_.steps % scenario_.checkpoint_every == 0)) {
        rank_.disk.checkpoint() = {.step = result_.steps, .weights = weights()};
      }
      if (stopped != 0) return stopped;
    }
    return 0;
  }

 private:
  std::vector<float>& weights() { return result_.weights; }
  static absl::Time In(Nanoseconds time) { return SteadyNow() + ToDuration(time); }

  // The part of the Trainer before its first step.
  absl::Status Start() {
    std::optional<io::Checkpoint> checkpoint;
    const Disk::Checkpoint& on_disk = rank_.disk.checkpoint();
    if (world_.rank() == 0 && on_disk.step >= 0) {
      checkpoint = io::Checkpoint{.path = "simulated", .step = on_disk.step, .metadata = {{"epoch", "1"}}};
    }
    const absl::Duration timeout = ToDuration(scenario_.timeout);
    ASSIGN_OR_RETURN(checkpoint, trainers::ShareCheckpoint(std::move(checkpoint), world_, timeout));
    weights() = FirstWeights(scenario_);
    if (checkpoint.has_value()) {
      result_.steps = checkpoint->step;
      if (world_.rank() == 0) weights() = on_disk.weights;
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
    Device& device = rank_.machine.devices.device(0);
    ASSIGN_OR_RETURN(stream_, device.NewStream(StreamKind::kCollective));
    ASSIGN_OR_RETURN(average_, WorldCollectives(world_, towers, scenario_.sum, scenario_.route)(
                                   {.kind = CollectiveKind::kMean,
                                    .name = "gradients",
                                    .dtype = DType::kFloat32,
                                    .elements = scenario_.elements,
                                    .participants = {&device},
                                    .ranks = {{.participant = 0, .data = gradient_.data(), .weight = &examples_}},
                                    .first = world_.rank(),
                                    .size = world_.size()}));
    return absl::OkStatus();
  }

  const RankOfRun& rank_;
  const Scenario& scenario_;
  World& world_;
  RankResult& result_;
  std::vector<float> gradient_;
  float examples_ = 0;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Collective> average_;
};

}  // namespace

absl::StatusOr<int> RunHandMadeProgram(const RankOfRun& rank) { return HandMadeProgram(rank).Run(); }

std::map<int64_t, std::vector<float>> CheckpointsOfHandMadeProgram(Disk& disk) {
  const Disk::Checkpoint& checkpoint = disk.checkpoint();
  if (checkpoint.step < 0) return {};
  return {{checkpoint.step, checkpoint.weights}};
}

std::vector<std::vector<float>> WeightsOfHandMadeProgram(const Scenario& scenario, Machine& machine) {
  std::vector<std::vector<float>> weights = {FirstWeights(scenario)};
  std::vector<std::vector<float>> gradients(scenario.ranks, std::vector<float>(scenario.elements));
  std::vector<float> examples(scenario.ranks);
  CollectiveSpec spec{.kind = CollectiveKind::kMean,
                      .dtype = DType::kFloat32,
                      .elements = scenario.elements,
                      .participants = {&machine.devices.device(0)}};
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    spec.ranks.push_back({.participant = 0, .data = gradients[rank].data(), .weight = &examples[rank]});
  }
  for (int64_t step = 0; step < scenario.steps; ++step) {
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      ComputeGradient(scenario, rank, step, weights.back(), absl::MakeSpan(gradients[rank]));
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
    weights.push_back(weights.back());
    Update(gradients[0], weights.back());
  }
  return weights;
}

}  // namespace belfry::simulation
