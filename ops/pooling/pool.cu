#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/cudnn/pool.h"
#include "ops/gpu/autotune.h"
#include "ops/gpu/host_word.h"
#include "ops/pooling/pool_gpu_impl.h"
#include "ops/pooling/pool_impl.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<PoolGeometries> MakeGeometries(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const Window window, PoolWindow(spec.attrs, x));
  constexpr int64_t kLargest = int64_t{1} << 30;  // keeps the sum of two of them from overflowing
  for (const WindowAxis& axis : {window.h, window.w}) {
    if (std::max({axis.in + axis.pad_low + axis.pad_high, axis.window, axis.stride}) <= kLargest) continue;
    return absl::UnimplementedError(absl::StrCat("the padded image, the window and its stride must be at most ",
                                                 kLargest, " on a GPU, but one is larger"));
  }
  const int lanes = spec.inputs[0].dtype == DType::kFloat32 ? kWideLanes<float> : kWideLanes<Half>;
  const PoolGeometries geometries(window, x, lanes);
  if (geometries.single.inputs == 0 && geometries.single.outputs > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the images have no elements: ", x.ToString()));
  }
  return geometries;
}

using PoolRun = absl::Status (*)(const PoolGeometries&, const KernelContext&);

// A stream and device memory for trying out kernels before there is a plan.
class Trial {
 public:
  static absl::StatusOr<Trial> Make(Device& device, absl::Span<const size_t> bytes) {
    Trial trial;
    ASSIGN_OR_RETURN(trial.stream_, device.NewStream(StreamKind::kCompute));
    for (const size_t size : bytes) {
      ASSIGN_OR_RETURN(DeviceMemory block, DeviceMemory::Allocate(device, size));
      trial.blocks_.push_back(std::move(block));
    }
    ASSIGN_OR_RETURN(trial.host_, HostWord::Make(device));
    return trial;
  }

  Stream& stream() const { return *stream_; }
  void* block(int i) const { return blocks_[i].data(); }
  absl::Status Run(const Kernel& kernel, const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
                   void* workspace = nullptr) const {
    return kernel.run({.inputs = inputs.data(),
                       .outputs = outputs.data(),
                       .workspace = workspace,
                       .run = 0,
                       .stream = stream_.get()});
  }
  // Reports to the host if any of n elements differ.
  template <class S>
  absl::Status Compare(int64_t n, const void* a, const void* b) const {
    const auto *const x = static_cast<const S*>(a), *const y = static_cast<const S*>(b);
    uint64_t* const host = host_->data();
    return gpu::ForEach(*stream_, n, [=] BELFRY_GPU(int64_t i) {
      if (gpu::Widen(x[i]) != gpu::Widen(y[i])) gpu::TellHost(host, 1);
    });
  }
  // Unimplemented if any comparison failed.
  absl::Status Finish() const {
    RETURN_IF_ERROR(stream_->Synchronize());
    if (host_->Take() == 0) return absl::OkStatus();
    return absl::UnimplementedError("the library's results differ from Belfry's");
  }

 private:
  std::vector<DeviceMemory> blocks_;
  std::shared_ptr<HostWord> host_;
  std::unique_ptr<Stream> stream_;  // destroyed first, because its work uses the others
};

// Images with few distinct values, so that windows contain ties.
template <class T>
absl::Status MakeUpImages(Stream& stream, int64_t n, gpu::Stored<T>* x) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    const int drawn = static_cast<int>(static_cast<uint32_t>(i) * 2654435761u >> 29);  // below 8
    x[i] = gpu::Narrow<T>(static_cast<gpu::Compute<T>>(drawn));
  });
}
// Gradients whose sums are exact.
template <class T>
absl::Status MakeUpSlopes(Stream& stream, int64_t n, gpu::Stored<T>* dy) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    const int drawn = static_cast<int>(static_cast<uint32_t>(i) * 2654435761u >> 30);  // below 4
    dy[i] = gpu::Narrow<T>(static_cast<gpu::Compute<T>>(drawn - 1));
  });
}

// Checks that the library's kernel and ours agree, and so interpret winners alike.
template <class T, class Winner>
absl::Status TryMaximumGradient(const PoolGeometries& geometries, const KernelSpec& spec, const Kernel& own,
                                const Kernel& library) {
  using S = gpu::Stored<T>;
  const PoolGeometry& g = geometries.single;
  const auto inputs = static_cast<size_t>(g.inputs), outputs = static_cast<size_t>(g.outputs);
  ASSIGN_OR_RETURN(const Trial trial,
                   Trial::Make(*spec.device, {inputs * sizeof(S), outputs * sizeof(S), outputs * sizeof(Winner),
                                              inputs * sizeof(S), library.workspace_bytes}));
  void *const x = trial.block(0), *const dy = trial.block(1), *const winners = trial.block(2);
  RETURN_IF_ERROR(MakeUpImages<T>(trial.stream(), g.inputs, static_cast<S*>(x)));
  const Kernel forward{[&](const KernelContext& at) { return Maximum<T, Winner>(geometries, at); }};
  RETURN_IF_ERROR(trial.Run(forward, {x}, {dy, winners}));
  RETURN_IF_ERROR(MakeUpSlopes<T>(trial.stream(), g.outputs, static_cast<S*>(dy)));
  RETURN_IF_ERROR(trial.Run(own, {nullptr, winners, dy}, {x}));
  RETURN_IF_ERROR(trial.Run(library, {nullptr, winners, dy}, {trial.block(3)}, trial.block(4)));
  RETURN_IF_ERROR(trial.Compare<S>(g.inputs, x, trial.block(3)));
  return trial.Finish();
}
using PoolTry = absl::Status (*)(const PoolGeometries&, const KernelSpec&, const Kernel& own, const Kernel& library);

// The library's kernel for a node.
absl::StatusOr<Kernel> MakeLibrary(const KernelSpec& spec, GpuPool::Kind kind) {
  const bool max = kind == GpuPool::Kind::kMaximumGradient;
  GpuPool pool{
      .kind = kind, .dtype = spec.inputs[0].dtype, .n = spec.inputs[0].shape[0], .channels = spec.inputs[0].shape[3]};
  if (max) pool.winners = spec.inputs[1].dtype;
  ASSIGN_OR_RETURN(pool.window, PoolWindow(spec.attrs, spec.inputs[0].shape));
  ASSIGN_OR_RETURN(LibraryCore core, MakeLibraryGpuPool(pool, *spec.device));
  const size_t bytes = BytesForLibraries(core.workspace_bytes);
  // The gradients use only the shape of x.
  const int first = kind == GpuPool::Kind::kAverage ? 0 : 1, inputs = static_cast<int>(spec.inputs.size()) - first;
  return Kernel{[core = std::move(core), first, inputs](const KernelContext& at) {
                  std::array<void*, 3> operands{};
                  for (int i = 0; i < inputs; ++i) operands[i] = const_cast<void*>(at.inputs[first + i]);
                  operands[inputs] = at.outputs[0];
                  return core.run(*at.stream, absl::MakeConstSpan(operands.data(), inputs + 1),
                                  AlignForLibraries(at.workspace));
                },
                bytes};
}

std::string KeyOf(absl::string_view op, const Window& window) {
  const auto axis = [](const WindowAxis& a) { return absl::StrCat(" ", a.window, "s", a.stride, "p", a.pad_low); };
  return absl::StrCat(op, axis(window.h), axis(window.w));
}

struct PoolKernel {
  PoolRun run;
  std::optional<GpuPool::Kind> library;  // empty if the library has none
  PoolTry try_library = nullptr;         // null if there is nothing to compare
};

absl::StatusOr<Kernel> MakePool(const KernelSpec& spec, absl::string_view op, const PoolKernel& chosen) {
  ASSIGN_OR_RETURN(const PoolGeometries geometries, MakeGeometries(spec));
  Kernel own{[geometries, run = chosen.run](const KernelContext& at) { return run(geometries, at); }};
  const PoolGeometry& single = geometries.single;
  if (!chosen.library.has_value() || single.inputs == 0 || single.outputs == 0) return own;
  ASSIGN_OR_RETURN(const Window window, PoolWindow(spec.attrs, spec.inputs[0].shape));
  return FasterKernel(spec, KeyOf(op, window), own, [&]() -> absl::StatusOr<Kernel> {
    ASSIGN_OR_RETURN(Kernel library, MakeLibrary(spec, *chosen.library));
    if (chosen.try_library != nullptr) RETURN_IF_ERROR(chosen.try_library(geometries, spec, own, library));
    return library;
  });
}

// Registers kernels for every dtype; choose(TypeTag, spec) returns the PoolKernel.
template <class Choose>
void Add(KernelTable& table, absl::string_view op, const Choose& choose) {
  table.AddKernels(op, Kernels<float, double, Half, BFloat16>("GPU", [&](auto tag) -> KernelFactory {
                     return [choose, tag, name = std::string(op)](const KernelSpec& spec) {
                       return MakePool(spec, name, choose(tag, spec));
                     };
                   }));
}

}  // namespace

void AddPoolGpuKernels(KernelTable& table) {
  using Kind = GpuPool::Kind;
  Add(table, "MaxPool", [](auto tag, const KernelSpec& spec) -> PoolKernel {
    using T = typename decltype(tag)::type;
    return {spec.outputs[1].dtype == DType::kUInt8 ? &Maximum<T, uint8_t> : &Maximum<T, int32_t>, std::nullopt};
  });
  Add(table, "MaxPoolGrad", [](auto tag, const KernelSpec& spec) -> PoolKernel {
    using T = typename decltype(tag)::type;
    if (spec.inputs[1].dtype == DType::kUInt8) {
      return {&MaximumGradient<T, uint8_t>, Kind::kMaximumGradient, &TryMaximumGradient<T, uint8_t>};
    }
    return {&MaximumGradient<T, int32_t>, Kind::kMaximumGradient, &TryMaximumGradient<T, int32_t>};
  });
  Add(table, "AvgPool", [](auto tag, const KernelSpec&) -> PoolKernel {
    return {&Average<typename decltype(tag)::type>, Kind::kAverage};
  });
  Add(table, "AvgPoolGrad", [](auto tag, const KernelSpec&) -> PoolKernel {
    return {&AverageGradient<typename decltype(tag)::type>, Kind::kAverageGradient};
  });
}

}  // namespace belfry::ops
