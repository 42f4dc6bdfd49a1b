#include "framework/compiler/kernels.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/compiler/elementwise_codegen/generated_kernel.h"
#include "framework/compiler/fused_elementwise.h"
#include "framework/compiler/plan_report.h"
#include "framework/device/described_gpu.h"
#include "framework/graph/infer.h"
#include "framework/graph/prepared_constants.h"

namespace belfry {
namespace {

// A copy between devices, or within one. If either device is asynchronous, it is enqueued on the stream that the node
// runs on; a host that receives the bytes waits for them.
Kernel MakeCopyKernel(const Device& from, const Device& to, size_t bytes) {
  if (from.asynchronous() || to.asynchronous()) {
    return {[&from, &to, bytes](const KernelContext& context) -> absl::Status {
      RETURN_IF_ERROR(context.stream->Copy(context.outputs[0], to, context.inputs[0], from, bytes));
      return to.asynchronous() ? absl::OkStatus() : context.stream->Synchronize();
    }};
  }
  return {[bytes](const KernelContext& context) {
    if (bytes > 0) std::memcpy(context.outputs[0], context.inputs[0], bytes);
    return absl::OkStatus();
  }};
}

// Factories ask the device and its libraries for algorithms, which a described one cannot answer.
Kernel MakeDescribedKernel() {
  return {[](const KernelContext&) { return absl::FailedPreconditionError("its device is only described"); }};
}

absl::StatusOr<Kernel> MakeUpdatesKernel(const Program& program, const ProgramNode& node, Device& device) {
  std::vector<std::vector<TensorSpec>> inputs;
  for (const ProgramNode& member : node.body) inputs.push_back(InputSpecs(program, node, member));
  std::vector<KernelSpec> specs;
  for (size_t i = 0; i < node.body.size(); ++i) {
    const ProgramNode& member = node.body[i];
    specs.push_back({member.name, member.attrs, inputs[i], member.outputs, &device});
  }
  const ProgramNode& first = node.body[0];
  return first.op->FindKernel(device.type(), KernelDType(*first.op, first.attrs))->fuse_updates(specs);
}

// The node whose bytes `value` is or, at *offset, is part of.
const ProgramNode& Owner(const Program& program, Value value, size_t* offset = nullptr) {
  const ProgramNode* root = &program.nodes[value.node];
  for (; root->op->kind == OpKind::kView; root = &program.nodes[root->inputs[0].node]) {
    if (offset == nullptr) continue;
    *offset += static_cast<size_t>(ViewBegin(*root->op, root->attrs)) * SizeOf(root->outputs[0].dtype);
  }
  return *root;
}

// KernelSpec::constants, all null on other devices.
std::vector<const void*> Constants(const Program& program, const ProgramNode& node, const DeviceSet& devices) {
  std::vector<const void*> constants(node.inputs.size(), nullptr);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    size_t offset = 0;
    const ProgramNode& owner = Owner(program, node.inputs[i], &offset);
    if (owner.op->kind != OpKind::kConst || devices.device(owner.device).asynchronous()) continue;
    const void* const data = owner.attrs.Get<Tensor>("value").raw();
    if (data != nullptr) constants[i] = static_cast<const std::byte*>(data) + offset;
  }
  return constants;
}

absl::StatusOr<Kernel> MakeKernel(const Program& program, const ProgramNode& node, const DeviceSet& devices,
                                  const OpRegistry& registry) {
  const Device& device = devices.device(node.device);
  if (node.op == &CopyOp() || node.op == &TransferOp()) {
    const Device& from = devices.device(program.nodes[node.inputs[0].node].device);
    return MakeCopyKernel(from, device, node.outputs[0].bytes());
  }
  const bool described = DescriptionOf(device) != nullptr;
  if (described && !node.body.empty()) return MakeDescribedKernel();
  if (IsGeneratedChain(node, device)) {
    return MakeGeneratedKernel(program, node, devices.device(node.device), registry.element_declarations());
  }
  if (node.op == &ElementwiseOp()) return MakeElementwiseKernel(program, node, devices.device(node.device));
  if (node.op == &UpdatesOp()) return MakeUpdatesKernel(program, node, devices.device(node.device));
  const DType dtype = KernelDType(*node.op, node.attrs);
  const KernelDef* def = node.op->FindKernel(device.type(), dtype);
  if (def == nullptr) {
    return absl::UnimplementedError(absl::StrCat("there is no ", device.type(), " kernel for ", DTypeName(dtype)));
  }
  if (described) return MakeDescribedKernel();
  const std::vector<TensorSpec> inputs = InputSpecs(program, node);
  const std::vector<const void*> constants = Constants(program, node, devices);
  const auto index = static_cast<int>(&node - program.nodes.data());
  return def->make({node.name, node.attrs, inputs, node.outputs, &devices.device(node.device), constants,
                    program.prepared.get(), index});
}

// Threads for a node's kernel: one for a small convolution or product, which libraries would share among all.
int ThreadsFor(const Program& program, const ProgramNode& node, const Device& device) {
  // A multiply-add of a register counts as one operation: 16 with AVX-512, 8 with AVX.
  constexpr double kFlopsPerOperation = 16;
  const bool small = node.op->flops != nullptr && !IsWorthThreads(FlopsOf(program, node) / kFlopsPerOperation);
  return small ? 1 : device.threads();
}

}  // namespace

absl::StatusOr<std::vector<Kernel>> MakeKernels(const Program& program, const DeviceSet& devices,
                                                const OpRegistry& registry) {
  CompileGeneratedKernels(program, devices, registry.element_declarations());
  std::vector<Kernel> kernels(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (node.op->kind != OpKind::kKernel) continue;
    const ScopedParallelThreads threads(ThreadsFor(program, node, devices.device(node.device)));
    absl::StatusOr<Kernel> kernel = MakeKernel(program, node, devices, registry);
    if (!kernel.ok()) {
      return absl::Status(kernel.status().code(),
                          absl::StrCat(Describe(node), " on ", devices.device(node.device).name().ToString(), ": ",
                                       kernel.status().message()));
    }
    kernels[i] = *std::move(kernel);
  }
  return kernels;
}

void DropPreparedConstants(Program& program) {
  std::vector<bool> read(program.nodes.size());
  const auto keep = [&](Value value) {
    read[static_cast<size_t>(&Owner(program, value) - program.nodes.data())] = true;
  };
  for (const Value& fetch : program.fetches) keep(fetch);
  for (int i = 0; i < static_cast<int>(program.nodes.size()); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (node.op->kind == OpKind::kView) continue;
    for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
      if (!program.prepared->Has(i, input)) keep(node.inputs[input]);
    }
  }
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ProgramNode& node = program.nodes[i];
    if (read[i] || node.op->kind != OpKind::kConst) continue;
    node.attrs.Set("value", Tensor::WithoutData(node.outputs[0].dtype, node.outputs[0].shape));
  }
}

}  // namespace belfry
