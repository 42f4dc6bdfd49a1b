#include "trainers/program/explain.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/compiler/plan_report.h"
#include "framework/compiler/recheck.h"
#include "framework/device/described_gpu.h"
#include "trainers/prediction/gpu_report.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kMaxBatch = int64_t{1} << 20;

using Explanations = std::vector<Session::Explanation>;

absl::StatusOr<Explanations> Compile(Session& session, const std::vector<PlannedStep>& steps) {
  Explanations explained;
  for (const PlannedStep& step : steps) {
    ASSIGN_OR_RETURN(explained.emplace_back(), session.Explain(step.feeds, step.fetches, step.targets));
  }
  return explained;
}

// Bytes of all steps together on one device.
size_t BytesNeeded(const Explanations& steps, int device) {
  size_t bytes = steps[0].memory[device].variables();
  for (const Session::Explanation& step : steps) {
    bytes += step.memory[device].total() - step.memory[device].variables();
  }
  return bytes;
}

// The first device without enough memory, or -1.
int TooSmall(Session& session, const Explanations& steps, std::optional<size_t> limit) {
  for (int device = 0; device < session.devices().size(); ++device) {
    const size_t available = limit.value_or(session.devices().device(device).counters().memory_limit);
    if (BytesNeeded(steps, device) > available) return device;
  }
  return -1;
}

// The bytes that each step may have beside the variables of a device so that all together fit into `limit`: as much for
// all, but for steps that need less. `most`: the answer of the last time, at which the steps of `explained` were
// compiled and did not fit; those that need more cannot do with less. 0 if there is no answer.
size_t ShareOfStep(const Explanations& explained, int device, size_t limit, size_t most) {
  const size_t variables = explained[0].memory[device].variables();
  std::vector<size_t> needed;
  size_t left = limit - std::min(limit, variables);
  for (const Session::Explanation& step : explained) {
    const size_t bytes = step.memory[device].total() - variables;
    if (bytes > most) {
      left -= std::min(left, bytes);
    } else {
      needed.push_back(bytes);
    }
  }
  std::sort(needed.begin(), needed.end());
  for (size_t i = 0; i < needed.size(); ++i) {
    const size_t share = left / (needed.size() - i);
    if (needed[i] > share) return share;
    left -= needed[i];
  }
  return 0;
}

// Compiles the steps so that all of them fit into `limit` bytes of each device, with recomputation where they need more
// without it, and leaves the session's limit for those that compile them again. If they cannot fit, they take the least
// that they can.
absl::StatusOr<Explanations> CompileWithin(Session& session, const std::vector<PlannedStep>& steps,
                                           std::optional<size_t> limit) {
  constexpr int kTries = 3;
  session.LimitArenas(0);
  ASSIGN_OR_RETURN(Explanations explained, Compile(session, steps));
  if (!limit.has_value()) return explained;
  size_t share = std::numeric_limits<size_t>::max();
  for (int i = 0, device = 0; i < kTries && (device = TooSmall(session, explained, limit)) >= 0; ++i) {
    const size_t next = ShareOfStep(explained, device, *limit, share);
    // Another share may leave too little for the steps that need more than theirs.
    share = i + 1 < kTries && 0 < next && next < share ? next : 1;
    session.LimitArenas(share);
    ASSIGN_OR_RETURN(explained, Compile(session, steps));
    if (share == 1) break;
  }
  return explained;
}

// A step that does not compile, because the libraries count elements in 32 bits, does not fit either.
bool Fits(Session& session, const std::vector<PlannedStep>& steps, std::optional<size_t> limit) {
  const absl::StatusOr<Explanations> explained = CompileWithin(session, steps, limit);
  return explained.ok() && TooSmall(session, *explained, limit) < 0;
}

// Doubles the batch until it does not fit, then bisects. At most `most`.
int64_t LargestBatch(Session& session, const PlannedSteps& steps, int64_t towers, int64_t most,
                     std::optional<size_t> limit) {
  const int64_t most_each = most / towers;
  int64_t fits = 0, fails = 1;  // examples of each tower
  while (fits < most_each && Fits(session, steps(fails * towers), limit)) {
    fits = fails;
    fails = std::min(2 * fails, most_each);
  }
  if (fits == most_each) return fits * towers;
  while (fails - fits > std::max<int64_t>(1, fits / 64)) {
    const int64_t middle = (fits + fails) / 2;
    (Fits(session, steps(middle * towers), limit) ? fits : fails) = middle;
  }
  return fits * towers;
}

// One line per step after the first: its memory on the device where it needs the most.
std::string OthersText(const std::vector<PlannedStep>& steps, const Explanations& explained) {
  std::string text;
  for (size_t i = 1; i < steps.size(); ++i) {
    size_t max = 0;
    for (const DeviceMemoryReport& report : explained[i].memory) {
      max = std::max(max, report.total() - report.variables());
    }
    absl::StrAppendFormat(&text, "  %10.2f MiB  %s\n", max / kMebi, steps[i].name);
  }
  return text.empty() ? text : absl::StrCat("The other steps of the run need, in addition, on one device\n", text);
}

}  // namespace

absl::Status FitMemoryLimit(Session& session, const std::vector<PlannedStep>& steps, size_t limit) {
  ASSIGN_OR_RETURN(const Explanations explained, CompileWithin(session, steps, limit));
  const int device = TooSmall(session, explained, limit);
  if (device < 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "The run needs at least %.2f MiB on %s, however much it recomputes, but only %.2f MiB are allowed; use a smaller "
      "batch, more towers, which a device runs one after the other, or 16-bit numbers. --explain lists what needs it",
      BytesNeeded(explained, device) / kMebi, session.devices().device(device).name().ToString(), limit / kMebi));
}

absl::StatusOr<std::string> ExplainRun(Session& session, const PlannedSteps& steps, int64_t batch_size, int towers,
                                       int64_t examples, std::optional<size_t> limit) {
  // First, since it changes the session's limit, which is to be that of this batch for what is explained later.
  const int64_t most = std::min(kMaxBatch, examples);
  const int64_t largest = LargestBatch(session, steps, towers, most, limit);
  const std::vector<PlannedStep> planned = steps(batch_size);
  ASSIGN_OR_RETURN(const Explanations explained, CompileWithin(session, planned, limit));
  const std::string step =
      absl::StrFormat("training step with a batch of %d on %s", batch_size, Counted(towers, "tower"));
  const auto update =
      std::find_if(planned.begin(), planned.end(), [](const PlannedStep& one) { return one.feeds.empty(); });
  std::string text = update == planned.end() ? absl::StrCat("A ", step, "\n\n")
                                             : absl::StrCat("The run of one tower on each device, of which a ", step,
                                                            " has several before its update\n\n");
  absl::StrAppend(&text, ExplainPlan(*explained[0].plan, explained[0].memory, session.devices()), "\n");
  if (session.recheck() > 0) {
    const int devices = session.devices().size();
    absl::StrAppend(&text, RecheckText(PlanRecheck(*explained[0].plan, session.recheck(), devices)), "\n");
  }
  if (update != planned.end()) {
    const Session::Explanation& of = explained[static_cast<size_t>(update - planned.begin())];
    absl::StrAppend(&text, "The update\n\n", ExplainPlan(*of.plan, of.memory, session.devices()), "\n");
  }
  absl::StrAppend(&text, OthersText(planned, explained));
  const std::string on = limit.has_value() ? absl::StrFormat("%.2f MiB on each device", *limit / kMebi)
                                           : std::string("the memory of the devices");
  if (largest == 0) {
    absl::StrAppendFormat(&text, "No batch fits into %s.\n", on);
  } else if (largest <= most - towers) {
    absl::StrAppendFormat(&text, "The largest batch that fits into %s: about %d.\n", on, largest);
  } else {
    absl::StrAppendFormat(&text, "A batch of %d fits into %s; %s.\n", largest, on,
                          examples <= kMaxBatch ? absl::StrFormat("the data has only %s", Counted(examples, "example"))
                                                : "larger ones were not tried");
  }
  return text;
}

absl::StatusOr<std::string> ExplainOnCard(Session& session, const PlannedStep& step, const GpuCard& card,
                                          SessionOptions options) {
  ASSIGN_OR_RETURN(const auto fused, session.Explain(step.feeds, step.fetches, step.targets));
  const std::vector<int> towers = session.devices().TowerDevices();
  // Devices of their own, since both sessions have room for the variables.
  const int cards = static_cast<int>(towers.size());
  const Device& first = session.devices().device(towers[0]);
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDescribedGpus(absl::StrCat("gpu:", cards), *DescriptionOf(first),
                                                              {.ignore_launcher = true, .math = first.math()}));
  options.fuse = false;
  options.dump_plan.clear();
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> without, Session::Create(session.graph(), devices, options));
  ASSIGN_OR_RETURN(const auto unfused, without->Explain(step.feeds, step.fetches, step.targets));
  return PredictionText(*fused.plan, *unfused.plan, towers[0], cards, card);
}

absl::StatusOr<std::string> ExplainAverages(const World& world, Session& session, const PlannedStep& step,
                                            WorldSum sum) {
  ASSIGN_OR_RETURN(const auto explained, session.Explain(step.feeds, step.fetches, step.targets));
  std::map<int, double> collectives;  // bytes of one rank
  for (const ProgramNode& node : explained.plan->program.nodes) {
    if (node.collective >= 0) collectives[node.collective] = static_cast<double>(CollectiveBytes(node));
  }
  double bytes = 0;
  for (const auto& [collective, of_one] : collectives) bytes += of_one;
  // A slice of each tower, and the sum of it; round a ring, a slice of each process instead.
  const size_t slices = sum == WorldSum::kTowers ? session.devices().TowerDevices().size() + 1 : 2;
  return absl::StrFormat("Between %d processes: each sends and receives %.3f MiB a step in %d averages.\n",
                         world.size(), slices * bytes * (world.size() - 1) / world.size() / kMebi, collectives.size());
}

}  // namespace belfry::trainers
