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
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/host_word.h"
#include "ops/pooling/pool_impl.h"
#include "ops/pooling/pooling_ops.h"

namespace belfry::ops {
namespace {

// A range of positions along one axis.
struct Range {
  int begin, end;
};
struct Axis {
  int in, out, window, pad;
  Divider stride;

  explicit Axis(const WindowAxis& axis)
      : in(static_cast<int>(axis.in)),
        out(static_cast<int>(axis.out)),
        window(static_cast<int>(axis.window)),
        pad(static_cast<int>(axis.pad_low)),
        stride(axis.stride, int64_t{1} << 31) {}

  // The start of window o, which may lie in the padding.
  constexpr int Start(int o) const { return o * static_cast<int>(stride.divisor()) - pad; }
  // The positions of the image in window o.
  constexpr Range Elements(int o) const {
    const int start = Start(o), end = start + window;
    return {start < 0 ? 0 : start, end > in ? in : end};
  }
  // The windows that contain position i.
  constexpr Range Windows(int i) const {
    const int before = i + pad - window, last = static_cast<int>(stride.Quotient(i + pad)) + 1;
    return {before < 0 ? 0 : static_cast<int>(stride.Quotient(before)) + 1, last > out ? out : last};
  }
};

struct PixelIndex {
  int64_t n;
  int h, w, c;
};

struct PoolGeometry {
  Axis h, w;
  int64_t inputs, outputs;  // number of elements of x and of y
  Divider channels, in_h, in_w, out_h, out_w;

  PoolGeometry(const Window& window, const Shape& x)
      : h(window.h), w(window.w), inputs(x.elements()), outputs(x[0] * window.h.out * window.w.out * x[3]) {
    if (inputs == 0 || outputs == 0) return;
    const int64_t limit = inputs > outputs ? inputs : outputs;
    channels = Divider(x[3], limit);
    in_h = Divider(x[1], limit);
    in_w = Divider(x[2], limit);
    out_h = Divider(window.h.out, limit);
    out_w = Divider(window.w.out, limit);
  }

  BELFRY_GPU PixelIndex Find(int64_t i, const Divider& height, const Divider& width) const {
    PixelIndex at{};
    at.c = static_cast<int>(channels.Split(i));
    at.w = static_cast<int>(width.Split(i));
    at.h = static_cast<int>(height.Split(i));
    at.n = i;
    return at;
  }
  BELFRY_GPU PixelIndex OfInput(int64_t i) const { return Find(i, in_h, in_w); }
  BELFRY_GPU PixelIndex OfOutput(int64_t i) const { return Find(i, out_h, out_w); }
  // Offsets in x and y of row a, column b in the image and channel of `at`.
  BELFRY_GPU int64_t Input(const PixelIndex& at, int a, int b) const {
    return ((at.n * h.in + a) * w.in + b) * channels.divisor() + at.c;
  }
  BELFRY_GPU int64_t Output(const PixelIndex& at, int a, int b) const {
    return ((at.n * h.out + a) * w.out + b) * channels.divisor() + at.c;
  }
};

absl::StatusOr<PoolGeometry> MakeGeometry(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  ASSIGN_OR_RETURN(const Window window, PoolWindow(spec.attrs, x));
  constexpr int64_t kLargest = int64_t{1} << 30;  // keeps the sum of two of them from overflowing
  for (const WindowAxis& axis : {window.h, window.w}) {
    if (std::max({axis.in + axis.pad_low + axis.pad_high, axis.window, axis.stride}) <= kLargest) continue;
    return absl::UnimplementedError(absl::StrCat("the padded image, the window and its stride must be at most ",
                                                 kLargest, " on a GPU, but one is larger"));
  }
  const PoolGeometry geometry(window, x);
  if (geometry.inputs == 0 && geometry.outputs > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the images have no elements: ", x.ToString()));
  }
  return geometry;
}

// Maximum of each window. Ties go to the first element; any number beats NaN.
template <class T, class Winner>
absl::Status Maximum(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const x = context.input<gpu::Stored<T>>(0);
  auto* const y = context.output<gpu::Stored<T>>(0);
  auto* const winners = context.output<Winner>(1);
  return gpu::ForEach(*context.stream, g.outputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfOutput(i);
    const Range rows = g.h.Elements(at.h), columns = g.w.Elements(at.w);
    int best_row = rows.begin, best_column = columns.begin;
    C best = gpu::Widen(x[g.Input(at, best_row, best_column)]);
    for (int a = rows.begin; a < rows.end; ++a) {
      const gpu::Stored<T>* from = x + g.Input(at, a, columns.begin);
      for (int b = columns.begin; b < columns.end; ++b, from += g.channels.divisor()) {
        const C here = gpu::Widen(*from);
        if (here > best || (best != best && here == here)) {
          best = here;
          best_row = a;
          best_column = b;
        }
      }
    }
    y[i] = gpu::Narrow<T>(best);
    winners[i] = static_cast<Winner>((best_row - g.h.Start(at.h)) * g.w.window + best_column - g.w.Start(at.w));
  });
}

// Inputs: x (shape only), winners, dy. Each element of x sums the windows that contain it in ascending order, so no
// atomics are needed.
template <class T, class Winner>
absl::Status MaximumGradient(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const winners = context.input<Winner>(1);
  const auto* const dy = context.input<gpu::Stored<T>>(2);
  auto* const dx = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.inputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfInput(i);
    const Range rows = g.h.Windows(at.h), columns = g.w.Windows(at.w);
    C sum = 0;
    for (int a = rows.begin; a < rows.end; ++a) {
      for (int b = columns.begin; b < columns.end; ++b) {
        const int64_t from = g.Output(at, a, b);
        const int tap = (at.h - g.h.Start(a)) * g.w.window + at.w - g.w.Start(b);
        if (static_cast<int>(winners[from]) == tap) sum += gpu::Widen(dy[from]);
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status Average(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const x = context.input<gpu::Stored<T>>(0);
  auto* const y = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.outputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfOutput(i);
    const Range rows = g.h.Elements(at.h), columns = g.w.Elements(at.w);
    C sum = 0;
    for (int a = rows.begin; a < rows.end; ++a) {
      const gpu::Stored<T>* from = x + g.Input(at, a, columns.begin);
      for (int b = columns.begin; b < columns.end; ++b, from += g.channels.divisor()) sum += gpu::Widen(*from);
    }
    const int64_t count = int64_t{rows.end - rows.begin} * (columns.end - columns.begin);
    y[i] = gpu::Narrow<T>(sum / static_cast<C>(count));
  });
}

// Inputs: x (shape only), dy.
template <class T>
absl::Status AverageGradient(const PoolGeometry& g, const KernelContext& context) {
  using C = gpu::Compute<T>;
  const auto* const dy = context.input<gpu::Stored<T>>(1);
  auto* const dx = context.output<gpu::Stored<T>>(0);
  return gpu::ForEach(*context.stream, g.inputs, [=] BELFRY_GPU(int64_t i) {
    const PixelIndex at = g.OfInput(i);
    const Range rows = g.h.Windows(at.h), columns = g.w.Windows(at.w);
    C sum = 0;
    for (int a = rows.begin; a < rows.end; ++a) {
      const Range high = g.h.Elements(a);
      for (int b = columns.begin; b < columns.end; ++b) {
        const Range wide = g.w.Elements(b);
        const int64_t count = int64_t{high.end - high.begin} * (wide.end - wide.begin);
        sum += gpu::Widen(dy[g.Output(at, a, b)]) * (1 / static_cast<C>(count));
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

using PoolRun = absl::Status (*)(const PoolGeometry&, const KernelContext&);

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
absl::Status TryMaximumGradient(const PoolGeometry& g, const KernelSpec& spec, const Kernel& own,
                                const Kernel& library) {
  using S = gpu::Stored<T>;
  const auto inputs = static_cast<size_t>(g.inputs), outputs = static_cast<size_t>(g.outputs);
  ASSIGN_OR_RETURN(const Trial trial,
                   Trial::Make(*spec.device, {inputs * sizeof(S), outputs * sizeof(S), outputs * sizeof(Winner),
                                              inputs * sizeof(S), library.workspace_bytes}));
  void *const x = trial.block(0), *const dy = trial.block(1), *const winners = trial.block(2);
  RETURN_IF_ERROR(MakeUpImages<T>(trial.stream(), g.inputs, static_cast<S*>(x)));
  const Kernel forward{[&g](const KernelContext& at) { return Maximum<T, Winner>(g, at); }};
  RETURN_IF_ERROR(trial.Run(forward, {x}, {dy, winners}));
  RETURN_IF_ERROR(MakeUpSlopes<T>(trial.stream(), g.outputs, static_cast<S*>(dy)));
  RETURN_IF_ERROR(trial.Run(own, {nullptr, winners, dy}, {x}));
  RETURN_IF_ERROR(trial.Run(library, {nullptr, winners, dy}, {trial.block(3)}, trial.block(4)));
  RETURN_IF_ERROR(trial.Compare<S>(g.inputs, x, trial.block(3)));
  return trial.Finish();
}
using PoolTry = absl::Status (*)(const PoolGeometry&, const KernelSpec&, const Kernel& own, const Kernel& library);

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
  ASSIGN_OR_RETURN(const PoolGeometry geometry, MakeGeometry(spec));
  Kernel own{[geometry = geometry, run = chosen.run](const KernelContext& at) { return run(geometry, at); }};
  if (!chosen.library.has_value() || geometry.inputs == 0 || geometry.outputs == 0) return own;
  ASSIGN_OR_RETURN(const Window window, PoolWindow(spec.attrs, spec.inputs[0].shape));
  return FasterKernel(spec, KeyOf(op, window), own, [&]() -> absl::StatusOr<Kernel> {
    ASSIGN_OR_RETURN(Kernel library, MakeLibrary(spec, *chosen.library));
    if (chosen.try_library != nullptr) RETURN_IF_ERROR(chosen.try_library(geometry, spec, own, library));
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
