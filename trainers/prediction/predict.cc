#include "trainers/prediction/predict.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

constexpr double kNegligible = 0.01;   // of a step, for Bound::kCompute
constexpr double kAsShort = 1 + 1e-3;  // ratio of steps that count as equal

}  // namespace

absl::string_view BoundName(Bound bound) {
  switch (bound) {
    case Bound::kCompute: return "computing";
    case Bound::kLatency: return "latency";
    case Bound::kBandwidth: return "bandwidth";
    case Bound::kProcessor: return "processor";
    case Bound::kStragglers: return "stragglers";
    case Bound::kHost: return "host";
  }
  return "";
}

CollectiveCost CostOfExchange(const Exchange& exchange, double bytes, int64_t processes) {
  if (processes <= 1) return {};
  const auto others = static_cast<double>(processes - 1);
  const double slice = bytes / static_cast<double>(processes);
  const double first = exchange.way == ExchangeWay::kSlices ? slice * exchange.towers : slice;
  const auto all = [&](const LinkTable& table) { return others * (table.Seconds(first) + table.Seconds(slice)); };
  const double sum = bytes * (exchange.towers + (exchange.way == ExchangeWay::kRing ? 1 : 0)) * exchange.sum;
  const double processor = all(exchange.processor), seconds = std::max(all(exchange.link), processor);
  return {
      .seconds = seconds + sum, .beside = std::max(seconds, all(exchange.beside)) + sum, .processor = processor + sum};
}

double ExpectedLargest(int64_t count) {
  if (count <= 1) return 0;
  const auto n = static_cast<double>(count);
  const double above = 1 - (n - 0.375) / (n + 0.25);  // the part of all values that is larger
  double low = 0, high = 10;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > above ? low : high) = middle;
  }
  return low;
}

absl::StatusOr<Prediction> Predict(const StepModel& model, const PredictOptions& options, int64_t processes) {
  if (processes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(processes, " processes; expected at least 1"));
  }
  const auto simulate = [&](const Exchange& exchange) {
    return SimulateStep(model, [&](double bytes) { return CostOfExchange(exchange, bytes, processes); });
  };
  ASSIGN_OR_RETURN(const SimulatedStep alone, SimulateStep(model, [](double) { return CollectiveCost(); }));
  ASSIGN_OR_RETURN(const SimulatedStep step, simulate(options.exchange));
  Exchange without_bytes = options.exchange;
  without_bytes.link = without_bytes.beside = LinkTable::Linear(options.exchange.link.latency(), INFINITY);
  ASSIGN_OR_RETURN(const SimulatedStep wide, simulate(without_bytes));

  const auto count = static_cast<double>(processes);
  const double straggling = options.straggling * ExpectedLargest(processes);
  const double host = processes > 1 ? options.host : 0;
  Prediction prediction{.processes = processes, .step = step.seconds + straggling + host, .exposed = step.exposed};
  prediction.images_per_second = count * options.exchange.towers * options.images / prediction.step;
  prediction.efficiency = alone.seconds / prediction.step;

  const double latency = std::min(wide.exposed, step.exposed);
  double largest = 0;
  for (const auto& [bound, seconds] : {std::pair{Bound::kLatency, latency},
                                       {Bound::kBandwidth, step.exposed - latency},
                                       {Bound::kProcessor, step.slowed},
                                       {Bound::kStragglers, straggling},
                                       {Bound::kHost, host}}) {
    if (seconds <= largest) continue;
    largest = seconds;
    prediction.bound = bound;
  }
  if (prediction.step - alone.seconds < kNegligible * prediction.step) prediction.bound = Bound::kCompute;
  return prediction;
}

absl::StatusOr<int64_t> LargestCount(const StepModel& model, const PredictOptions& options, double efficiency,
                                     int64_t most) {
  const auto holds = [&](int64_t processes) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const Prediction prediction, Predict(model, options, processes));
    return prediction.efficiency >= efficiency;
  };
  int64_t good = 1, bad = most + 1;
  while (bad - good > 1) {
    const int64_t middle = bad > 2 * good ? 2 * good : good + (bad - good) / 2;
    ASSIGN_OR_RETURN(const bool held, holds(middle));
    (held ? good : bad) = middle;
  }
  return good;
}

absl::StatusOr<size_t> ShortestStep(absl::Span<const StepModel> models, const PredictOptions& options,
                                    int64_t processes) {
  std::vector<double> steps;
  for (const StepModel& model : models) {
    ASSIGN_OR_RETURN(const Prediction prediction, Predict(model, options, processes));
    steps.push_back(prediction.step);
  }
  const double shortest = *std::min_element(steps.begin(), steps.end());
  size_t best = models.size();
  for (size_t i = 0; i < models.size(); ++i) {
    if (steps[i] > shortest * kAsShort) continue;
    if (best == models.size() || models[i].collectives() < models[best].collectives()) best = i;
  }
  return best;
}

}  // namespace belfry
