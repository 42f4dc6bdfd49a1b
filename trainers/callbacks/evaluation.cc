#include "trainers/callbacks/evaluation.h"

#include <cmath>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "spdlog/fmt/fmt.h"

namespace belfry::trainers {
namespace {

constexpr char kNameKey[] = "trainer.best_by", kBestKey[] = "trainer.best";
constexpr char kStepKey[] = "trainer.best_step";
constexpr char kSinceKey[] = "trainer.evaluations_since_best", kPercentKey[] = "trainer.best_in_percent";

bool IsBetter(const Metric& metric, const Metric& best) {
  if (std::isnan(metric.value) || std::isnan(best.value)) return !std::isnan(metric.value);
  return metric.larger_is_better ? metric.value > best.value : metric.value < best.value;
}

}  // namespace

absl::Status CheckNames(const Evaluation& evaluation, absl::string_view who) {
  if (evaluation.metrics.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(who, " has no metric; expected at least one"));
  }
  std::set<absl::string_view> names;
  for (size_t i = 0; i < evaluation.metrics.size(); ++i) {
    const std::string& name = evaluation.metrics[i].name;
    if (name.empty()) return absl::InvalidArgumentError(absl::StrCat(who, " has metric ", i, " without a name"));
    if (names.insert(name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(who, " has two metrics of the name '", name, "'; each needs one of its own"));
  }
  return absl::OkStatus();
}

std::string ShortNumber(double value) {
  const double size = std::abs(value);
  if (std::isnan(value)) return "nan";  // without the sign that it may have
  return size == 0 || (size >= 1e-3 && size < 1e6) ? absl::StrFormat("%.4f", value) : fmt::format("{:.4g}", value);
}

std::string MetricText(const Metric& metric) {
  const std::string name = absl::StrReplaceAll(metric.name, {{"_", "-"}});
  return metric.percent ? absl::StrFormat("%s %.2f%%", name, 100 * metric.value)
                        : absl::StrCat(name, " ", ShortNumber(metric.value));
}

void BestEvaluation::Load(const io::Metadata& metadata) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  best_.name = text(kNameKey);
  best_.percent = text(kPercentKey) == "true";
  if (!absl::SimpleAtod(text(kBestKey), &best_.value) || !absl::SimpleAtoi(text(kSinceKey), &since_)) since_ = -1;
  if (!absl::SimpleAtoi(text(kStepKey), &step_)) step_ = -1;  // not in checkpoints of older versions
}

void BestEvaluation::Store(io::Metadata& metadata) const {
  if (since_ < 0) return;
  metadata[kNameKey] = best_.name;
  metadata[kPercentKey] = best_.percent ? "true" : "false";
  metadata[kBestKey] = fmt::format("{:.17g}", best_.value);
  metadata[kSinceKey] = absl::StrCat(since_);
  if (step_ >= 0) metadata[kStepKey] = absl::StrCat(step_);
}

void BestEvaluation::Add(const Metric& metric, int64_t step) {
  if (since_ < 0 || metric.name != best_.name || IsBetter(metric, best_)) {
    best_ = metric;
    since_ = 0;
    step_ = step;
  } else if (step_ < 0 && metric.value == best_.value) {  // a checkpoint of before that did not say which step it was
    step_ = step;
  } else {
    ++since_;
  }
  best_.larger_is_better = metric.larger_is_better;  // metadata do not say
}

}  // namespace belfry::trainers
