// Attention by a library, where it has the masks and widths. For .cu files.
#pragma once

#include <array>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/attention/problem_impl.h"
#include "ops/cudnn/attention.h"
#include "ops/gpu/autotune.h"

namespace belfry::ops::attention {

// A library hides keys only where queries and keys end at the same position and are as many, and reads 16 bytes at a
// time.
inline bool LibraryMay(const Problem& p) {
  return !p.masked && p.d % 8 == 0 && p.n > 0 && p.t > 0 && p.s > 0 && (!p.causal || p.t == p.s);
}

template <class T, bool packed, bool gradient>
absl::StatusOr<Kernel> MakeLibrary(const KernelSpec& spec, const Problem& p) {
  using S = gpu::Stored<T>;
  const GpuAttention attention{.gradient = gradient,
                               .dtype = spec.inputs[0].dtype,
                               .n = p.n,
                               .t = p.t,
                               .s = p.s,
                               .h = p.h,
                               .g = p.g,
                               .d = p.d,
                               .q_row = p.q_row,
                               .k_row = p.k_row,
                               .y_row = p.y_row,
                               .causal = p.causal,
                               .scale = static_cast<float>(p.scale)};
  ASSIGN_OR_RETURN(LibraryCore core, MakeLibraryGpuAttention(attention, *spec.device));
  const size_t bytes = BytesForLibraries(core.workspace_bytes);
  Kernel kernel{
      [core = std::move(core), p](const KernelContext& at) {
        constexpr int kY = packed ? 1 : 3;
        const Operands<S> in(p, at, packed, 0);
        const auto input = [&](const void* tensor) { return const_cast<void*>(tensor); };
        void* const workspace = AlignForLibraries(at.workspace);
        if constexpr (gradient) {
          S* const dq = at.output<S>(0);
          const std::array<void*, 9> operands = {input(in.q),
                                                 input(in.k),
                                                 input(in.v),
                                                 input(at.inputs[kY]),
                                                 input(at.inputs[kY + 1]),
                                                 input(at.inputs[kY + 2]),
                                                 dq,
                                                 packed ? PartAt(dq, p.h * p.d) : at.output<S>(1),
                                                 packed ? PartAt(dq, (p.h + p.g) * p.d) : at.output<S>(2)};
          return core.run(*at.stream, operands, workspace);
        } else {
          const std::array<void*, 5> operands = {input(in.q), input(in.k), input(in.v), at.outputs[0], at.outputs[1]};
          return core.run(*at.stream, operands, workspace);
        }
      },
      bytes};
  kernel.in_place = false;
  return kernel;
}

// `own`, or the library's kernel: on devices in deterministic mode wherever there is one, else where it is faster.
template <class T, bool packed, bool gradient>
absl::StatusOr<Kernel> OwnOrLibrary(const KernelSpec& spec, const Problem& p, Kernel own) {
  if constexpr (gpu::kIsSixteenBit<T>) {
    if (LibraryMay(p)) {
      const auto make_library = [&] { return MakeLibrary<T, packed, gradient>(spec, p); };
      if (spec.device->math().deterministic) {
        absl::StatusOr<Kernel> library = make_library();
        return library.ok() ? *std::move(library) : own;
      }
      const std::string key = absl::StrCat("attention", gradient ? " gradient" : "", p.causal ? " causal" : "",
                                           packed ? absl::StrCat(" packed ", p.g) : "", " scale ", p.scale);
      return FasterKernel(spec, key, std::move(own), make_library);
    }
  }
  return own;
}

}  // namespace belfry::ops::attention
