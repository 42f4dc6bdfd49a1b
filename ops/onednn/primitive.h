// One oneDNN computation with every decision taken when it is made. All of Belfry calls oneDNN through this folder, so
// that differences between the library's versions stay in it.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::ops::onednn {

// A compiled computation on buffers of the caller. The function that makes one (convolution.h, matmul.h ...) says which
// inputs and outputs it takes, in which order. All of those are plain row-major (NHWC, HWIO); where the library is
// faster on layouts of its own, the primitive reorders through its workspace.
//
// The library's implementation is chosen when the primitive is made. One that is the library's slow reference loops is
// refused with Unimplemented, unless the maker was told `allow_reference`.
//
// Thread rule: one Run at a time on one object; different objects are independent. A primitive is made for
// ParallelThreads() (framework/base/parallel.h) of the thread that makes it, and runs with that many threads on
// whichever thread runs it. Results are the same bits at every run with the same number of threads.
class Primitive {
 public:
  Primitive(Primitive&&) noexcept;
  Primitive& operator=(Primitive&&) noexcept;
  ~Primitive();

  // Bytes of the workspace that Run needs, 0 if none. Its contents need not survive between runs.
  size_t workspace_bytes() const;
  // Bytes of the buffer that a forward primitive hands to its backward primitive (maximum pooling: which element won;
  // LRN: the library's intermediate values); 0 if there is none, and then the buffer may be null.
  size_t saved_bytes() const;

  // What the library calls its implementation: "brgconv:avx512_core".
  absl::string_view implementation() const;
  bool is_reference() const;
  // How many of the inputs and outputs pass through a reorder in the workspace.
  int reorders() const;
  int threads() const;

  // Computes. `inputs` and `outputs` are in the order that the maker states; no buffer may overlap an output, except
  // where the maker says so. Buffers should be aligned to 64 bytes, the workspace must be. Allocates nothing of ours
  // (the library keeps a small argument table per call). Fast when the pointers are those of the last run.
  absl::Status Run(absl::Span<const void* const> inputs, absl::Span<void* const> outputs, void* workspace);

  struct Program;  // program.h
  explicit Primitive(std::unique_ptr<Program> program);

 private:
  std::unique_ptr<Program> program_;
};

// About how long products of bfloat16 take here, beside those of float32: 0.1 with AMX, 0.5 with AVX512_BF16; more than
// 1 where the library converts, or leaves them to others.
double BFloat16Time();

// What is applied to a result y (with its bias) before it is stored: y = f(y).
enum class Activation {
  kNone,
  kRelu,   // max(x, 0); with alpha != 0 a leaky one: alpha x below 0
  kRelu6,  // min(max(x, 0), 6)
  kElu,    // x above 0, alpha (exp(x) - 1) below
  kTanh,
  kSigmoid,
};

struct PostOps {
  Activation activation = Activation::kNone;
  float alpha = 0;
};

}  // namespace belfry::ops::onednn
