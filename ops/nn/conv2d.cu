#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/nn/conv2d_gpu_impl.h"

namespace belfry::ops {
namespace {

// Calls body(TypeTag) for the C++ type of a floating dtype.
template <class Body>
absl::Status ForFloat(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat64: return body(TypeTag<double>());
    case DType::kFloat16: return body(TypeTag<Half>());
    case DType::kBFloat16: return body(TypeTag<BFloat16>());
    default: return body(TypeTag<float>());
  }
}

template <class T>
absl::Status Forward(Stream& stream, const GpuConv& p, const gpu::Stored<T>* x, const gpu::Stored<T>* filter,
                     gpu::Stored<T>* y) {
  return gpu::ForEach(stream, p.output_elements(), [=] BELFRY_GPU(int64_t i) {
    const int64_t k = i % p.k, ow = i / p.k % p.out_w, oh = i / p.k / p.out_w % p.out_h,
                  n = i / p.k / p.out_w / p.out_h;
    const int64_t c_group = p.c / p.groups, first = k / (p.k / p.groups) * c_group;
    gpu::Compute<T> sum = 0;
    for (int64_t r = 0; r < p.r; ++r) {
      const int64_t ih = oh * p.stride_h - p.pad_h + r * p.dilation_h;
      if (ih < 0 || ih >= p.h) continue;
      for (int64_t s = 0; s < p.s; ++s) {
        const int64_t iw = ow * p.stride_w - p.pad_w + s * p.dilation_w;
        if (iw < 0 || iw >= p.w) continue;
        const auto* const from = x + ((n * p.h + ih) * p.w + iw) * p.c + first;
        const auto* const weights = filter + ((k * p.r + r) * p.s + s) * c_group;
        for (int64_t c = 0; c < c_group; ++c) sum += gpu::Widen(from[c]) * gpu::Widen(weights[c]);
      }
    }
    y[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status BackwardData(Stream& stream, const GpuConv& p, gpu::Stored<T>* dx, const gpu::Stored<T>* filter,
                          const gpu::Stored<T>* dy) {
  return gpu::ForEach(stream, p.image_elements(), [=] BELFRY_GPU(int64_t i) {
    const int64_t c = i % p.c, iw = i / p.c % p.w, ih = i / p.c / p.w % p.h, n = i / p.c / p.w / p.h;
    const int64_t c_group = p.c / p.groups, k_group = p.k / p.groups, first = c / c_group * k_group;
    gpu::Compute<T> sum = 0;
    for (int64_t r = 0; r < p.r; ++r) {
      const int64_t at_h = ih + p.pad_h - r * p.dilation_h, oh = at_h / p.stride_h;
      if (at_h < 0 || at_h % p.stride_h != 0 || oh >= p.out_h) continue;
      for (int64_t s = 0; s < p.s; ++s) {
        const int64_t at_w = iw + p.pad_w - s * p.dilation_w, ow = at_w / p.stride_w;
        if (at_w < 0 || at_w % p.stride_w != 0 || ow >= p.out_w) continue;
        const auto* const slope = dy + ((n * p.out_h + oh) * p.out_w + ow) * p.k + first;
        const auto* const weights = filter + ((first * p.r + r) * p.s + s) * c_group + c % c_group;
        for (int64_t k = 0; k < k_group; ++k) {
          sum += gpu::Widen(slope[k]) * gpu::Widen(weights[k * p.r * p.s * c_group]);
        }
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status BackwardFilter(Stream& stream, const GpuConv& p, const gpu::Stored<T>* x, gpu::Stored<T>* dfilter,
                            const gpu::Stored<T>* dy) {
  const int64_t outputs = p.n * p.out_h * p.out_w;
  return gpu::ForEachRow(stream, p.filter_elements(), outputs, [=] BELFRY_GPU(int64_t row, const gpu::Team& team) {
    const int64_t c_group = p.c / p.groups, c = row % c_group, s = row / c_group % p.s, r = row / c_group / p.s % p.r;
    const int64_t k = row / c_group / p.s / p.r, channel = k / (p.k / p.groups) * c_group + c;
    gpu::Compute<T> sum = 0;
    for (int64_t i = team.rank; i < outputs; i += team.size) {
      const int64_t ih = i / p.out_w % p.out_h * p.stride_h - p.pad_h + r * p.dilation_h;
      const int64_t iw = i % p.out_w * p.stride_w - p.pad_w + s * p.dilation_w;
      if (ih < 0 || ih >= p.h || iw < 0 || iw >= p.w) continue;
      const int64_t n = i / p.out_w / p.out_h;
      sum += gpu::Widen(x[((n * p.h + ih) * p.w + iw) * p.c + channel]) * gpu::Widen(dy[i * p.k + k]);
    }
    sum = team.Sum(sum);
    if (team.rank == 0) dfilter[row] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status RunPlain(Stream& stream, const GpuConv& conv, const GpuConvOperands& at) {
  auto* const x = static_cast<gpu::Stored<T>*>(at.x);
  auto* const filter = static_cast<gpu::Stored<T>*>(at.filter);
  auto* const y = static_cast<gpu::Stored<T>*>(at.y);
  switch (conv.kind) {
    case GpuConv::Kind::kForward: return Forward<T>(stream, conv, x, filter, y);
    case GpuConv::Kind::kBackwardData: return BackwardData<T>(stream, conv, x, filter, y);
    default: return BackwardFilter<T>(stream, conv, x, filter, y);
  }
}

// `U` is as wide as an element.
template <class U>
absl::Status Pad(Stream& stream, const GpuBorder& b, const U* from, U* to) {
  const int64_t h = b.low_h + b.h + b.high_h, w = b.low_w + b.w + b.high_w;
  return gpu::ForEach(stream, b.n * h * w * b.c, [=] BELFRY_GPU(int64_t i) {
    const int64_t c = i % b.c, x = i / b.c % w - b.low_w, y = i / b.c / w % h - b.low_h, n = i / b.c / w / h;
    const bool inside = x >= 0 && x < b.w && y >= 0 && y < b.h;
    to[i] = inside ? from[((n * b.h + y) * b.w + x) * b.c + c] : U(0);
  });
}

template <class U>
absl::Status Crop(Stream& stream, const GpuBorder& b, const U* from, U* to) {
  const int64_t h = b.low_h + b.h + b.high_h, w = b.low_w + b.w + b.high_w;
  return gpu::ForEach(stream, b.n * b.h * b.w * b.c, [=] BELFRY_GPU(int64_t i) {
    const int64_t c = i % b.c, x = i / b.c % b.w, y = i / b.c / b.w % b.h, n = i / b.c / b.w / b.h;
    to[i] = from[((n * h + y + b.low_h) * w + x + b.low_w) * b.c + c];
  });
}

template <class U>
absl::Status Transpose(Stream& stream, int64_t rows, int64_t columns, const U* from, U* to) {
  return gpu::ForEach(stream, rows * columns,
                      [=] BELFRY_GPU(int64_t i) { to[i] = from[i % rows * columns + i / rows]; });
}

}  // namespace

GpuConvCore MakePlainGpuConv(const GpuConv& conv) {
  return {[conv](Stream& stream, const GpuConvOperands& at) {
    return ForFloat(conv.dtype, [&](auto tag) { return RunPlain<typename decltype(tag)::type>(stream, conv, at); });
  }};
}

absl::Status PadImages(Stream& stream, size_t size, const GpuBorder& border, const void* from, void* to) {
  if (size == 2) return Pad(stream, border, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
  if (size == 4) return Pad(stream, border, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
  return Pad(stream, border, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to));
}

absl::Status CropImages(Stream& stream, size_t size, const GpuBorder& border, const void* from, void* to) {
  if (size == 2) return Crop(stream, border, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
  if (size == 4) return Crop(stream, border, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
  return Crop(stream, border, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to));
}

absl::Status TransposeOnGpu(Stream& stream, size_t size, int64_t rows, int64_t columns, const void* from, void* to) {
  if (size == 2)
    return Transpose(stream, rows, columns, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to));
  if (size == 4)
    return Transpose(stream, rows, columns, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to));
  return Transpose(stream, rows, columns, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to));
}

}  // namespace belfry::ops
