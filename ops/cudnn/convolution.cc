#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/current.h"
#include "framework/device/cuda/native.h"
#include "ops/cudnn/convolution_graph_impl.h"
#include "ops/cudnn/descriptor.h"
#include "ops/gpu/autotune.h"
#include "ops/nn/conv2d_gpu_impl.h"

namespace belfry::ops {
namespace {

constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr int kMostMeasured = 8;

std::string KeyOf(const GpuConv& p, const MathMode& math) {
  constexpr absl::string_view kKinds[] = {"forward", "data", "filter"};
  return absl::StrCat("conv ", kKinds[static_cast<int>(p.kind)], " ", DTypeName(p.dtype), " x", p.n, "x", p.h, "x", p.w,
                      "x", p.c, " f", p.r, "x", p.s, "x", p.k, " s", p.stride_h, "x", p.stride_w, " p", p.pad_h, "x",
                      p.pad_w, " d", p.dilation_h, "x", p.dilation_w, " g", p.groups,
                      absl::StrCat(p.bias ? " bias" : "", p.relu ? " relu" : "", math.tf32 ? " tf32" : "", " cudnn",
                                   cudnnGetVersion()));
}

// A way to compute a convolution, with all that it refers to.
struct Engine {
  cudnn::ConvolutionGraph convolution;
  cudnn::Descriptor graph;
  cudnn::ExecutionPlan plan;
};

// What the convolutions of a device share: the library's handle, and the engines of equal nodes, which the nodes own.
struct Library {
  std::unique_ptr<cudnn::Handle> handle;
  std::map<std::string, std::weak_ptr<const Engine>> engines;  // by key; under the handle's mutex

  static absl::StatusOr<std::unique_ptr<Library>> Make() {
    auto made = std::make_unique<Library>();
    ASSIGN_OR_RETURN(made->handle, cudnn::Handle::Make());
    return made;
  }
};

// Runs plans on the operands of one node. One thread at a time.
class Launcher {
 public:
  Launcher(cudnn::Handle& handle, bool bias) : handle_(handle), ids_({cudnn::kX, cudnn::kFilter, cudnn::kY}) {
    if (bias) ids_.push_back(cudnn::kBias);
  }

  absl::Status Run(const cudnn::ExecutionPlan& plan, Stream& stream, const GpuConvOperands& at) {
    std::vector<void*>& data = next_;
    data.assign({at.x, at.filter, at.y});
    if (ids_.size() > 3) data.push_back(const_cast<void*>(at.bias));
    data.push_back(at.workspace);
    if (data != last_) {  // in a plan the addresses are always the same
      data.pop_back();
      ASSIGN_OR_RETURN(cudnn::Descriptor pack, cudnn::MakeVariantPack(ids_, data, at.workspace));
      pack_ = std::make_unique<cudnn::Descriptor>(std::move(pack));
      data.push_back(at.workspace);
      last_ = data;
    }
    const MutexLock lock(handle_.mutex);
    RETURN_IF_ERROR(cudnn::Check(cudnnSetStream(handle_.handle, NativeStream(stream)), "cudnnSetStream"));
    return cudnn::Check(cudnnBackendExecute(handle_.handle, plan.plan.get(), pack_->get()), "running a convolution");
  }

 private:
  cudnn::Handle& handle_;
  std::vector<int64_t> ids_;
  std::vector<void*> last_, next_;
  std::unique_ptr<cudnn::Descriptor> pack_;
};

absl::StatusOr<cudnn::ExecutionPlan> BuildPlan(cudnn::Handle& handle, cudnn::Descriptor config) {
  const MutexLock lock(handle.mutex);
  ASSIGN_OR_RETURN(cudnn::ExecutionPlan plan, cudnn::MakePlan(handle.handle, std::move(config)));
  if (plan.workspace_bytes <= kMostWorkspace) return plan;
  return absl::UnimplementedError(absl::StrCat("cuDNN: it takes a workspace of ", plan.workspace_bytes, " bytes"));
}

// Builds the first plans, measures them, and returns the fastest; or the first if results must not depend on that.
absl::StatusOr<cudnn::ExecutionPlan> BuildAndMeasure(const GpuConv& p, Device& device, cudnn::Handle& handle,
                                                     const std::string& key, cudnn::Configs configs) {
  const auto count = static_cast<int>(configs.configs.size());
  const int most = device.math().deterministic ? 1 : kMostMeasured;
  std::vector<std::optional<cudnn::ExecutionPlan>> plans(count);
  absl::Status failure;
  size_t workspace = 0;
  int built = 0, first = -1;
  for (int i = 0; i < count && built < most && (built == 0 || i < configs.recommended); ++i) {
    absl::StatusOr<cudnn::ExecutionPlan> plan = BuildPlan(handle, std::move(configs.configs[i]));
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
        absl::StrCat("none of ", count, " engines of cuDNN can be used; the last one: ", failure.message()));
  }
  if (device.math().deterministic) return *std::move(plans[first]);

  const size_t size = SizeOf(p.dtype);
  const std::array<size_t, 5> bytes = {
      static_cast<size_t>(p.image_elements()) * size, static_cast<size_t>(p.filter_elements()) * size,
      static_cast<size_t>(p.output_elements()) * size, static_cast<size_t>(p.k) * size, workspace};
  Launcher launcher(handle, p.bias);
  const auto run = [&](int candidate, Stream& stream, absl::Span<void* const> at) -> absl::Status {
    if (!plans[candidate].has_value()) return absl::UnimplementedError("not built");
    return launcher.Run(*plans[candidate], stream, {at[0], at[1], at[2], at[3], at[4]});
  };
  ASSIGN_OR_RETURN(const int fastest, MeasureFastest(device, key, count, bytes, run));
  return *std::move(plans[plans[fastest].has_value() ? fastest : first]);
}

// The engine of an equal node; else the one that was chosen before, on this or another day; else the fastest.
absl::StatusOr<std::shared_ptr<const Engine>> FindEngine(const GpuConv& p, Device& device, Library& library) {
  const MathMode math = device.math();
  const std::string key = KeyOf(p, math);
  cudnn::Handle& handle = *library.handle;
  {
    const MutexLock lock(handle.mutex);
    if (const auto known = library.engines.find(key); known != library.engines.end()) {
      if (std::shared_ptr<const Engine> engine = known->second.lock()) return engine;
    }
  }
  ASSIGN_OR_RETURN(cudnn::ConvolutionGraph convolution, cudnn::MakeConvolutionGraph(p));
  absl::StatusOr<cudnn::Configs> configs;
  {
    const MutexLock lock(handle.mutex);
    configs = cudnn::FindConfigs(
        handle.handle, convolution.operations,
        {.tensor_cores = math.tf32 || p.dtype != DType::kFloat32, .deterministic = math.deterministic});
  }
  RETURN_IF_ERROR(configs.status());
  cudnn::Descriptor graph = std::move(configs->graph);
  int known = -1;
  if (!math.deterministic) {
    ASSIGN_OR_RETURN(known, KnownFastest(device, key, static_cast<int>(configs->configs.size())));
  }
  absl::StatusOr<cudnn::ExecutionPlan> plan = absl::NotFoundError("not measured yet");
  if (known >= 0) plan = BuildPlan(handle, std::move(configs->configs[known]));
  if (!plan.ok()) plan = BuildAndMeasure(p, device, handle, key, *std::move(configs));
  RETURN_IF_ERROR(plan.status());
  const auto engine =
      std::make_shared<const Engine>(Engine{std::move(convolution), std::move(graph), *std::move(plan)});
  const MutexLock lock(handle.mutex);
  library.engines[key] = engine;
  return engine;
}

}  // namespace

absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv& p, Device& device) {
  RETURN_IF_ERROR(MakeCurrent(device));
  ASSIGN_OR_RETURN(Library* const library, device.Shared<Library>(&Library::Make));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Engine> engine, FindEngine(p, device, *library));
  const auto launcher = std::make_shared<Launcher>(*library->handle, p.bias);
  return GpuConvCore{
      [engine, launcher](Stream& stream, const GpuConvOperands& at) { return launcher->Run(engine->plan, stream, at); },
      engine->plan.workspace_bytes};
}

}  // namespace belfry::ops
