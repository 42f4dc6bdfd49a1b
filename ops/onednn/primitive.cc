#include "ops/onednn/primitive.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/machine/processor.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/onednn/program.h"

namespace belfry::ops::onednn {
namespace {

absl::Status Failed(dnnl_status_t status, const Primitive::Program& program) {
  const std::string message = absl::StrCat("oneDNN ", program.implementation, ": ", dnnl_status2str(status));
  return status == dnnl_out_of_memory ? OutOfMemory(message) : absl::InternalError(message);
}

char* Address(const Primitive::Program::Binding& binding, absl::Span<const void* const> inputs,
              absl::Span<void* const> outputs, void* workspace) {
  using Buffer = Primitive::Program::Binding::Buffer;
  switch (binding.place) {
    // The library takes inputs as non-const pointers.
    case Buffer::kInput: return const_cast<char*>(static_cast<const char*>(inputs[binding.index])) + binding.offset;
    case Buffer::kOutput: return static_cast<char*>(outputs[binding.index]) + binding.offset;
    case Buffer::kWorkspace: return static_cast<char*>(workspace) + binding.offset;
    case Buffer::kPrepared: return binding.prepared;
  }
  return nullptr;
}

// True if the library may use these instructions: it has one bit for each set.
bool Has(dnnl::cpu_isa wanted) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

// True for Intel's processors with AVX512_FP16, which came with tiles (AMX) that a virtual machine may hide. Without
// these they multiply and add half as many bfloat16 numbers in a cycle as float32 ones.
bool HasSlowDotProducts() {
  static const bool slow =
      ProcessorField("vendor_id") == "GenuineIntel" && absl::StrContains(ProcessorField("flags"), "avx512_fp16");
  return slow;
}

// True if products of bfloat16 are faster than those of float32.
bool MultipliesBFloat16() { return Has(dnnl::cpu_isa::avx512_core_amx) || (HasBFloat16() && !HasSlowDotProducts()); }

absl::Status Bind(Primitive::Program& program, Primitive::Program::Binding& binding, char* address) {
  if (address == binding.bound) return absl::OkStatus();
  const dnnl_status_t status = dnnl_memory_set_data_handle(binding.memory.get(), address);
  if (status != dnnl_success) return Failed(status, program);
  binding.bound = address;
  return absl::OkStatus();
}

absl::Status Execute(const Primitive::Program& program, const Primitive::Program::Step& step) {
  const dnnl_status_t status = dnnl_primitive_execute(step.primitive.get(), program.stream.get(),
                                                      static_cast<int>(step.arguments.size()), step.arguments.data());
  return status == dnnl_success ? absl::OkStatus() : Failed(status, program);
}

absl::Status Await(Primitive::Program& program) {
  const dnnl_status_t status = dnnl_stream_wait(program.stream.get());
  return status == dnnl_success ? absl::OkStatus() : Failed(status, program);
}

}  // namespace

Primitive::Primitive(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Primitive::Primitive(Primitive&&) noexcept = default;
Primitive& Primitive::operator=(Primitive&&) noexcept = default;
Primitive::~Primitive() = default;

bool HasBFloat16() { return Has(dnnl::cpu_isa::avx512_core_bf16); }

double BFloat16Time() {
  if (Has(dnnl::cpu_isa::avx512_core_amx)) return 0.1;
  if (MultipliesBFloat16()) return 0.5;
  return Has(dnnl::cpu_isa::avx512_core) ? 1.2 : 100;
}

bool ProductsRepeat(DType dtype) {
  return dtype == DType::kBFloat16 ? MultipliesBFloat16() : Has(dnnl::cpu_isa::avx512_core);
}

size_t Primitive::workspace_bytes() const { return program_->workspace_bytes; }
size_t Primitive::saved_bytes() const { return program_->saved_bytes; }
absl::string_view Primitive::implementation() const { return program_->implementation; }
bool Primitive::is_reference() const { return IsReference(program_->implementation); }
int Primitive::reorders() const { return program_->reorders; }
int Primitive::threads() const { return program_->threads; }

// A reorder with a scratchpad, which few have, needs a workspace.
size_t Primitive::PreparedBytes(int input) const {
  const auto found = program_->FindReordered(input);
  if (found == program_->reordered.end() || program_->steps[found->step].arguments.size() > 2) return 0;
  return program_->bindings[found->to].memory.get_desc().get_size();
}

absl::Status Primitive::Prepare(int input, const void* data, void* form) {
  Program& program = *program_;
  const Program::Reordered reordered = *program.FindReordered(input);
  const ScopedParallelThreads threads(program.threads);
  RETURN_IF_ERROR(StartParallelThreads());
  // The library takes inputs as non-const pointers.
  RETURN_IF_ERROR(Bind(program, program.bindings[reordered.from], const_cast<char*>(static_cast<const char*>(data))));
  RETURN_IF_ERROR(Bind(program, program.bindings[reordered.to], static_cast<char*>(form)));
  RETURN_IF_ERROR(Execute(program, program.steps[reordered.step]));
  return Await(program);
}

void Primitive::UsePrepared(int input, const void* form) {
  Program& program = *program_;
  const auto found = program.FindReordered(input);
  const Program::Reordered reordered = *found;
  Program::Binding& to = program.bindings[reordered.to];
  to.place = Program::Binding::Buffer::kPrepared;
  to.prepared = const_cast<char*>(static_cast<const char*>(form));
  program.steps.erase(program.steps.begin() + static_cast<ptrdiff_t>(reordered.step));
  program.reordered.erase(found);
  for (Program::Reordered& later : program.reordered) later.step -= later.step > reordered.step;
  --program.reorders;
}

absl::Status Primitive::Run(absl::Span<const void* const> inputs, absl::Span<void* const> outputs, void* workspace) {
  Program& program = *program_;
  BELFRY_CHECK(static_cast<int>(inputs.size()) >= program.inputs);
  BELFRY_CHECK(static_cast<int>(outputs.size()) >= program.outputs);
  BELFRY_CHECK(program.workspace_bytes == 0 ||
               (workspace != nullptr && reinterpret_cast<uintptr_t>(workspace) % 64 == 0));
  // The library sizes per-thread scratch when a primitive is made, so it must run with as many threads.
  const ScopedParallelThreads threads(program.threads);
  RETURN_IF_ERROR(StartParallelThreads());
  for (Program::Binding& binding : program.bindings) {
    RETURN_IF_ERROR(Bind(program, binding, Address(binding, inputs, outputs, workspace)));
  }
  for (const Program::Step& step : program.steps) RETURN_IF_ERROR(Execute(program, step));
  return Await(program);
}

}  // namespace belfry::ops::onednn
