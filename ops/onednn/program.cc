#include "ops/onednn/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/onednn/versions.h"

namespace belfry::ops::onednn {
namespace {

using Buffer = Primitive::Program::Binding::Buffer;

}  // namespace

// Never destroyed, so that it outlives primitives of static lifetime.
const dnnl::engine& Cpu() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

absl::StatusOr<dnnl::memory::data_type> DataType(DType dtype) {
  if (dtype == DType::kFloat32) return dnnl::memory::data_type::f32;
  if (dtype == DType::kBFloat16) return dnnl::memory::data_type::bf16;
  return absl::InvalidArgumentError(
      absl::StrCat("oneDNN is used only for float32 and bfloat16, not for ", DTypeName(dtype)));
}

bool Applies(const Epilogue& epilogue) {
  switch (epilogue.activation) {
    case Activation::kNone:
    case Activation::kElu:
    case Activation::kTanh: return true;
    case Activation::kLeakyRelu: return epilogue.alpha != 0;
    default: return false;
  }
}

// The scratchpad belongs to the caller, so that running a primitive allocates none.
dnnl::primitive_attr Attributes(const Epilogue& post_ops, bool accumulate) {
  using dnnl::algorithm;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (accumulate) ops.append_sum();
  BELFRY_CHECK(Applies(post_ops));
  const auto append = [&](algorithm algorithm) {
    AppendEltwise(ops, algorithm, static_cast<float>(post_ops.alpha), /*beta=*/0);
  };
  switch (post_ops.activation) {
    case Activation::kLeakyRelu: append(algorithm::eltwise_relu); break;
    case Activation::kElu: append(algorithm::eltwise_elu); break;
    case Activation::kTanh: append(algorithm::eltwise_tanh); break;
    default: break;
  }
  attributes.set_post_ops(ops);
  return attributes;
}

bool IsReference(absl::string_view implementation) { return implementation.find("ref") != absl::string_view::npos; }

// The only place where the library's exceptions end: everything it throws while a primitive is made becomes a Status.
// Without memory for its objects or its code, the library crashes instead, so it is asked for beforehand.
absl::StatusOr<Primitive> Guard(const std::string& what, absl::FunctionRef<absl::StatusOr<Primitive>()> make) {
  RETURN_IF_ERROR(TryMemory("for oneDNN", kLibraryBytes));
  try {
    return make();
  } catch (const dnnl::error& error) {
    const std::string message =
        absl::StrCat(what, ": oneDNN: ", error.what(), " (", dnnl_status2str(error.status), ")");
    switch (error.status) {
      case dnnl_unimplemented: return absl::UnimplementedError(message);
      case dnnl_invalid_arguments: return absl::InvalidArgumentError(message);
      case dnnl_out_of_memory: return absl::ResourceExhaustedError(message);
      default: return absl::InternalError(message);
    }
  }
}

absl::Status OnlyReference(const std::string& what, absl::string_view implementation) {
  return absl::UnimplementedError(absl::StrCat(what, ": oneDNN has only its slow reference implementation (",
                                               implementation, ") for this case; use another kernel, or allow it"));
}

// The library sizes its per-thread scratch for the current number of threads, so Run must use the same number.
Primitive::Program::Program() : threads(ParallelThreads()), stream(Cpu()) {}

std::vector<Primitive::Program::Reordered>::iterator Primitive::Program::FindReordered(int input) {
  return std::find_if(reordered.begin(), reordered.end(),
                      [&](const Reordered& one) { return bindings[one.from].index == input; });
}

Builder::Builder() : program_(std::make_unique<Primitive::Program>()) {}

// Every memory is created without data and bound by Run. A slot is an index into `bindings`, which may reallocate;
// steps keep the library's C handle, which dnnl::memory owns through a shared pointer and which therefore stays valid.
Builder::MemoryId Builder::Bind(Buffer place, int index, size_t offset, const dnnl::memory::desc& desc) {
  program_->bindings.push_back({place, index, offset, dnnl::memory(desc, Cpu(), nullptr)});
  return static_cast<MemoryId>(program_->bindings.size()) - 1;
}

Builder::MemoryId Builder::Input(int index, const dnnl::memory::desc& plain, size_t byte_offset) {
  program_->inputs = std::max(program_->inputs, index + 1);
  return Bind(Buffer::kInput, index, byte_offset, plain);
}

// Reorders of inputs are added when the input is declared, so they precede the steps that read them.
Builder::MemoryId Builder::Input(int index, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted,
                                 size_t byte_offset) {
  const MemoryId input = Input(index, plain, byte_offset);
  if (plain == wanted) return input;
  const MemoryId reordered = Workspace(wanted);
  Reorder(input, reordered);
  program_->reordered.push_back({input, reordered, program_->steps.size() - 1});
  return reordered;
}

Builder::MemoryId Builder::Output(int index, const dnnl::memory::desc& plain, size_t byte_offset) {
  program_->outputs = std::max(program_->outputs, index + 1);
  return Bind(Buffer::kOutput, index, byte_offset, plain);
}

// The reorder to the caller's layout must follow the step that produces the result, which is not known yet, so Build()
// adds it.
Builder::MemoryId Builder::Output(int index, const dnnl::memory::desc& plain, const dnnl::memory::desc& produced) {
  const MemoryId output = Output(index, plain);
  if (plain == produced) return output;
  const MemoryId result = Workspace(produced);
  final_reorders_.emplace_back(result, output);
  return result;
}

// Each slot has its own range of the workspace, aligned like the workspace itself, so no step can overwrite data that a
// later one reads. The cost is that these ranges are never shared: the workspace is the sum of all reordered tensors,
// and the largest scratchpad.
Builder::MemoryId Builder::Workspace(const dnnl::memory::desc& desc) {
  const size_t offset = program_->workspace_bytes;
  program_->workspace_bytes = offset + AlignUp(desc.get_size());
  return Bind(Buffer::kWorkspace, 0, offset, desc);
}

void Builder::Reorder(MemoryId from, MemoryId to) {
  const dnnl::memory::desc from_desc = program_->bindings[from].memory.get_desc();
  const dnnl::memory::desc to_desc = program_->bindings[to].memory.get_desc();
  const dnnl::reorder::primitive_desc desc(Cpu(), from_desc, Cpu(), to_desc, Attributes());
  Step(dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  ++program_->reorders;
}

// Steps run in the order in which they are added, on one in-order stream.
void Builder::Step(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                   std::initializer_list<std::pair<int, MemoryId>> arguments) {
  Primitive::Program::Step step{primitive, {}};
  for (const auto& [argument, slot] : arguments) {
    step.arguments.push_back({argument, program_->bindings[slot].memory.get()});
  }
  if (scratchpad.get_size() > 0) {
    scratchpads_.push_back(Bind(Buffer::kWorkspace, 0, 0, scratchpad));
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, program_->bindings[scratchpads_.back()].memory.get()});
  }
  program_->steps.push_back(std::move(step));
}

Primitive Builder::Build(std::string implementation) {
  for (const auto& [from, to] : final_reorders_) Reorder(from, to);
  const size_t scratch = program_->workspace_bytes;
  for (const MemoryId slot : scratchpads_) {
    Primitive::Program::Binding& binding = program_->bindings[slot];
    binding.offset = scratch;
    program_->workspace_bytes =
        std::max(program_->workspace_bytes, scratch + AlignUp(binding.memory.get_desc().get_size()));
  }
  program_->implementation = std::move(implementation);
  return Primitive(std::move(program_));
}

}  // namespace belfry::ops::onednn
