#include "benchmarks/prediction/scaling_prediction.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

namespace belfry::benchmarks {
namespace {

constexpr double kGoodEfficiency = 0.9;
constexpr int64_t kMostProcesses = 1'000'000;

absl::Status BadCounts(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("--predict=", text, "; expected ascending numbers of processes, as in 1,2,4,...,1000"));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseCounts(absl::string_view text) {
  std::vector<int64_t> counts;
  bool doubling = false;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    if (word == "...") {
      if (counts.empty() || doubling) return BadCounts(text);
      doubling = true;
      continue;
    }
    int64_t count = 0;
    if (!absl::SimpleAtoi(word, &count) || count < 1 || count > kMostProcesses) return BadCounts(text);
    if (!counts.empty() && count <= counts.back()) return BadCounts(text);
    while (doubling && 2 * counts.back() < count) counts.push_back(2 * counts.back());
    doubling = false;
    counts.push_back(count);
  }
  return doubling ? absl::StatusOr<std::vector<int64_t>>(BadCounts(text)) : counts;
}

absl::StatusOr<Report> PredictScaling(const std::string& what, const TracedTower& tower, const PredictOptions& options,
                                      const std::vector<int64_t>& counts, const TimedSteps& timed) {
  std::vector<StepModel> models;
  for (const BucketedStep& step : tower.steps) models.push_back(step.model);
  const StepModel& model = models[0];
  Report report("prediction",
                absl::StrFormat("Prediction for %s: %.3f MiB of each tower averaged in %s, %s ms of standard "
                                "deviation of a step",
                                what, model.bytes() / kMebi, Counted(model.collectives(), "bucket"),
                                ShortNumber(options.straggling * 1e3)));
  for (size_t i = 0; i < counts.size(); ++i) {
    ASSIGN_OR_RETURN(const Prediction prediction, Predict(model, options, counts[i]));
    nlohmann::ordered_json row = {{"processes", counts[i]},
                                  {"step_ms", prediction.step * 1e3},
                                  {"images/s", prediction.images_per_second},
                                  {"efficiency", prediction.efficiency},
                                  {"exposed_ms", prediction.exposed * 1e3},
                                  {"bound_by", std::string(BoundName(prediction.bound))}};
    if (counts[i] > 1) {
      ASSIGN_OR_RETURN(const size_t best, ShortestStep(models, options, counts[i]));
      ASSIGN_OR_RETURN(const Prediction with, Predict(models[best], options, counts[i]));
      row["best_bucket_KiB"] = static_cast<int64_t>(tower.steps[best].bucket_bytes >> 10);
      row["best_step_ms"] = with.step * 1e3;
    } else if (options.exchange.towers == 1) {
      row["measured_ms"] = tower.alone * 1e3;
    }
    if (!timed.rehearsed.empty()) row["rehearsed_ms"] = timed.rehearsed[i] * 1e3;
    if (timed.real.has_value() && counts[i] == timed.processes) {
      row["real_ms"] = *timed.real * 1e3;
      row["error"] = prediction.step / *timed.real - 1;
    }
    report.Add(std::move(row));
  }
  ASSIGN_OR_RETURN(const int64_t largest, LargestCount(model, options, kGoodEfficiency, kMostProcesses));
  report.Summarize(absl::StrFormat(
      "%s: %s", what,
      largest == 1 ? absl::StrFormat("a second process has an efficiency below %.1f", kGoodEfficiency)
                   : absl::StrFormat("an efficiency of %.1f or more up to %d processes%s", kGoodEfficiency, largest,
                                     largest == kMostProcesses ? ", the most that were tried" : "")));
  return report;
}

}  // namespace belfry::benchmarks
