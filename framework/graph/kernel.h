// The seam between an op and the devices that run it: a kernel is made once for concrete shapes, then run every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/graph/attr.h"

namespace belfry {

class Device;  // framework/device/device.h; opaque here, and so is
class Stream;

// dtype and shape of one tensor.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
  bool operator==(const TensorSpec&) const = default;
};

// What a kernel is made for: one node of a plan. Every shape is known. Borrowed for the call of the factory only.
struct KernelSpec {
  absl::string_view name;  // the node's, for errors
  const Attrs& attrs;
  absl::Span<const TensorSpec> inputs;
  absl::Span<const TensorSpec> outputs;
  Device* device = nullptr;  // that will run it; may be null for a CPU device
};

// What a kernel runs on. Pointers are to the device's memory, aligned to 64 bytes at least for whole tensors,
// row-major.
struct KernelContext {
  const void* const* inputs;  // one per input; unspecified for shape-only inputs and for tensors without elements
  void* const* outputs;       // one per output; may equal an input where OpDef and Kernel allow it (in_place)
  void* workspace;            // Kernel::workspace_bytes bytes, contents lost between runs
  uint64_t run;               // counts the session's runs: what random ops key on when they have no step of their own
  Stream* stream;             // where asynchronous kernels enqueue

  template <class T>
  const T* input(int i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* output(int i) const {
    return static_cast<T*>(outputs[i]);
  }
  // The storage of the variable that input i refers to (ArgDef::ref), which this op updates.
  template <class T>
  T* ref(int i) const {
    return static_cast<T*>(const_cast<void*>(inputs[i]));
  }
};

// Runs one node once. On a CPU device it is called on a thread of that device and may use ParallelFor; it does not
// allocate, lock or look anything up. An error ends the step and is reported with the node's name, device and line.
using KernelFunction = std::function<absl::Status(const KernelContext&)>;

struct Kernel {
  KernelFunction run;
  size_t workspace_bytes = 0;
  bool uses_run = false;  // looks at KernelContext::run, so what it enqueued in one run cannot be repeated in another
  // Of a kernel that enqueues and finds errors only then: the last one of its runs that are done, and from now on OK
  // until another is found. Runs may be under way. It does not wait, allocate or lock unless there is one. Empty: none.
  std::function<absl::Status()> error = nullptr;
  bool in_place = true;  // its outputs may lie on its inputs where the OpDef allows it
};

// Pieces of tensors that one kernel hands to others begin at multiples of so many elements, so that every element has
// the same place in a vector as in the whole tensor.
inline constexpr int64_t kPieceUnit = 256;

// What the kernel of a reduction computes, to the last bit, taken piece by piece: how element-wise passes do it
// (compiler/fused_elementwise.h). The elements of input 0 form chunks, and those of one chunk share a state: they come
// in ascending order, in pieces that begin at multiples of `row`, and of kPieceUnit from the begin of the tensor or of
// the chunk. Chunks may be taken by several threads at once. Made once for concrete shapes.
struct Reduction {
  int64_t row = 1;         // elements
  int64_t chunk = 0;       // elements; a multiple of `row`, at least 1
  size_t state_bytes = 0;  // of a chunk, a multiple of 64; 0: no state, and pieces may come in any order
  // Takes x[0, n), which are elements [begin, begin + n) of the tensor. A state is begun by its chunk's first piece.
  std::function<void(const void* x, int64_t begin, int64_t n, void* state, void* y)> add;
  // Writes y from the states of all chunks, which lie one after the other. Empty: `add` has written it. Until then y
  // is not complete.
  std::function<void(void* states, void* y)> finish = nullptr;
};

// Makes the kernel of one node. Everything that depends on shapes, attributes or threads is decided here; on a CPU
// device it is called with ParallelThreads() as it will be when the kernel runs. The kernel is run by one thread at a
// time.
using KernelFactory = std::function<absl::StatusOr<Kernel>(const KernelSpec&)>;
// Makes one kernel that does the work of several nodes of an op, whose inputs it gets one node after the other.
using FusedUpdatesFactory = std::function<absl::StatusOr<Kernel>(absl::Span<const KernelSpec>)>;
// Nothing if a reduction of these shapes cannot be taken piece by piece.
using ReductionFactory = std::function<std::optional<Reduction>(const KernelSpec&)>;

}  // namespace belfry
