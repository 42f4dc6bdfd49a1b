#include "framework/compiler/compile.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/compiler/fused_elementwise.h"
#include "framework/compiler/passes/passes.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

absl::Status WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("Cannot write ", path.string()));
}

// Writes what the program looks like after each pass.
class Dumper {
 public:
  Dumper(const CompileOptions& options, const DeviceSet& devices)
      : directory_(options.dump_directory), devices_(devices) {}

  absl::Status After(absl::string_view pass, const Program& program) {
    if (directory_.empty()) return absl::OkStatus();
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    const std::string stem = absl::StrFormat("%02d_%s", count_++, pass);
    RETURN_IF_ERROR(WriteFile(Path(stem + ".txt"), ProgramToText(program, devices_)));
    return WriteFile(Path(stem + ".dot"), ProgramToDot(program, devices_));
  }

  absl::Status Finish(const Plan& plan) {
    return directory_.empty() ? absl::OkStatus() : WriteFile(Path("plan.txt"), plan.ToText(devices_));
  }

 private:
  std::filesystem::path Path(const std::string& name) const { return std::filesystem::path(directory_) / name; }

  const std::string directory_;
  const DeviceSet& devices_;
  int count_ = 0;
};

// Runs on a stream of `to` or, if only that reaches the memory of `from`, of `from`.
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

absl::StatusOr<Kernel> MakeUpdatesKernel(const Program& program, const ProgramNode& node, Device& device) {
  std::vector<std::vector<TensorSpec>> inputs;
  for (const ProgramNode& member : node.body) inputs.push_back(InputSpecs(program, node, member));
  std::vector<KernelSpec> specs;
  for (size_t i = 0; i < node.body.size(); ++i) {
    const ProgramNode& member = node.body[i];
    specs.push_back({member.name, member.attrs, inputs[i], member.outputs, &device});
  }
  const ProgramNode& first = node.body[0];
  return first.op->FindKernel(device.type(), KernelDType(*first.op, first.attrs))->join(specs);
}

absl::StatusOr<Kernel> MakeKernel(const Program& program, const ProgramNode& node, const DeviceSet& devices) {
  const Device& device = devices.device(node.device);
  if (node.op == &CopyOp() || node.op == &TransferOp()) {
    const Device& from = devices.device(program.nodes[node.inputs[0].node].device);
    return MakeCopyKernel(from, device, node.outputs[0].bytes());
  }
  if (node.op == &ElementwiseOp()) return MakeElementwiseKernel(program, node, devices.device(node.device));
  if (node.op == &UpdatesOp()) return MakeUpdatesKernel(program, node, devices.device(node.device));
  const DType dtype = KernelDType(*node.op, node.attrs);
  const KernelDef* def = node.op->FindKernel(device.type(), dtype);
  if (def == nullptr) {
    return absl::UnimplementedError(absl::StrCat("there is no ", device.type(), " kernel for ", DTypeName(dtype)));
  }
  const std::vector<TensorSpec> inputs = InputSpecs(program, node);
  return def->make({node.name, node.attrs, inputs, node.outputs, &devices.device(node.device)});
}

// Variables that the step looks at before it assigns them, and those that it writes.
void FindVariableUses(Plan& plan) {
  const Program& program = plan.program;
  absl::flat_hash_set<int> read, written, assigned;
  for (const ProgramNode& node : program.nodes) {
    if (!Runs(node)) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value root = Root(program, node.inputs[i]);
      const ArgDef& arg = InputArg(node, static_cast<int>(i));
      if (program.nodes[root.node].op->kind != OpKind::kVariable || arg.shape_only) continue;
      if (arg.ref) written.insert(root.node);
      if (arg.ref && node.op->name == "Assign" && node.inputs.size() == 2) {  // whatever the condition of a third is
        assigned.insert(root.node);
      } else if (!assigned.contains(root.node)) {
        read.insert(root.node);
      }
    }
  }
  plan.reads_before_writing.assign(read.begin(), read.end());
  plan.written.assign(written.begin(), written.end());
  std::sort(plan.reads_before_writing.begin(), plan.reads_before_writing.end());
  std::sort(plan.written.begin(), plan.written.end());
}

}  // namespace

void AssignDevices(Program& program, const std::vector<int>& devices) {
  for (ProgramNode& node : program.nodes) node.device = devices[node.source->id()];
}

absl::StatusOr<std::vector<Kernel>> MakeKernels(const Program& program, const DeviceSet& devices) {
  std::vector<Kernel> kernels(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (node.op->kind != OpKind::kKernel) continue;
    const ScopedParallelThreads threads(devices.device(node.device).threads());
    absl::StatusOr<Kernel> kernel = MakeKernel(program, node, devices);
    if (!kernel.ok()) {
      return absl::Status(kernel.status().code(),
                          absl::StrCat(Describe(node), " on ", devices.device(node.device).name().ToString(), ": ",
                                       kernel.status().message()));
    }
    kernels[i] = *std::move(kernel);
  }
  return kernels;
}

absl::StatusOr<CompiledPlan> Compile(const Graph& graph, const ProgramRequest& request, const DeviceSet& devices,
                                     const std::vector<int>& devices_by_node, const CompileOptions& options) {
  Dumper dump(options, devices);
  auto plan = std::make_shared<Plan>();
  Program& program = plan->program;

  ASSIGN_OR_RETURN(program, Prune(graph, request));
  AssignDevices(program, devices_by_node);
  RETURN_IF_ERROR(dump.After("prune", program));
  RETURN_IF_ERROR(InferShapes(program));
  RETURN_IF_ERROR(FoldConstants(program));
  RETURN_IF_ERROR(DropIdentities(program));
  RETURN_IF_ERROR(DropLoneCollectives(program));
  RETURN_IF_ERROR(MergeCommonSubexpressions(program));
  RETURN_IF_ERROR(dump.After("fold", program));
  if (options.fuse) {
    RETURN_IF_ERROR(Fuse(program, graph.registry(), devices));
    RETURN_IF_ERROR(MaskBeforePoolGradients(program));
    RETURN_IF_ERROR(FuseNorms(program, graph.registry(), devices));
    RETURN_IF_ERROR(FuseInputGradients(program, graph.registry(), devices));
  }
  RETURN_IF_ERROR(dump.After("fuse", program));
  RETURN_IF_ERROR(ChooseLayouts(program));
  RETURN_IF_ERROR(dump.After("layout", program));
  RETURN_IF_ERROR(RecomputeForward(program, options.recompute));
  if (options.fuse) RETURN_IF_ERROR(FuseElementwise(program, devices, options.fuse_elementwise_from));
  RETURN_IF_ERROR(dump.After("elementwise", program));
  RETURN_IF_ERROR(Partition(program));
  RETURN_IF_ERROR(PrepareCollectives(program));
  RETURN_IF_ERROR(dump.After("partition", program));
  RETURN_IF_ERROR(Order(program));
  RETURN_IF_ERROR(dump.After("order", program));
  if (options.fuse) RETURN_IF_ERROR(JoinUpdates(program, devices));
  RETURN_IF_ERROR(dump.After("updates", program));

  FindVariableUses(*plan);
  AssignStreams(*plan);
  ASSIGN_OR_RETURN(std::vector<Kernel> kernels, MakeKernels(program, devices));
  for (const Kernel& kernel : kernels) {
    plan->workspace_bytes.push_back(kernel.workspace_bytes);
    plan->in_place.push_back(kernel.in_place ? 1 : 0);
  }
  PlanMemory(*plan, devices.size());
  RETURN_IF_ERROR(dump.Finish(*plan));
  return CompiledPlan{std::move(plan), std::move(kernels)};
}

}  // namespace belfry
