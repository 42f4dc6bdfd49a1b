#include "trainers/plots/plot_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace belfry::trainers {
namespace {

constexpr int kTicks = 5;
constexpr double kLargest = 1e300;       // so that differences are finite
constexpr double kLargestOfLog = 1e140;  // so that ratios are

// 1, 2 or 5 times a power of ten.
double RoundStep(double range, int count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<double> LinearTicks(const Scale& scale, int count) {
  std::vector<double> ticks;
  const double step = RoundStep(scale.high - scale.low, count), slack = step * 1e-6;
  for (double i = std::ceil((scale.low - slack) / step); i * step <= scale.high + slack; ++i) {
    ticks.push_back(i == 0 ? 0 : i * step);
    if (i + 1 == i) break;
  }
  if (ticks.empty()) ticks.push_back(scale.low);
  return ticks;
}

}  // namespace

double Scale::Place(double value) const {
  const double place = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return std::isnan(place) ? 0 : std::clamp(place, 0.0, 1.0);
}

Scale ExactScale(double low, double high) {
  low = std::clamp(low, -kLargest, kLargest), high = std::clamp(high, -kLargest, kLargest);
  const double magnitude = std::max(std::abs(low), std::abs(high));
  if (high - low > magnitude * 1e-12) return {low, high};
  const double margin = magnitude == 0 ? 1 : magnitude * 0.05;
  return {low - margin, high + margin};
}

Scale RoundScale(double low, double high) {
  const Scale exact = ExactScale(low, high);
  const double step = RoundStep(exact.high - exact.low, kTicks);
  return {std::floor(exact.low / step + 1e-6) * step, std::ceil(exact.high / step - 1e-6) * step};
}

Scale LogScale(double low, double high) {
  low = std::clamp(low, 1 / kLargestOfLog, kLargestOfLog), high = std::clamp(high, 1 / kLargestOfLog, kLargestOfLog);
  const double margin = high > low * 1.0001 ? std::pow(high / low, 0.02) : 1.5;
  return {low / margin, high * margin, /*logarithmic=*/true};
}

std::vector<double> Ticks(const Scale& scale, int count) {
  const double decades = std::log10(scale.high / scale.low);
  if (!scale.logarithmic || decades < 1) return LinearTicks(scale, count);
  std::vector<double> ticks;
  const int every = std::max(1, static_cast<int>(std::lround(decades / count)));
  for (int power = static_cast<int>(std::floor(std::log10(scale.low))); power <= std::log10(scale.high); ++power) {
    if (power % every != 0) continue;
    for (double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      if (scale.low <= tick && tick <= scale.high && (factor == 1 || decades < 2.5)) ticks.push_back(tick);
    }
  }
  return ticks.empty() ? LinearTicks(scale, count) : ticks;
}

std::string TickText(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 1e4 && magnitude < 1e6) return absl::StrFormat("%.10gk", value / 1e3);
  if (magnitude >= 1e6 && magnitude < 1e12) return absl::StrFormat("%.10gM", value / 1e6);
  return absl::StrFormat("%.10g", value);
}

}  // namespace belfry::trainers
