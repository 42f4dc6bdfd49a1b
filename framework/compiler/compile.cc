#include "framework/compiler/compile.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/compiler/fit_memory.h"
#include "framework/compiler/passes/passes.h"
#include "framework/compiler/rewrite.h"
#include "framework/compiler/verify/verify.h"

namespace belfry {
namespace {

constexpr bool kDebugBuild = BELFRY_DEBUG_BUILD != 0;

absl::Status WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("Cannot write ", path.string()));
}

// Writes the program after each pass.
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

  absl::Status Finish(const Plan& plan, const std::string& verified) {
    if (directory_.empty()) return absl::OkStatus();
    return WriteFile(Path("plan.txt"), absl::StrCat(plan.ToText(devices_), verified));
  }

 private:
  std::filesystem::path Path(const std::string& name) const { return std::filesystem::path(directory_) / name; }

  const std::string directory_;
  const DeviceSet& devices_;
  int count_ = 0;
};

// Copies the devices that Place chose for the graph's nodes (by node id) to the program's.
void AssignDevices(Program& program, const std::vector<int>& devices) {
  for (ProgramNode& node : program.nodes) node.device = devices[node.source->id()];
}

// Finds the variables that the step reads before it assigns them, and those that it writes.
void FindVariableUses(Plan& plan) {
  const Program& program = plan.program;
  HashSet<int> read, written, assigned;
  for (const ProgramNode& node : program.nodes) {
    if (!Runs(node)) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value root = Root(program, node.inputs[i]);
      const ArgDef& arg = InputArg(node, static_cast<int>(i));
      if (program.nodes[root.node].op->kind != OpKind::kVariable || arg.shape_only) continue;
      if (arg.ref) written.insert(root.node);
      // With the condition of a kOnlyIf input, the variable may keep its value; of a part, the rest keeps its own.
      const bool whole = program.spec(node.inputs[i]).shape.elements() == program.spec(root).shape.elements();
      if (arg.overwrites && whole &&
          node.inputs.size() == node.op->inputs.size() - (node.op->inputs.back().list ? 1 : 0)) {
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

// Verifies the plan, if it is to be, and writes it with the result.
absl::Status VerifyAndDump(const Plan& plan, const CompileOptions& options, Dumper& dump) {
  const bool asked = options.verify || std::getenv("BELFRY_VERIFY_PLANS") != nullptr;
  if (!asked && !kDebugBuild) return dump.Finish(plan, "");
  const absl::StatusOr<PlanCertificate> verified = VerifyPlan(plan);
  const std::string text = verified.ok() ? verified->ToText() : std::string(verified.status().message());
  RETURN_IF_ERROR(dump.Finish(plan, text + "\n"));
  RETURN_IF_ERROR(verified.status());
  if (options.verify) spdlog::info("{}", text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledPlan> Compile(const Graph& graph, const ProgramRequest& request, const DeviceSet& devices,
                                     const std::vector<int>& devices_by_node, const CompileOptions& options) {
  Dumper dump(options, devices);
  // Constants are folded on the calling thread, with the threads of a CPU device of this set and no more.
  const ScopedParallelThreads threads(devices.device(0).threads());
  auto plan = std::make_shared<Plan>();
  Program& program = plan->program;

  ASSIGN_OR_RETURN(program, Prune(graph, request));
  AssignDevices(program, devices_by_node);
  RETURN_IF_ERROR(dump.After("prune", program));
  RETURN_IF_ERROR(InferShapes(program));
  RETURN_IF_ERROR(FindCollectives(program));
  RETURN_IF_ERROR(FoldConstants(program, options.fold));
  RETURN_IF_ERROR(DropIdentities(program));
  RETURN_IF_ERROR(DropLoneCollectives(program));
  RETURN_IF_ERROR(MergeCommonSubexpressions(program));
  RETURN_IF_ERROR(dump.After("fold", program));
  const RewriteContext context{graph.registry(), devices};
  const auto dump_rewrite = [&](absl::string_view name) { return dump.After(name, program); };
  RETURN_IF_ERROR(RunRewrites(program, context, options.fuse, dump_rewrite));
  // Rewrites prepare weights, such as filters that a batch norm is folded into.
  if (options.fold == Fold::kWeights) RETURN_IF_ERROR(FoldConstants(program, options.fold));
  RETURN_IF_ERROR(RecomputeForward(program, options.recompute));
  if (options.fuse) RETURN_IF_ERROR(FuseElementwise(program, devices, options.fuse_elementwise_from));
  RETURN_IF_ERROR(dump.After("elementwise", program));
  RETURN_IF_ERROR(Partition(program));
  RETURN_IF_ERROR(PrepareCollectives(program));
  RETURN_IF_ERROR(dump.After("partition", program));
  RETURN_IF_ERROR(Order(program));
  RETURN_IF_ERROR(dump.After("order", program));
  if (options.fuse) RETURN_IF_ERROR(FuseUpdates(program, devices, options.fuse_elementwise_from));
  RETURN_IF_ERROR(dump.After("updates", program));
  LowerPeak(program, devices.size());
  RETURN_IF_ERROR(dump.After("peak", program));

  AssignStreams(*plan, devices);
  program.prepared = std::make_shared<PreparedConstants>();
  ASSIGN_OR_RETURN(std::vector<Kernel> kernels, MakeKernels(program, devices, graph.registry()));
  for (const Kernel& kernel : kernels) {
    plan->workspace_bytes.push_back(kernel.workspace_bytes);
    plan->in_place.push_back(kernel.in_place ? 1 : 0);
    plan->engines.push_back(kernel.engine);
  }
  PlanMemory(*plan, devices.size());
  if (options.arena_limit > 0) FitMemory(*plan, devices, options.arena_limit);
  if (plan->recomputation.nodes > 0) {
    program.prepared = std::make_shared<PreparedConstants>();
    ASSIGN_OR_RETURN(kernels, MakeKernels(program, devices, graph.registry()));
    RETURN_IF_ERROR(dump.After("again", program));
  }
  if (options.fold == Fold::kWeights) DropPreparedConstants(program);
  FindVariableUses(*plan);
  RETURN_IF_ERROR(VerifyAndDump(*plan, options, dump));
  return CompiledPlan{std::move(plan), std::move(kernels)};
}

}  // namespace belfry
