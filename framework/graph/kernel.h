// Kernels: the interface between ops and the devices that run them. A kernel is made once for concrete shapes, then
// runs in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/graph/attr.h"

namespace belfry {

class Device;  // framework/device/device.h; both are opaque here
class Stream;
class PreparedConstants;  // framework/graph/prepared_constants.h

// The dtype and shape of one tensor.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  Shape shape = {};

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
  std::string ToString() const { return std::string(DTypeName(dtype)) + shape.ToString(); }  // "float32[128,10]"
  bool operator==(const TensorSpec&) const = default;
};

// The node of a plan for which a kernel is made. Every shape is known. Valid only during the call of the factory.
struct KernelSpec {
  absl::string_view name = {};  // the node's name, for errors
  const Attrs& attrs;
  absl::Span<const TensorSpec> inputs = {};
  absl::Span<const TensorSpec> outputs = {};
  Device* device = nullptr;  // the device that will run it; may be null for a CPU device
  // The elements of those inputs that are constants in a CPU's memory; null for others. Empty if none is.
  absl::Span<const void* const> constants = {};
  // Their forms by input of `node`, shared by the kernels of a plan's executables; null if none are kept.
  PreparedConstants* prepared = nullptr;
  int node = 0;

  const void* constant(int input) const { return constants.empty() ? nullptr : constants[input]; }
  // Input `input`, if it is a constant, such as a weight of a saved model, in the form in which this kernel reads it,
  // which `write` makes of its elements (PreparedConstants::Get). A kernel that was given a form outlives the elements,
  // so it must not read the input. Null: it must.
  const void* Prepared(int input, size_t bytes, absl::FunctionRef<bool(const void* data, void* form)> write) const;
};

// The arguments of one run of a kernel. Pointers are to the device's memory, aligned to at least 64 bytes for whole
// tensors; elements are in row-major order.
struct KernelContext {
  const void* const* inputs;  // one per input; unspecified for shape-only inputs and for tensors without elements
  void* const* outputs;       // one per output; may equal an input where OpDef and Kernel both allow it (in_place)
  void* workspace;            // Kernel::workspace_bytes bytes; contents are lost between runs
  uint64_t run;               // the number of the session's run; random ops without a step of their own use it as their
                              // counter
  Stream* stream;             // the stream on which asynchronous kernels enqueue

  template <class T>
  const T* input(int i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* output(int i) const {
    return static_cast<T*>(outputs[i]);
  }
  // The storage of the variable behind input i (ArgDef::ref), which this op updates.
  template <class T>
  T* ref(int i) const {
    return static_cast<T*>(const_cast<void*>(inputs[i]));
  }
};

// Runs one node once. On a CPU device it is called on one of the device's threads and may use ParallelFor; it does not
// allocate, lock or look anything up. An error ends the step and is reported with the node's name, device and source
// line.
using KernelFunction = std::function<absl::Status(const KernelContext&)>;

struct Kernel {
  KernelFunction run;
  size_t workspace_bytes = 0;
  bool uses_run = false;  // reads KernelContext::run, so work captured in one run cannot be replayed for another
  bool in_place = true;   // its outputs may share memory with its inputs where the OpDef allows it
  // For kernels that enqueue work and learn of its errors only later: returns the latest error of the completed runs,
  // and OK from then on until there is another. May be called while runs are in progress. Does not wait, and allocates
  // or locks only if there is an error. Empty if the kernel has no such errors.
  std::function<absl::Status()> error = nullptr;
  const char* engine = "";  // for reports: the name of the algorithm or library, if the op has several
};

// The kernel of a node with nothing to compute, such as one whose results have no elements.
inline Kernel NothingToDo() {
  return {[](const KernelContext&) { return absl::OkStatus(); }};
}

// Pieces of tensors that one kernel passes to others begin at multiples of this many elements, so that every element
// has the same position in a vector register as it would in the whole tensor.
inline constexpr int64_t kPieceUnit = 256;

// The computation of a reduction's kernel, bit for bit, done piece by piece; element-wise passes use it
// (compiler/fused_elementwise.h). The elements of input 0 form chunks, and the elements of a chunk share a state. They
// come in ascending order, in pieces that begin at multiples of `row`, and of kPieceUnit from the beginning of the
// tensor or of the chunk. Several threads may process different chunks at once. Made once for concrete shapes.
struct Reduction {
  int64_t row = 1;         // in elements
  int64_t chunk = 0;       // in elements; a multiple of `row`, at least 1
  size_t state_bytes = 0;  // bytes of a chunk's state, a multiple of 64; 0: no state, and pieces may come in any order
  // Adds x[0, n), the elements [begin, begin + n) of the tensor. The first piece of a chunk initialises its state.
  std::function<void(const void* x, int64_t begin, int64_t n, void* state, void* y)> add;
  // Writes y from the states of all chunks, stored one after the other; y is incomplete until then. Empty if `add`
  // writes y itself.
  std::function<void(void* states, void* y)> finish = nullptr;
};

// Makes the kernel of one node. Everything that depends on shapes, attributes or threads is decided here. On a CPU
// device it is called with the ParallelThreads() that the kernel will run with, or with 1 if OpDef::flops says that
// they are few: what is decided for one thread must hold for more. A kernel is run by one thread at a time.
using KernelFactory = std::function<absl::StatusOr<Kernel>(const KernelSpec&)>;
// Makes one kernel that does the work of several nodes of an op; its inputs are one node's after another's.
using FusedUpdatesFactory = std::function<absl::StatusOr<Kernel>(absl::Span<const KernelSpec>)>;
// Returns nullopt if a reduction of these shapes cannot be done piece by piece.
using ReductionFactory = std::function<std::optional<Reduction>(const KernelSpec&)>;

}  // namespace belfry
