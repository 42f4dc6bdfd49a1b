#include "trainers/explain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/data/sampler.h"
#include "framework/runtime/plan_report.h"

namespace belfry::trainers {
namespace {

constexpr double kMebi = 1024.0 * 1024.0;
constexpr int64_t kLargestBatch = int64_t{1} << 20;

absl::StatusOr<Session::Explanation> Compile(Session& session, const models::TrainStep& step,
                                             const models::InputSpec& input, int64_t batch_size) {
  return session.Explain(FeedsOf(step, input, batch_size), {step.loss, step.learning_rate}, {step.update});
}

// The first device on which `memory` is too large, or -1.
int TooSmall(Session& session, const std::vector<DeviceMemoryReport>& memory, std::optional<size_t> limit) {
  for (int device = 0; device < session.devices().size(); ++device) {
    const size_t has = limit.value_or(session.devices().device(device).counters().memory_limit);
    if (memory[device].total() > has) return device;
  }
  return -1;
}

// What cannot even be compiled, because the libraries count elements in 32 bits, does not fit either.
bool Fits(Session& session, const models::TrainStep& step, const models::InputSpec& input, int64_t batch_size,
          std::optional<size_t> limit) {
  const absl::StatusOr<Session::Explanation> explained = Compile(session, step, input, batch_size);
  return explained.ok() && TooSmall(session, explained->memory, limit) < 0;
}

// By doubling, then halving what is between.
int64_t LargestBatch(Session& session, const models::TrainStep& step, const models::InputSpec& input,
                     std::optional<size_t> limit) {
  const auto towers = static_cast<int64_t>(step.towers.size());
  int64_t fits = 0, fails = 1;  // examples of each tower
  while (Fits(session, step, input, fails * towers, limit)) {
    fits = fails;
    if (fits * towers >= kLargestBatch) return fits * towers;
    fails *= 2;
  }
  while (fails - fits > std::max<int64_t>(1, fits / 64)) {
    const int64_t middle = (fits + fails) / 2;
    (Fits(session, step, input, middle * towers, limit) ? fits : fails) = middle;
  }
  return fits * towers;
}

}  // namespace

std::vector<FeedSpec> FeedsOf(const models::TrainStep& step, const models::InputSpec& input, int64_t batch_size) {
  std::vector<FeedSpec> feeds;
  const auto towers = static_cast<int>(step.towers.size());
  for (int i = 0; i < towers; ++i) {
    const int64_t count = data::RangeOfTower(batch_size, towers, i).count;
    feeds.push_back({step.towers[i].batch.images, input.inputs.Insert(0, count)});
    feeds.push_back({step.towers[i].batch.labels, {count}});
  }
  return feeds;
}

absl::Status CheckMemoryLimit(Session& session, const models::TrainStep& step, const models::InputSpec& input,
                              int64_t batch_size, size_t limit) {
  ASSIGN_OR_RETURN(const Session::Explanation explained, Compile(session, step, input, batch_size));
  const int device = TooSmall(session, explained.memory, limit);
  if (device < 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "A step with a batch of %d needs %.2f MiB on %s, and %.2f MiB are allowed; a smaller batch or more towers need "
      "less\n%s",
      batch_size, explained.memory[device].total() / kMebi, session.devices().device(device).name().ToString(),
      limit / kMebi, MemoryTable(explained.memory, session.devices())));
}

absl::StatusOr<std::string> ExplainTraining(Session& session, const models::TrainStep& step,
                                            const models::InputSpec& input, int64_t batch_size,
                                            std::optional<size_t> limit) {
  ASSIGN_OR_RETURN(const Session::Explanation explained, Compile(session, step, input, batch_size));
  std::string text =
      absl::StrFormat("A training step with a batch of %d on %d towers\n\n", batch_size, step.towers.size());
  absl::StrAppend(&text, ExplainPlan(*explained.plan, explained.memory, session.devices()), "\n");
  const int64_t largest = LargestBatch(session, step, input, limit);
  const std::string on = limit.has_value() ? absl::StrFormat("%.2f MiB on each device", *limit / kMebi)
                                           : std::string("the memory that the devices have");
  absl::StrAppend(
      &text, largest >= kLargestBatch ? absl::StrFormat("A batch of %d, and maybe more, fits into %s.\n", largest, on)
             : largest > 0            ? absl::StrFormat("The largest batch that fits into %s: about %d.\n", on, largest)
                                      : absl::StrFormat("No batch fits into %s.\n", on));
  return text;
}

}  // namespace belfry::trainers
