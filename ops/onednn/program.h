// Assembly of Primitives, for the functions of this folder that make them. Internal: it includes oneDNN.
#pragma once

#include <dnnl_debug.h>
#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops::onednn {

// The library's engine for the processor; immutable, one per process.
const dnnl::engine& Cpu();

// float32 or bfloat16; InvalidArgument for other dtypes.
absl::StatusOr<dnnl::memory::data_type> DataType(DType dtype);

// Attributes of a primitive whose scratchpad belongs to the caller. Always a new object, because copies share state.
// With `accumulate` the result is added to what is stored, before `post_ops`.
dnnl::primitive_attr Attributes(const Epilogue& post_ops = {}, bool accumulate = false);

// True if `implementation` names the library's reference loops.
bool IsReference(absl::string_view implementation);

// Calls `make` and converts the library's exceptions to a Status: Unimplemented, InvalidArgument, ResourceExhausted if
// memory ran out, otherwise Internal. `what` describes the computation in the message.
absl::StatusOr<Primitive> Guard(const std::string& what, absl::FunctionRef<absl::StatusOr<Primitive>()> make);

// The Unimplemented error for a computation `what` for which the library has only its reference loops.
absl::Status OnlyReference(const std::string& what, absl::string_view implementation);

struct Primitive::Program {
  // A memory object of the library, and the caller's buffer that it is bound to at each run.
  struct Binding {
    enum class Buffer { kInput, kOutput, kWorkspace, kPrepared } place;
    int index;  // of the input or output
    size_t offset;
    dnnl::memory memory;
    char* bound = nullptr;
    char* prepared = nullptr;  // UsePrepared
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  // An input that `step` reorders, by bindings.
  struct Reordered {
    int from, to;
    size_t step;
  };

  Program();
  // The reorder of input `input`; reordered.end() if there is none.
  std::vector<Reordered>::iterator FindReordered(int input);

  int inputs = 0, outputs = 0, reorders = 0;
  int threads;
  size_t workspace_bytes = 0, saved_bytes = 0;
  std::string implementation;
  dnnl::stream stream;
  std::vector<Binding> bindings;
  std::vector<Step> steps;
  std::vector<Reordered> reordered;
};

// Collects the steps of a Primitive. Methods throw dnnl::error; use them inside Guard. A MemoryId identifies a memory
// object.
class Builder {
 public:
  using MemoryId = int;

  Builder();

  // Input `index`, stored by the caller as `plain`, in layout `wanted`; reordered if they differ.
  MemoryId Input(int index, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, size_t byte_offset = 0);
  MemoryId Input(int index, const dnnl::memory::desc& plain, size_t byte_offset = 0);
  // Output `index`. If `produced` differs from `plain`, Build() adds the reorder to `plain`.
  MemoryId Output(int index, const dnnl::memory::desc& plain, const dnnl::memory::desc& produced);
  MemoryId Output(int index, const dnnl::memory::desc& plain, size_t byte_offset = 0);
  MemoryId Workspace(const dnnl::memory::desc& desc);

  // Adds a step and its scratchpad, for which all steps have the same range of the workspace.
  void Step(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
            std::initializer_list<std::pair<int, MemoryId>> arguments);
  void set_saved_bytes(size_t bytes) { program_->saved_bytes = bytes; }

  Primitive Build(std::string implementation);

 private:
  MemoryId Bind(Primitive::Program::Binding::Buffer place, int index, size_t offset, const dnnl::memory::desc& desc);
  void Reorder(MemoryId from, MemoryId to);

  std::unique_ptr<Primitive::Program> program_;
  std::vector<std::pair<MemoryId, MemoryId>> final_reorders_;
  std::vector<MemoryId> scratchpads_;
};

}  // namespace belfry::ops::onednn
