#include "benchmarks/prediction/traced_tower.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"

namespace belfry::benchmarks {
namespace {

constexpr int kUntracedSteps = 5, kTracedSteps = 20;
constexpr absl::Duration kStart = absl::Minutes(5);  // for processes to meet
constexpr size_t kSmallestBucket = size_t{64} << 10;
// Standard deviation of normal values over the median of their distances from the median.
constexpr double kDeviationOfMedian = 1.4826;

// Averages nothing, at once.
class NoAverage : public Collective {
 public:
  absl::Status Run(int, Stream&, uint32_t, absl::Time) override { return absl::OkStatus(); }
  void Cancel() override {}
  void Reset(uint32_t) override {}
};

// A tower with all examples, in a plan of two that average nothing.
absl::StatusOr<std::unique_ptr<TrainingRun>> MakeTowerOfTwo(TrainingOptions options) {
  options.devices = "cpu:2";
  options.device.bind_threads = false;  // the second tower has nothing to do
  options.in_first_tower = true;
  options.session.collectives = [](const CollectiveSpec&) { return std::make_unique<NoAverage>(); };
  return TrainingRun::Create(options);
}

// Adds the times of a device's kernels in a step, by node. Returns their sum.
double AddSeconds(const Plan& plan, const StepTrace& trace, int device,
                  std::map<std::string, std::vector<double>>& by_node) {
  double sum = 0;
  for (const StepSpan& span : trace.spans) {
    if (plan.streams[span.stream].device != device || span.instruction.kind != Instruction::Kind::kRun) continue;
    const double seconds = absl::ToDoubleSeconds(span.end - span.begin);
    by_node[plan.program.nodes[span.instruction.index].name].push_back(seconds);
    sum += seconds;
  }
  return sum;
}

double Deviation(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> distances;
  for (double value : values) distances.push_back(std::abs(value - median));
  return kDeviationOfMedian * Median(distances);
}

bool SameCollectives(const StepModel& a, const StepModel& b) {
  return std::equal(
      a.collective.begin(), a.collective.end(), b.collective.begin(), b.collective.end(),
      [](const ModelInstruction& x, const ModelInstruction& y) { return x.kind == y.kind && x.bytes == y.bytes; });
}

}  // namespace

absl::StatusOr<TracedTower> TraceTower(TrainingOptions options) {
  options.devices = "cpu:1";
  ASSIGN_OR_RETURN(const auto alone, TrainingRun::Create(options));
  ASSIGN_OR_RETURN(const auto tower, MakeTowerOfTwo(options));
  for (int i = 0; i < kUntracedSteps; ++i) {
    RETURN_IF_ERROR(alone->Step());
    RETURN_IF_ERROR(tower->Step());
  }

  const Plan& plan = tower->prepared().plan();
  const int device = tower->devices().TowerDevices()[0];
  std::map<std::string, std::vector<double>> by_node;
  std::vector<double> alone_seconds, compute_seconds;
  for (int i = 0; i < kTracedSteps; ++i) {
    StepTrace step;
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(alone->Step());
    alone_seconds.push_back(Seconds(begin));
    RETURN_IF_ERROR(tower->TracedStep(step));
    compute_seconds.push_back(AddSeconds(plan, step, device, by_node));
  }
  TracedTower traced{
      .alone = Median(alone_seconds), .compute = Median(compute_seconds), .straggling = Deviation(compute_seconds)};

  KernelTimes times;
  double sum = 0;
  for (const auto& [name, seconds] : by_node) sum += times[name] = Median(seconds);
  // Occasional delays show in the median of a step's sum, but not in the median of any one kernel.
  for (auto& [name, seconds] : times) seconds *= traced.compute / sum;
  const auto add = [&](TrainingRun& from, size_t bucket_bytes) {
    ASSIGN_OR_RETURN(StepModel model, MakeStepModel(from.prepared().plan(), device, times));
    for (const BucketedStep& step : traced.steps) {
      if (SameCollectives(step.model, model)) return absl::OkStatus();
    }
    traced.steps.push_back({bucket_bytes, std::move(model)});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add(*tower, models::DefaultBucketBytes(tower->devices())));
  const double bytes = traced.steps[0].model.bytes();
  for (size_t size = kSmallestBucket; static_cast<double>(size) / 2 < bytes; size *= 2) {
    options.replicate.bucket_bytes = size;
    ASSIGN_OR_RETURN(const auto other, MakeTowerOfTwo(options));
    RETURN_IF_ERROR(add(*other, size));
  }
  return traced;
}

absl::Status TakeSlowest(World& world, TracedTower& tower) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   world.AllGather(absl::StrCat(tower.compute), SteadyNow() + kStart));
  double slowest = tower.compute;
  for (const std::string& text : texts) {
    double compute = 0;
    if (!absl::SimpleAtod(text, &compute)) return absl::InternalError("a process sent no time of its kernels");
    slowest = std::max(slowest, compute);
  }
  for (BucketedStep& step : tower.steps) {
    for (ModelInstruction& instruction : step.model.compute) instruction.seconds *= slowest / tower.compute;
  }
  tower.compute = slowest;
  return absl::OkStatus();
}

absl::StatusOr<double> TimeStep(World& world, TrainingOptions options, int steps) {
  ASSIGN_OR_RETURN(const TowersOfWorld towers, TowersOfWorld::Gather(world, 1, SteadyNow() + kStart));
  options.devices = "cpu:1";
  options.replicate.first_tower = world.rank();
  options.replicate.towers = world.size();
  options.session.collectives = WorldCollectives(world, towers, WorldSum::kTowers);
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run, TrainingRun::Create(options));
  for (int i = 0; i < kUntracedSteps; ++i) RETURN_IF_ERROR(run->Step());
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(run->Step());
    times.push_back(Seconds(begin));
  }
  return Median(times);
}

}  // namespace belfry::benchmarks
