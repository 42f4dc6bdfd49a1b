// The processor's measured peak rates, for expressing other measurements as a share of them.
#pragma once

#include <vector>

namespace belfry::benchmarks {

// Peak rate of float32 multiply-adds without dependences, in floating-point operations per second (two per
// multiply-add), on `threads` threads: the best of several tries in about `seconds`.
double FmaPeak(int threads, double seconds = 0.2);

// Memory bandwidth in bytes per second: a[i] = b[i] + s c[i] over arrays that fit in no cache, counted as in STREAM's
// triad (three accesses per element); the best of several tries. The arrays are allocated once.
class Triad {
 public:
  explicit Triad(int threads);
  double Bandwidth(double seconds = 0.3);

 private:
  int threads_;
  std::vector<float> a_, b_, c_;
};

}  // namespace belfry::benchmarks
