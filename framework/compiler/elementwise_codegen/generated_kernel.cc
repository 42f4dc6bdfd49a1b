#include "framework/compiler/elementwise_codegen/generated_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/compiler/elementwise_codegen/kernel_source.h"
#include "framework/device/described_gpu.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

constexpr size_t kPackBytes = 16;

// The argument of a launch: the struct that KernelSource's text declares.
class KernelArgument {
 public:
  explicit KernelArgument(const KernelSource& source)
      : source_(source),
        nodes_at_(8 + sizeof(void*) * std::max(source.shared, 1)),
        entry_(sizeof(void*) * std::max(source.pointers, 1) + 24) {}

  bool full() const { return count_ == static_cast<uint32_t>(source_.capacity); }
  bool empty() const { return count_ == 0; }
  uint32_t chunks() const { return chunks_; }
  const void* data() {
    const uint32_t counts[] = {count_, chunks_};
    std::memcpy(bytes_.data(), counts, sizeof(counts));
    return bytes_.data();
  }
  size_t bytes() const { return nodes_at_ + entry_ * static_cast<size_t>(source_.capacity); }

  void Share(int place, const void* pointer) {
    shared_bits_ |= reinterpret_cast<uintptr_t>(pointer);
    Set(8 + sizeof(void*) * static_cast<size_t>(place), pointer);
  }

  // Adds a node of n > 0 elements. `pointers`: as KernelSource::pointers.
  template <class PointerOf>
  void Add(int64_t n, int64_t rows, int64_t columns, const PointerOf& pointer) {
    const size_t at = nodes_at_ + entry_ * count_;
    uintptr_t bits = shared_bits_;
    for (int k = 0; k < source_.pointers; ++k) {
      const void* const p = pointer(k);
      bits |= reinterpret_cast<uintptr_t>(p);
      Set(at + sizeof(void*) * static_cast<size_t>(k), p);
    }
    const size_t facts = at + entry_ - 24;
    Set(facts, n);
    Set(facts + 8, std::array<uint32_t, 4>{static_cast<uint32_t>(rows), static_cast<uint32_t>(columns), chunks_,
                                           bits % kPackBytes == 0 ? 1u : 0u});
    ++count_;
    chunks_ += static_cast<uint32_t>((n + source_.chunk - 1) / source_.chunk);
  }

 private:
  template <class T>
  void Set(size_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }

  const KernelSource& source_;
  const size_t nodes_at_, entry_;
  uint32_t count_ = 0, chunks_ = 0;
  uintptr_t shared_bits_ = 0;
  alignas(8) std::array<unsigned char, kMaxCompiledArgument> bytes_;
};

// One of the nodes that a launch computes.
struct Part {
  int64_t elements = 0, rows = 0, columns = 0;
  size_t first_input = 0, first_output = 0;  // among those of the whole
  size_t inputs = 0;
};

class GeneratedKernel {
 public:
  GeneratedKernel(KernelSource source, std::vector<Part> parts, std::shared_ptr<const CompiledKernel> compiled)
      : source_(std::move(source)), parts_(std::move(parts)), compiled_(std::move(compiled)) {}

  absl::Status Run(const KernelContext& context) const {
    for (size_t next = 0; next < parts_.size();) {
      KernelArgument argument(source_);
      for (size_t k = 0; k < source_.places.size(); ++k) {
        if (source_.places[k] >= 0) argument.Share(source_.places[k], context.inputs[parts_[0].first_input + k]);
      }
      for (; next < parts_.size() && !argument.full(); ++next) Add(context, parts_[next], argument);
      RETURN_IF_ERROR(compiled_->Launch(*context.stream, argument.chunks(), argument.data(), argument.bytes()));
    }
    return absl::OkStatus();
  }

 private:
  void Add(const KernelContext& context, const Part& part, KernelArgument& argument) const {
    std::array<const void*, kMaxCompiledArgument / sizeof(void*)> pointers;
    for (size_t k = 0; k < source_.places.size(); ++k) {
      if (source_.places[k] < 0) pointers[-1 - source_.places[k]] = context.inputs[part.first_input + k];
    }
    const int outputs = source_.pointers - static_cast<int>(std::count_if(source_.places.begin(), source_.places.end(),
                                                                          [](int p) { return p < 0; }));
    for (int o = 0; o < outputs; ++o) {
      pointers[source_.pointers - outputs + o] = context.outputs[part.first_output + static_cast<size_t>(o)];
    }
    argument.Add(part.elements, part.rows, part.columns, [&](int k) { return pointers[k]; });
  }

  const KernelSource source_;
  const std::vector<Part> parts_;  // with elements
  const std::shared_ptr<const CompiledKernel> compiled_;
};

// A chain of one node, with the inputs that the node has.
ProgramNode ChainOf(const ProgramNode& node) {
  ProgramNode chain = AsElementwise(node);
  chain.inputs = node.inputs;
  for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
    if (!node.op->input_arg(k).shape_only) chain.body[0].inputs[k] = {-1, k};
  }
  return chain;
}

// The chains that a generated kernel computes.
std::vector<ProgramNode> ChainsOf(const ProgramNode& node) {
  if (node.op == &JoinedOp()) return JoinedNodes(node);
  return {node.op == &ElementwiseOp() ? node : ChainOf(node)};
}

// True for a node that a kernel of GeneratedKernels computes.
bool IsGeneratedNode(const ProgramNode& node, const Device& device) {
  if (node.op->kind != OpKind::kKernel || node.op->element_code == nullptr) return false;
  const KernelDef* const def = node.op->FindKernel(device.type(), KernelDType(*node.op, node.attrs));
  return def != nullptr && IsGenerated(*def);
}

// Makes the kernel of one node, in a program of its own.
struct GeneratedFactory {
  const OpDef* op;
  const std::string* declarations;

  absl::StatusOr<Kernel> operator()(const KernelSpec& spec) const {
    Program program;
    ProgramNode node{.name = std::string(spec.name), .op = op, .attrs = spec.attrs};
    for (const TensorSpec& input : spec.inputs) {
      node.inputs.push_back({static_cast<int>(program.nodes.size()), 0});
      program.nodes.push_back({.op = &FeedOp(), .outputs = {input}});
    }
    node.outputs.assign(spec.outputs.begin(), spec.outputs.end());
    return MakeGeneratedKernel(program, node, *spec.device, *declarations);
  }
};

// The source of the kernel for `each`, one of ChainsOf(node).
std::optional<KernelSource> SourceFor(const Program& program, const ProgramNode& node, const ProgramNode& each,
                                      Device& device, absl::string_view declarations) {
  const bool joined = node.op == &JoinedOp();
  return SourceOf(program, each, joined ? SharedInputs(node) : std::vector<bool>(), joined ? kMaxJoined : 1, device,
                  declarations);
}

}  // namespace

std::vector<KernelDef> GeneratedKernels(const OpDef& op, absl::string_view device_type,
                                        const std::string& declarations) {
  std::vector<KernelDef> kernels;
  for (const DType dtype : op.types.at(0).allowed) {
    kernels.push_back({.device_type = device_type, .dtype = dtype, .make = GeneratedFactory{&op, &declarations}});
  }
  return kernels;
}

bool IsGenerated(const KernelDef& kernel) { return kernel.make.target<GeneratedFactory>() != nullptr; }

bool IsGeneratedChain(const ProgramNode& node, const Device& device) {
  return node.op == &JoinedOp() || (node.op == &ElementwiseOp() && device.type() != "CPU");
}

void CompileGeneratedKernels(const Program& program, const DeviceSet& devices, absl::string_view declarations) {
  // The devices of one source come one after the other: what the first compiles, the others find on disk.
  std::map<std::string, std::vector<Device*>> sources;
  for (const ProgramNode& node : program.nodes) {
    Device& device = devices.device(node.device);
    if (!IsGeneratedChain(node, device) && !IsGeneratedNode(node, device)) continue;
    if (DescriptionOf(device) != nullptr) continue;
    const std::optional<KernelSource> source = SourceFor(program, node, ChainsOf(node).front(), device, declarations);
    if (!source.has_value()) continue;
    std::vector<Device*>& on = sources[source->text];
    if (std::find(on.begin(), on.end(), &device) == on.end()) on.push_back(&device);
  }
  std::vector<const std::pair<const std::string, std::vector<Device*>>*> work;
  for (const auto& each : sources) work.push_back(&each);
  std::atomic<size_t> next = 0;
  const auto compile = [&] {
    for (size_t i = next++; i < work.size(); i = next++) {
      for (Device* device : work[i]->second) device->CompileKernel(work[i]->first).IgnoreError();
    }
  };
  std::vector<std::thread> threads;
  while (threads.size() + 1 < std::min(work.size(), static_cast<size_t>(UsableCores()))) {
    absl::StatusOr<std::thread> thread = StartThread("to compile kernels", compile);
    if (!thread.ok()) break;
    threads.push_back(*std::move(thread));
  }
  compile();
  for (std::thread& thread : threads) thread.join();
}

absl::StatusOr<Kernel> MakeGeneratedKernel(const Program& program, const ProgramNode& node, Device& device,
                                           absl::string_view declarations) {
  std::vector<Part> parts;
  std::optional<KernelSource> source;
  size_t inputs = 0, outputs = 0;
  for (const ProgramNode& each : ChainsOf(node)) {
    std::optional<KernelSource> own = SourceFor(program, node, each, device, declarations);
    if (!own.has_value() || (source.has_value() && own->text != source->text)) {
      return absl::InternalError("no kernel can be generated");
    }
    const int64_t elements = each.body.back().outputs[0].shape.elements();
    if (elements > 0) parts.push_back({elements, own->rows, own->columns, inputs, outputs, each.inputs.size()});
    inputs += each.inputs.size();
    outputs += each.outputs.size();
    source = std::move(own);
  }
  if (parts.empty()) return NothingToDo();
  ASSIGN_OR_RETURN(std::shared_ptr<const CompiledKernel> compiled, device.CompileKernel(source->text));
  auto kernel = std::make_shared<const GeneratedKernel>(*std::move(source), std::move(parts), std::move(compiled));
  return Kernel{[kernel = std::move(kernel)](const KernelContext& context) { return kernel->Run(context); }};
}

}  // namespace belfry
