#include "trainers/loop/learning_rate_finder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "trainers/loop/run_checkpoints.h"

namespace belfry::trainers {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kRows = 20, kBar = 40;

absl::Status CheckSearch(const models::TrainStep& step, const LearningRateSearch& search) {
  if (step.micro_batches > 1) {
    return absl::UnimplementedError(
        "The search for a learning rate needs towers that run at the same time, not in series (--micro_batches)");
  }
  if (search.low > 0 && search.low < search.high && std::isfinite(search.high) && search.steps >= 10 &&
      search.smoothing >= 0 && search.smoothing < 1 && search.divergence > 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("The search for a learning rate has rates from ", search.low, " to ", search.high, " in ",
                   search.steps, " steps, smoothing ", search.smoothing, " and divergence ", search.divergence,
                   "; expected 0 < low < high, at least 10 steps, a smoothing in [0, 1) and a divergence above 1"));
}

absl::Status Try(Session& session, const models::TrainStep& step, data::BatchSource& input,
                 const LearningRateSearch& search, FoundLearningRate& found) {
  double average = 0, lowest = std::numeric_limits<double>::infinity();
  const double factor = std::log(search.high / search.low) / static_cast<double>(search.steps - 1);
  for (int64_t i = 0; i < search.steps; ++i) {
    const double rate = search.low * std::exp(factor * static_cast<double>(i));
    ASSIGN_OR_RETURN(const data::Batch batch, input.Next());
    std::vector<Feed> feeds = {{step.learning_rate, Tensor::Scalar(static_cast<float>(rate))}};
    for (size_t t = 0; t < step.towers.size(); ++t) {
      const std::vector<Feed> of_tower = step.towers[t].batch.Feeds(batch.towers()[t]);
      feeds.insert(feeds.end(), of_tower.begin(), of_tower.end());
    }
    ASSIGN_OR_RETURN(const std::vector<Tensor> result, session.Run(feeds, {step.loss}, {step.update}));
    const double loss = result[0].scalar<float>();
    average = search.smoothing * average + (1 - search.smoothing) * loss;
    const double smoothed = average / (1 - std::pow(search.smoothing, static_cast<double>(i + 1)));
    if (!std::isfinite(smoothed)) break;
    found.tried.push_back({rate, loss, smoothed});
    if (smoothed < lowest) {
      lowest = smoothed;
      found.lowest = rate;
    }
    if (smoothed > search.divergence * lowest) break;
  }
  return absl::OkStatus();
}

// The rate with the lowest slope over the logarithm of the rate, between its neighbours.
double Steepest(const std::vector<TriedRate>& tried) {
  double lowest = 0, rate = kNaN;
  for (size_t i = 1; i + 1 < tried.size(); ++i) {
    const double slope =
        (tried[i + 1].smoothed - tried[i - 1].smoothed) / std::log(tried[i + 1].rate / tried[i - 1].rate);
    if (slope < lowest) {
      lowest = slope;
      rate = tried[i].rate;
    }
  }
  return rate;
}

}  // namespace

absl::StatusOr<FoundLearningRate> FindLearningRate(Session& session, const models::TrainStep& step,
                                                   data::BatchSource& input, const LearningRateSearch& search) {
  RETURN_IF_ERROR(CheckSearch(step, search));
  RETURN_IF_ERROR(InitializeOthers(session, {step.initialize}));
  ASSIGN_OR_RETURN(const std::vector<Variable> variables, session.InitializedVariables());
  std::vector<Tensor> values(variables.size());
  RETURN_IF_ERROR(session.ReadVariables(variables, absl::MakeSpan(values)));
  io::Metadata place;
  input.PutPosition(input.position(), place);
  FoundLearningRate found;
  absl::Status status = Try(session, step, input, search, found);
  status.Update(session.WriteVariables(variables, values));
  if (const absl::Status moved = input.Resume(place); !absl::IsUnimplemented(moved)) status.Update(moved);
  RETURN_IF_ERROR(status);
  found.steepest = Steepest(found.tried);
  return found;
}

std::string LearningRateTable(const FoundLearningRate& found) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const TriedRate& tried : found.tried) {
    low = std::min(low, tried.smoothed);
    high = std::max(high, tried.smoothed);
  }
  std::string text = "     rate       loss    average\n";
  const size_t every = std::max<size_t>(found.tried.size() / kRows, 1);
  for (size_t i = 0; i < found.tried.size(); i += every) {
    const TriedRate& tried = found.tried[i];
    const double share = high > low ? (tried.smoothed - low) / (high - low) : 0;
    absl::StrAppendFormat(&text, "%9.2e  %9.4g  %9.4g  %s\n", tried.rate, tried.loss, tried.smoothed,
                          std::string(static_cast<size_t>(std::lround(share * kBar)), '#'));
  }
  if (std::isnan(found.steepest)) return text + "The loss falls at none of these rates.\n";
  absl::StrAppendFormat(&text,
                        "Suggestion: --learning_rate=%.2g, where the average falls fastest. It is lowest at %.2g, ",
                        found.steepest, found.lowest);
  const bool rose = found.tried.back().rate > found.lowest;
  return text + (rose
                     ? "which is too high.\n"
                     : "the largest rate tried, before the losses rise: train a few steps at the suggested rate, which "
                       "may be too high.\n");
}

}  // namespace belfry::trainers
