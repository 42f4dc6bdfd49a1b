#include "benchmarks/machine.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/cores.h"
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

#ifdef __x86_64__
// VDPBF16PS, which adds two products to each of 16 sums.
__attribute__((target("avx512f,avx512bf16"))) float BFloat16DotProducts(float start) {
  const __m512 small = _mm512_set1_ps(0.001F);
  const __m512bh factors = _mm512_cvtne2ps_pbh(small, small);
  __m512 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_ps(start + static_cast<float>(i));
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = _mm512_dpbf16_ps(chains[i], factors, factors);
  }
  for (int i = 1; i < kChains; ++i) chains[0] = _mm512_add_ps(chains[0], chains[i]);
  return _mm512_reduce_add_ps(chains[0]);
}
#endif

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

// The values of "model name", "cpu family" and "model" of the first processor.
std::string ProcessorText() {
  std::map<std::string, std::string> values;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    values[std::string(absl::StripAsciiWhitespace(parts.first))] =
        std::string(absl::StripAsciiWhitespace(parts.second));
  }
  if (values["model name"].empty()) return "unknown processor";
  if (values["cpu family"].empty()) return values["model name"];
  return absl::StrCat(values["model name"], ", family ", values["cpu family"], ", model ", values["model"]);
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
  double best = FmaPeak(threads, seconds);
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512bf16")) {
    constexpr double kFlops = 4.0 * 16 * kChains * static_cast<double>(kRounds);
    best = std::max(best, BestRate(BFloat16DotProducts, kFlops, threads, seconds));
  }
#endif
  return best;
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
