// The machine that figures were measured on: its processor, and that processor's measured peak rates. Processors of one
// name may differ by half in the latter.
#pragma once

#include <string>
#include <vector>

namespace belfry::benchmarks {

// "AMD EPYC, family 26, model 2, 2 cores, 118 GFLOP/s of multiply-adds on one, compiled by g++ 12.2.0": measures
// FmaPeak(1), once in a process. In one line, which benchmarks/peers/compare.py shows as well.
std::string MachineText();

// Peak rate of float32 multiply-adds without dependences, in floating-point operations per second (two per
// multiply-add), on `threads` threads: the best of several tries in about `seconds`.
double FmaPeak(int threads, double seconds = 0.2);

// Peak rate of bfloat16 products summed in float32, in the units of FmaPeak() and measured in the same way, with the
// processor's dot-product instructions if it has them (AVX512_BF16). At least FmaPeak(). AMX is not measured.
double BFloat16Peak(int threads, double seconds = 0.2);

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
