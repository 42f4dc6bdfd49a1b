#include "benchmarks/paired_runs.h"

#include <algorithm>
#include <cstdio>

#include "framework/base/status.h"

namespace belfry::benchmarks {

absl::StatusOr<double> Rate(const std::function<absl::Status()>& step, double seconds,
                            const std::function<absl::Status()>& finish) {
  const auto start = Clock::now();
  int64_t steps = 0, batch = 1;
  double elapsed = 0;
  // Time many short steps together, so that reading the clock does not count.
  while (elapsed < seconds) {
    for (int64_t i = 0; i < batch; ++i) RETURN_IF_ERROR(step());
    steps += batch;
    elapsed = Seconds(start);
    if (elapsed < seconds / 16) batch *= 2;
  }
  if (finish) RETURN_IF_ERROR(finish());
  return static_cast<double>(steps) / Seconds(start);
}

absl::Status RunPaired(std::vector<Side>& sides, int rounds, double seconds) {
  for (Side& side : sides) RETURN_IF_ERROR(Rate(side.step, seconds / 4, side.finish).status());
  for (int round = 0; round < rounds; ++round) {
    for (Side& side : sides) {
      ASSIGN_OR_RETURN(const double steps, Rate(side.step, seconds, side.finish));
      side.rates.push_back(steps * side.items_per_step);
    }
  }
  return absl::OkStatus();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<double> Ratios(const Side& a, const Side& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.rates.size(); ++i) ratios.push_back(a.rates[i] / b.rates[i]);
  return ratios;
}

double MedianRatio(const Side& a, const Side& b) { return Median(Ratios(a, b)); }

void PrintRates(const std::vector<Side>& sides, const std::string& unit) {
  for (const Side& side : sides) {
    const auto [low, high] = std::minmax_element(side.rates.begin(), side.rates.end());
    std::printf("%-44s %12.0f [%.0f .. %.0f] %s, %zu runs\n", side.name.c_str(), Median(side.rates), *low, *high,
                unit.c_str(), side.rates.size());
  }
}

}  // namespace belfry::benchmarks
