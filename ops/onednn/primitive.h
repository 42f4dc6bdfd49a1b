// A oneDNN computation whose decisions are all taken at construction. All of Belfry calls oneDNN through this folder,
// so that differences between versions of the library stay in it.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "ops/common/epilogue.h"

namespace belfry::ops::onednn {

// A compiled computation on buffers of the caller. The function that makes it (in convolution.h, matmul.h, ...)
// documents its inputs and outputs and their order. All of them are plain row-major (NHWC, HWIO); where the library is
// faster with its own layouts, the primitive reorders through its workspace.
//
// The library's implementation is chosen when the primitive is made. If only the library's slow reference loops exist,
// making fails with Unimplemented.
//
// Not thread-safe: one Run at a time per object; different objects are independent. A primitive is made for the
// ParallelThreads() (framework/base/parallel.h) of the constructing thread, and runs with that many threads wherever it
// is run. Results are bit-identical between runs with the same number of threads.
class Primitive {
 public:
  Primitive(Primitive&&) noexcept;
  Primitive& operator=(Primitive&&) noexcept;
  ~Primitive();

  // Size of the workspace that Run needs, 0 if none. Its contents need not survive between runs.
  size_t workspace_bytes() const;
  // Size of the buffer that a forward primitive passes to its backward primitive (the winners of maximum pooling).
  // If 0, the buffer may be null.
  size_t saved_bytes() const;

  // The library's name of its implementation, such as "brgconv:avx512_core".
  absl::string_view implementation() const;
  bool is_reference() const;
  // Number of inputs and outputs that are reordered through the workspace.
  int reorders() const;
  int threads() const;

  // An input that has the same bytes in every run can be reordered once. PreparedBytes is the size of its reordered
  // form, 0 if it is not reordered; Prepare writes the form, which is aligned to 64 bytes; UsePrepared makes Run read
  // it instead of the input, so it must outlive this object. REQUIRES of the last two: PreparedBytes(input) > 0, and
  // no Run yet.
  size_t PreparedBytes(int input) const;
  absl::Status Prepare(int input, const void* data, void* form);
  void UsePrepared(int input, const void* form);

  // Computes. `inputs` and `outputs` are in the documented order. No buffer may overlap an output unless documented.
  // Buffers should, and the workspace must, be aligned to 64 bytes. Makes no allocation of ours; the library allocates
  // a small argument table per call. Fastest if the pointers are the previous run's.
  absl::Status Run(absl::Span<const void* const> inputs, absl::Span<void* const> outputs, void* workspace);

  struct Program;  // program.h
  explicit Primitive(std::unique_ptr<Program> program);

 private:
  std::unique_ptr<Program> program_;
};

// True if the library computes in bfloat16 by instructions of this processor (AVX512_BF16, AMX).
bool HasBFloat16();

// Approximate time of bfloat16 products on this processor relative to float32: 0.1 with AMX, 0.5 with AVX512_BF16,
// above 1 if the library converts or has no implementation. Intel processors whose AMX a virtual machine hides count as
// processors without AVX512_BF16, which takes twice the time of float32 there.
double BFloat16Time();

// True if products of `dtype` (matmul.h) give the same bits for any number of threads, take no lock, and are no slower
// than those of float copies. The library's code for AVX-512, in bfloat16 for AVX512_BF16, allows that, and its code
// for other processors does not.
bool ProductsRepeat(DType dtype);

// True for the epilogues that the library computes as Belfry does, which primitives take as post_ops. Its ReLU and
// ReLU6 would make NaN 0, and so would its sigmoid for SSE4.1; its GELUs would make minus infinity NaN.
bool Applies(const Epilogue& epilogue);

}  // namespace belfry::ops::onednn
