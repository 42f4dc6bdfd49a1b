// Runs the primitives of ops/onednn on random data, for comparison with loops in double.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// The elements of a tensor in row-major order, as doubles that its dtype can represent.
using Values = std::vector<double>;

// Uniform in [-1, 1], rounded to `dtype`; different in every call and every run of the test.
Values Random(int64_t size, DType dtype = DType::kFloat32);

// A tensor in memory.
struct Argument {
  Values values;
  DType dtype = DType::kFloat32;
};

// An expected output: its size, and its contents before the run (NaN if empty).
struct Result {
  int64_t size;
  DType dtype = DType::kFloat32;
};

// Data that a forward primitive saved for its backward primitive.
using Saved = std::vector<char>;

// Runs `primitive` twice, with different addresses, on buffers between guard bytes and with a workspace full of NaN,
// and returns the outputs of the second run. Fails the test if a run fails, writes outside its buffers, or if the
// results differ. `saved_out` receives the last output; `saved_in` is the last input.
std::vector<Values> RunPrimitive(Primitive& primitive, const std::vector<Argument>& inputs,
                                 const std::vector<Result>& outputs, Saved* saved_out = nullptr,
                                 const Saved* saved_in = nullptr);

// Fails unless every |got - want| <= tolerance * largest |want|. The latter is at least `scale`, the magnitude of terms
// that may cancel.
void ExpectClose(const Values& got, const Values& want, double tolerance, double scale = 1e-3);

// The tolerance for a result with float32 sums that is stored in `dtype`.
inline double Tolerance(DType dtype) { return dtype == DType::kBFloat16 ? 1e-2 : 2e-5; }

// False for bfloat16 where the library has no code for it. Ops compute it in float32 there.
inline bool IsComputed(DType dtype) { return dtype != DType::kBFloat16 || BFloat16Time() < 10; }
inline constexpr char kNotComputed[] = "oneDNN computes in bfloat16 on processors with AVX-512 only";

// f(x) in double.
double Apply(const Epilogue& post_ops, double x);

}  // namespace belfry::ops::onednn
