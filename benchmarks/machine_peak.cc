#include "benchmarks/machine_peak.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "benchmarks/paired_runs.h"

namespace belfry::benchmarks {
namespace {

using Packet = Eigen::internal::packet_traits<float>::type;
constexpr int kLanes = Eigen::internal::packet_traits<float>::size;
// Enough chains to hide the latency of a multiply-add, and few enough to fit in sixteen registers.
constexpr int kChains = 12;
constexpr int64_t kRounds = 100'000;
constexpr int64_t kElements = int64_t{16} << 20;

float MultiplyAdd(float start) {
  using Eigen::internal::pset1;
  const Packet factor = pset1<Packet>(0.999f), term = pset1<Packet>(0.001f);
  Packet chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = pset1<Packet>(start + static_cast<float>(i));
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = Eigen::internal::pmadd(chains[i], factor, term);
  }
  for (int i = 1; i < kChains; ++i) chains[0] = Eigen::internal::padd(chains[0], chains[i]);
  return Eigen::internal::predux(chains[0]);
}

}  // namespace

double FmaPeak(int threads, double seconds) {
  double best = 0;
  volatile float sink = 0;
  const auto begin = Clock::now();
  while (best == 0 || Seconds(begin) < seconds) {
    float sum = 0;
    const auto start = Clock::now();
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
    for (int i = 0; i < threads; ++i) sum += MultiplyAdd(static_cast<float>(i));
    const double flops = 2.0 * kLanes * kChains * static_cast<double>(kRounds) * threads;
    best = std::max(best, flops / Seconds(start));
    sink = sum;
  }
  static_cast<void>(sink);
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
