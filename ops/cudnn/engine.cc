#include "ops/cudnn/engine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/current.h"
#include "framework/device/cuda/native.h"
#include "ops/gpu/autotune.h"

namespace belfry::cudnn {
namespace {

constexpr size_t kMaxWorkspace = size_t{256} << 20;
constexpr int kMaxMeasured = 8, kMaxCompiled = 2;

// A plan for a graph of operations, with everything it refers to.
struct Engine {
  OperationGraph operations;
  Descriptor graph;
  ExecutionPlan plan;
};

// State shared by the nodes of a device: the library's handle, and the engines of equal nodes. The nodes own the
// engines.
struct Library {
  std::unique_ptr<Handle> handle;
  std::map<std::string, std::weak_ptr<const Engine>> engines;  // by key; guarded by the handle's mutex

  static absl::StatusOr<std::unique_ptr<Library>> Make() {
    auto made = std::make_unique<Library>();
    ASSIGN_OR_RETURN(made->handle, Handle::Make());
    return made;
  }
};

// Runs plans on the operands of one node. Not thread-safe.
class Launcher {
 public:
  Launcher(Handle& handle, const Problem& problem)
      : handle_(handle), constants_(problem.constants), ids_(problem.operand_bytes.size() + constants_.size()) {
    std::iota(ids_.begin(), ids_.end(), 1);
  }

  absl::Status Run(const ExecutionPlan& plan, Stream& stream, absl::Span<void* const> operands, void* workspace) {
    // A node's addresses are fixed by its plan, so the variant pack is normally built once.
    if (pack_ == nullptr || workspace != workspace_ ||
        !std::equal(operands.begin(), operands.end(), operands_.begin(), operands_.end())) {
      operands_.assign(operands.begin(), operands.end());
      workspace_ = workspace;
      std::vector<void*> data = operands_;
      for (float& constant : constants_) data.push_back(&constant);
      ASSIGN_OR_RETURN(Descriptor pack, MakeVariantPack(ids_, data, workspace));
      pack_ = std::make_unique<Descriptor>(std::move(pack));
    }
    const MutexLock lock(handle_.mutex);
    RETURN_IF_ERROR(Check(cudnnSetStream(handle_.handle, NativeStream(stream)), "cudnnSetStream"));
    return Check(cudnnBackendExecute(handle_.handle, plan.plan.get(), pack_->get()), "running a plan");
  }

 private:
  Handle& handle_;
  std::vector<float> constants_;
  std::vector<int64_t> ids_;
  std::vector<void*> operands_;
  void* workspace_ = nullptr;
  std::unique_ptr<Descriptor> pack_;
};

absl::StatusOr<ExecutionPlan> BuildPlan(Handle& handle, Descriptor config) {
  const MutexLock lock(handle.mutex);
  ASSIGN_OR_RETURN(ExecutionPlan plan, MakePlan({.handle = handle.handle}, std::move(config)));
  if (plan.workspace_bytes <= kMaxWorkspace) return plan;
  return absl::UnimplementedError(absl::StrCat("cuDNN: the engine needs a workspace of ", plan.workspace_bytes,
                                               " bytes; at most ", kMaxWorkspace, " are allowed"));
}

// Builds the first plans, measures them and returns the fastest; in deterministic mode, the first.
absl::StatusOr<ExecutionPlan> BuildAndMeasure(const Problem& problem, Device& device, Handle& handle, Configs configs) {
  const auto count = static_cast<int>(configs.configs.size());
  const int limit = device.math().deterministic ? 1 : problem.multiplies ? kMaxMeasured : kMaxCompiled;
  std::vector<std::optional<ExecutionPlan>> plans(count);
  absl::Status failure;
  size_t workspace = 0;
  int built = 0, first = -1;
  for (int i = 0; i < count && built < limit && (built == 0 || i < configs.recommended); ++i) {
    absl::StatusOr<ExecutionPlan> plan = BuildPlan(handle, std::move(configs.configs[i]));
    if (!plan.ok()) {
      failure = plan.status();
      continue;
    }
    workspace = std::max(workspace, plan->workspace_bytes);
    plans[i] = *std::move(plan);
    if (built++ == 0) first = i;
  }
  if (first < 0) {
    return absl::UnimplementedError(
        absl::StrCat("none of cuDNN's ", count, " engines can be used; the last one: ", failure.message()));
  }
  if (device.math().deterministic) return *std::move(plans[first]);

  std::vector<size_t> bytes = problem.operand_bytes;
  bytes.push_back(workspace);
  Launcher launcher(handle, problem);
  const auto run = [&](int candidate, Stream& stream, absl::Span<void* const> at) -> absl::Status {
    if (!plans[candidate].has_value()) return absl::UnimplementedError("not built");
    return launcher.Run(*plans[candidate], stream, at.first(at.size() - 1), at.back());
  };
  ASSIGN_OR_RETURN(const int fastest, ops::MeasureFastest(device, problem.key, count, bytes, run));
  return *std::move(plans[plans[fastest].has_value() ? fastest : first]);
}

absl::StatusOr<std::shared_ptr<const Engine>> FindEngine(const Problem& problem, Device& device, Library& library) {
  const MathMode math = device.math();
  Handle& handle = *library.handle;
  {
    const MutexLock lock(handle.mutex);
    if (const auto known = library.engines.find(problem.key); known != library.engines.end()) {
      if (std::shared_ptr<const Engine> engine = known->second.lock()) return engine;
    }
  }
  ASSIGN_OR_RETURN(OperationGraph operations, problem.make_graph());
  absl::StatusOr<Configs> configs;
  {
    const MutexLock lock(handle.mutex);
    configs = FindConfigs({.handle = handle.handle}, operations.operations,
                          {.tensor_cores = math.tf32 || problem.dtype != DType::kFloat32 || !problem.multiplies,
                           .deterministic = math.deterministic});
  }
  RETURN_IF_ERROR(configs.status());
  Descriptor graph = std::move(configs->graph);
  int known = -1;
  if (!math.deterministic) {
    ASSIGN_OR_RETURN(known, ops::KnownFastest(device, problem.key, static_cast<int>(configs->configs.size())));
  }
  absl::StatusOr<ExecutionPlan> plan = absl::NotFoundError("not measured yet");
  if (known >= 0) plan = BuildPlan(handle, std::move(configs->configs[known]));
  if (!plan.ok()) plan = BuildAndMeasure(problem, device, handle, *std::move(configs));
  RETURN_IF_ERROR(plan.status());
  const auto engine = std::make_shared<const Engine>(Engine{std::move(operations), std::move(graph), *std::move(plan)});
  const MutexLock lock(handle.mutex);
  library.engines[problem.key] = engine;
  return engine;
}

}  // namespace

absl::StatusOr<ops::LibraryCore> MakeCore(Problem problem, Device& device) {
  absl::StrAppend(&problem.key, device.math().tf32 ? " tf32" : "", " ", ops::LibraryVersion());
  RETURN_IF_ERROR(MakeCurrent(device));
  ASSIGN_OR_RETURN(Library* const library, device.Shared<Library>(&Library::Make));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Engine> engine, FindEngine(problem, device, *library));
  const auto launcher = std::make_shared<Launcher>(*library->handle, problem);
  return ops::LibraryCore{[engine, launcher](Stream& stream, absl::Span<void* const> operands, void* workspace) {
                            return launcher->Run(engine->plan, stream, operands, workspace);
                          },
                          engine->plan.workspace_bytes};
}

}  // namespace belfry::cudnn

namespace belfry::ops {

std::string LibraryVersion() { return absl::StrCat("cudnn", cudnnGetVersion()); }

}  // namespace belfry::ops
