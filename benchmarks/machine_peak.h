// What the processor can do at most, measured, so that a share of it can be told.
#pragma once

#include <vector>

namespace belfry::benchmarks {

// Floating-point operations a second of float32 multiply-adds that wait for nothing, each counting two, on `threads`
// threads; the best of several tries in about `seconds`.
double FmaPeak(int threads, double seconds = 0.2);

// Bytes a second of a[i] = b[i] + s c[i] over arrays that no cache holds, as STREAM's triad counts them (three for an
// element), likewise. The arrays are made once.
class Triad {
 public:
  explicit Triad(int threads);
  double Bandwidth(double seconds = 0.3);

 private:
  int threads_;
  std::vector<float> a_, b_, c_;
};

}  // namespace belfry::benchmarks
