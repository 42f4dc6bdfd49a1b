#include "benchmarks/machine.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/bfloat16_dot_products.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/cores.h"
#include "framework/base/machine/processor.h"
#include "ops/simd/vector_impl.h"

namespace belfry::benchmarks {
namespace {

using V = ops::simd::Vector<float>;
// Enough chains to hide the latency of a multiply-add, and few enough to fit in sixteen registers.
constexpr int kChains = 12;
constexpr int64_t kRounds = 100'000;
constexpr int64_t kElements = int64_t{16} << 20;

float MultiplyAdd(float start) {
  const V::Lanes factor = V::Fill(0.999f), term = V::Fill(0.001f);
  V::Lanes chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = V::Fill(start + static_cast<float>(i));
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * factor + term;
  }
  for (int i = 1; i < kChains; ++i) chains[0] += chains[i];
  return chains[0][0];
}

// Operations per second of a function that does `flops` of them, on `threads` threads: the best of several tries.
double BestRate(float (*function)(float), double flops, int threads, double seconds) {
  double best = 0;
  volatile float sink = 0;
  const auto begin = Clock::now();
  while (best == 0 || Seconds(begin) < seconds) {
    float sum = 0;
    const auto start = Clock::now();
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
    for (int i = 0; i < threads; ++i) sum += function(static_cast<float>(i));
    best = std::max(best, flops * threads / Seconds(start));
    sink = sum;
  }
  static_cast<void>(sink);
  return best;
}

std::string ProcessorText() {
  const std::string name = ProcessorField("model name"), family = ProcessorField("cpu family");
  if (name.empty()) return "unknown processor";
  return family.empty() ? name : absl::StrCat(name, ", family ", family, ", model ", ProcessorField("model"));
}

}  // namespace

std::string MachineText() {
  // GNU's version is the number alone.
  static const std::string text = absl::StrFormat(
      "%s, %d cores, %.0f GFLOP/s of multiply-adds on one, compiled by %s%s", ProcessorText(), AvailableCores().size(),
      FmaPeak(1) / 1e9, absl::StrContains(__VERSION__, "lang") ? "" : "g++ ", __VERSION__);
  return text;
}

double FmaPeak(int threads, double seconds) {
  return BestRate(MultiplyAdd, 2.0 * V::kLanes * kChains * static_cast<double>(kRounds), threads, seconds);
}

double BFloat16Peak(int threads, double seconds) {
  const double peak = FmaPeak(threads, seconds);
  if (!HasBFloat16DotProducts()) return peak;
  return std::max(peak, BestRate(BFloat16DotProducts, kBFloat16DotProductFlops, threads, seconds));
}

Triad::Triad(int threads) : threads_(threads), a_(kElements), b_(kElements, 1), c_(kElements, 2) {}

double Triad::Bandwidth(double seconds) {
  double best = 0;
  const auto begin = Clock::now();
  while (best == 0 || Seconds(begin) < seconds) {
    float* a = a_.data();
    const float *b = b_.data(), *c = c_.data();
    const auto start = Clock::now();
#pragma omp parallel for simd num_threads(threads_) schedule(static)
    for (int64_t i = 0; i < kElements; ++i) a[i] = b[i] + 3 * c[i];
    best = std::max(best, 3.0 * sizeof(float) * static_cast<double>(kElements) / Seconds(start));
  }
  return best;
}

}  // namespace belfry::benchmarks
