#include "trainers/program/bucket_choice.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "ops/builtin_ops.h"
#include "trainers/loop/planned_step.h"
#include "trainers/prediction/measured_link.h"
#include "trainers/prediction/step_model.h"

namespace belfry::trainers {
namespace {

constexpr size_t kSmallestBucket = size_t{64} << 10, kLargestBucket = size_t{1} << 30;
constexpr int kUntracedSteps = 2, kTracedSteps = 7;

// Averages nothing, at once.
class NoAverage final : public Collective {
 public:
  absl::Status Run(int, Stream&, uint32_t, absl::Time) override { return absl::OkStatus(); }
  void Cancel() override {}
  void Reset(uint32_t) override {}
};

absl::StatusOr<std::unique_ptr<Collective>> MakeNoAverage(CollectiveSpec) { return std::make_unique<NoAverage>(); }

// A training step in a session of its own.
struct Trial {
  Graph graph{BuiltinOps()};
  std::unique_ptr<Session> session;
  models::TrainStep step;
  PlannedStep planned;
};

struct Trials {
  const DeviceSet& devices;
  SessionOptions session;
  int64_t batch_size;
  const TrainStepOf& step;

  absl::StatusOr<std::unique_ptr<Trial>> Make(size_t bucket_bytes) const {
    auto trial = std::make_unique<Trial>();
    trial->step = step(trial->graph, bucket_bytes);
    RETURN_IF_ERROR(trial->graph.status());
    ASSIGN_OR_RETURN(trial->session, Session::Create(trial->graph, devices, session));
    trial->planned = TrainingStep(trial->step, batch_size);
    return trial;
  }
};

absl::StatusOr<KernelTimes> TimeKernels(const Trial& trial, int device) {
  const auto& [name, feeds, fetches, targets] = trial.planned;
  RETURN_IF_ERROR(trial.session->RunTarget(trial.step.initialize));
  ASSIGN_OR_RETURN(const auto prepared, trial.session->Prepare(feeds, fetches, targets));
  std::vector<Tensor> zeros;
  for (const FeedSpec& feed : feeds) {
    zeros.emplace_back(feed.output.dtype(), feed.shape);
    std::memset(zeros.back().raw(), 0, zeros.back().bytes());
  }
  for (int i = 0; i < kUntracedSteps; ++i) RETURN_IF_ERROR(prepared->Run(zeros));
  std::vector<StepTrace> traces(kTracedSteps);
  for (StepTrace& trace : traces) RETURN_IF_ERROR(prepared->RunTraced(zeros, trace));
  return MedianKernelTimes(prepared->plan(), traces, device);
}

absl::StatusOr<StepModel> ModelOf(const Trial& trial, int device, const KernelTimes& times) {
  ASSIGN_OR_RETURN(const auto explained,
                   trial.session->Explain(trial.planned.feeds, trial.planned.fetches, trial.planned.targets));
  return MakeStepModel(*explained.plan, device, times);
}

// The choice of one process, by its own times.
absl::StatusOr<BucketChoice> Choose(const Trials& trials, const Exchange& exchange, int64_t processes, size_t usual) {
  const int device = trials.devices.TowerDevices()[0];
  ASSIGN_OR_RETURN(std::unique_ptr<Trial> trial, trials.Make(usual));
  ASSIGN_OR_RETURN(const KernelTimes times, TimeKernels(*trial, device));
  std::vector<size_t> sizes = {usual};
  std::vector<StepModel> models;
  ASSIGN_OR_RETURN(models.emplace_back(), ModelOf(*trial, device, times));
  const double all = models[0].bytes();
  for (size_t size = kSmallestBucket; size < kLargestBucket; size *= 4) {
    if (size == usual) continue;
    ASSIGN_OR_RETURN(trial, trials.Make(size));
    ASSIGN_OR_RETURN(models.emplace_back(), ModelOf(*trial, device, times));
    sizes.push_back(size);
    if (static_cast<double>(size) >= all) break;
  }
  const PredictOptions options{.exchange = exchange};
  ASSIGN_OR_RETURN(const size_t best, ShortestStep(models, options, processes));
  ASSIGN_OR_RETURN(const Prediction chosen, Predict(models[best], options, processes));
  ASSIGN_OR_RETURN(const Prediction by_default, Predict(models[0], options, processes));
  return BucketChoice{sizes[best], absl::StrFormat("%d averages a step, of %d KiB or more, chosen for the measured "
                                                   "link: %.1f ms a step predicted, %.1f with %d KiB",
                                                   models[best].collectives(), sizes[best] >> 10, chosen.step * 1e3,
                                                   by_default.step * 1e3, usual >> 10)};
}

}  // namespace

absl::StatusOr<std::optional<size_t>> ParseBucketSize(absl::string_view text) {
  if (text.empty()) return 0;
  if (text == "auto") return std::nullopt;
  absl::string_view digits = text;
  int shift = 0;
  if (absl::ConsumeSuffix(&digits, "K")) {
    shift = 10;
  } else if (absl::ConsumeSuffix(&digits, "M")) {
    shift = 20;
  }
  size_t number = 0;
  const bool plain = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
  if (!plain || !absl::SimpleAtoi(digits, &number) || number < 1 || number > kLargestBucket >> shift) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bucket_size=", text, "; expected bytes up to 1024M, such as 65536, 512K or 4M, or auto"));
  }
  return number << shift;
}

absl::StatusOr<std::string> KindOfAllTowers(World& world, const DeviceSet& devices, absl::Time deadline) {
  std::set<std::string> kinds;
  for (const int tower : devices.TowerDevices()) kinds.emplace(devices.device(tower).type());
  ASSIGN_OR_RETURN(const std::vector<std::string> all, world.AllGather(absl::StrJoin(kinds, "+"), deadline));
  return std::all_of(all.begin(), all.end(), [&](const std::string& kind) { return kind == all[0]; }) ? all[0] : "";
}

absl::StatusOr<BucketChoice> ChooseBuckets(World& world, const DeviceSet& devices, const SessionOptions& session,
                                           ExchangeWay way, int64_t batch_size, size_t usual, const TrainStepOf& step,
                                           absl::Time deadline) {
  Exchange exchange{.way = way, .towers = static_cast<int>(devices.TowerDevices().size())};
  int threads = 0;
  for (const int tower : devices.TowerDevices()) {
    if (devices.device(tower).type() != "CPU") {
      return absl::InvalidArgumentError("buckets are chosen by measurements for towers on CPUs only");
    }
    threads += devices.device(tower).threads();
  }
  ASSIGN_OR_RETURN(const MeasuredLink link, MeasureLink(world, threads, deadline));
  RETURN_IF_ERROR(SetLink(link, exchange));
  Trials trials{devices, session, batch_size, step};
  trials.session.collectives = MakeNoAverage;
  trials.session.dump_plan.clear();
  trials.session.log_device_placement = trials.session.check_numerics = false;
  trials.session.recheck = 0;
  // All at the same time, as they will run; processes of one machine may slow each other.
  ASSIGN_OR_RETURN(const BucketChoice own, Choose(trials, exchange, world.size(), usual));
  ASSIGN_OR_RETURN(const std::string text, world.Broadcast(absl::StrCat(own.bytes, "\n", own.text), deadline));
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('\n', 1));
  BucketChoice choice{.bytes = 0, .text = std::string(parts.second)};
  if (!absl::SimpleAtoi(parts.first, &choice.bytes)) return absl::InternalError("task 0 sent no bucket size");
  return choice;
}

}  // namespace belfry::trainers
