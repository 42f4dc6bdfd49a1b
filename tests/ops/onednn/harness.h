// Runs the primitives of ops/onednn on fresh random data, to be compared with loops in double.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// The elements of a tensor, row-major, as doubles that its dtype can represent.
using Values = std::vector<double>;

// Uniform in [-1, 1], rounded to `dtype`; other numbers at each call of each run of the test.
Values Random(int64_t size, DType dtype = DType::kFloat32);

// A tensor in memory.
struct Argument {
  Values values;
  DType dtype = DType::kFloat32;
};

// What to expect of an output, which holds not-a-numbers before the run.
struct Result {
  int64_t size;
  DType dtype = DType::kFloat32;
};

// Bytes that a forward primitive saved for its backward primitive.
using Saved = std::vector<char>;

// Runs `primitive` twice, the second time with other addresses, on buffers that lie between guard bytes and with a
// workspace full of not-a-numbers, and returns the outputs of the second run. Fails the test if it fails, writes
// outside, or gives other bits the second time. `saved_out` becomes the last output, `saved_in` is the last input.
std::vector<Values> RunPrimitive(Primitive& primitive, const std::vector<Argument>& inputs,
                                 const std::vector<Result>& outputs, Saved* saved_out = nullptr,
                                 const Saved* saved_in = nullptr);

// Fails unless every |got - want| <= tolerance (largest |want|, at least `scale`, which is the size of terms that may
// cancel out).
void ExpectClose(const Values& got, const Values& want, double tolerance, double scale = 1e-3);

// Of a result with sums in float32 that is stored in `dtype`.
inline double Tolerance(DType dtype) { return dtype == DType::kBFloat16 ? 1e-2 : 2e-5; }

// f(x) in double.
double Apply(const PostOps& post_ops, double x);

}  // namespace belfry::ops::onednn
