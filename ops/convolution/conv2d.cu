#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/convolution/conv2d_gpu_impl.h"
#include "ops/gpu/divider_impl.h"

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

// Coordinates of element i of a tensor [n, h, w, c].
struct ElementIndex {
  int64_t n, h, w, c;
};
struct IndexSplitter {
  Divider h, w, c;
  IndexSplitter(int64_t images, int64_t height, int64_t width, int64_t channels)
      : h(height, images * height * width * channels),
        w(width, images * height * width * channels),
        c(channels, images * height * width * channels) {}

  BELFRY_GPU ElementIndex Find(int64_t i) const {
    ElementIndex at{};
    at.c = c.Split(i);
    at.w = w.Split(i);
    at.h = h.Split(i);
    at.n = i;
    return at;
  }
};

template <class T>
absl::Status Forward(Stream& stream, const GpuConv& p, const gpu::Stored<T>* x, const gpu::Stored<T>* filter,
                     gpu::Stored<T>* y) {
  const int64_t c_group = p.c / p.groups;
  const IndexSplitter outputs(p.n, p.out_h, p.out_w, p.k);
  const Divider k_group(p.k / p.groups, p.k);
  return gpu::ForEach(stream, p.output_elements(), [=] BELFRY_GPU(int64_t i) {
    const ElementIndex at = outputs.Find(i);
    const int64_t first = k_group.Quotient(at.c) * c_group;
    gpu::Compute<T> sum = 0;
    for (int64_t r = 0; r < p.r; ++r) {
      const int64_t ih = at.h * p.stride_h - p.pad_h + r * p.dilation_h;
      if (ih < 0 || ih >= p.h) continue;
      for (int64_t s = 0; s < p.s; ++s) {
        const int64_t iw = at.w * p.stride_w - p.pad_w + s * p.dilation_w;
        if (iw < 0 || iw >= p.w) continue;
        const auto* const from = x + ((at.n * p.h + ih) * p.w + iw) * p.c + first;
        const auto* const weights = filter + ((at.c * p.r + r) * p.s + s) * c_group;
        for (int64_t c = 0; c < c_group; ++c) sum += gpu::Widen(from[c]) * gpu::Widen(weights[c]);
      }
    }
    y[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status BackwardData(Stream& stream, const GpuConv& p, gpu::Stored<T>* dx, const gpu::Stored<T>* filter,
                          const gpu::Stored<T>* dy) {
  const int64_t k_group = p.k / p.groups;
  const IndexSplitter images(p.n, p.h, p.w, p.c);
  const Divider c_group(p.c / p.groups, p.c), stride_h(p.stride_h, p.h + p.pad_h), stride_w(p.stride_w, p.w + p.pad_w);
  return gpu::ForEach(stream, p.image_elements(), [=] BELFRY_GPU(int64_t i) {
    const ElementIndex at = images.Find(i);
    int64_t group = at.c;
    const int64_t c = c_group.Split(group), first = group * k_group;
    gpu::Compute<T> sum = 0;
    for (int64_t r = 0; r < p.r; ++r) {
      int64_t oh = at.h + p.pad_h - r * p.dilation_h;
      if (oh < 0 || stride_h.Split(oh) != 0 || oh >= p.out_h) continue;
      for (int64_t s = 0; s < p.s; ++s) {
        int64_t ow = at.w + p.pad_w - s * p.dilation_w;
        if (ow < 0 || stride_w.Split(ow) != 0 || ow >= p.out_w) continue;
        const auto* const slope = dy + ((at.n * p.out_h + oh) * p.out_w + ow) * p.k + first;
        const auto* const weights = filter + ((first * p.r + r) * p.s + s) * c_group.divisor() + c;
        for (int64_t k = 0; k < k_group; ++k) {
          sum += gpu::Widen(slope[k]) * gpu::Widen(weights[k * p.r * p.s * c_group.divisor()]);
        }
      }
    }
    dx[i] = gpu::Narrow<T>(sum);
  });
}

template <class T>
absl::Status BackwardFilter(Stream& stream, const GpuConv& p, const gpu::Stored<T>* x, gpu::Stored<T>* dfilter,
                            const gpu::Stored<T>* dy) {
  const int64_t outputs = p.n * p.out_h * p.out_w, c_group = p.c / p.groups;
  const IndexSplitter filters(p.k, p.r, p.s, c_group), windows(p.n, p.out_h, p.out_w, 1);
  const Divider k_group(p.k / p.groups, p.k);
  return gpu::ForEachRow(stream, p.filter_elements(), outputs, [=] BELFRY_GPU(int64_t row, const gpu::Team& team) {
    const ElementIndex to = filters.Find(row);
    const int64_t channel = k_group.Quotient(to.n) * c_group + to.c;
    gpu::Compute<T> sum = 0;
    for (int64_t i = team.rank; i < outputs; i += team.size) {
      const ElementIndex at = windows.Find(i);
      const int64_t ih = at.h * p.stride_h - p.pad_h + to.h * p.dilation_h;
      const int64_t iw = at.w * p.stride_w - p.pad_w + to.w * p.dilation_w;
      if (ih < 0 || ih >= p.h || iw < 0 || iw >= p.w) continue;
      sum += gpu::Widen(x[((at.n * p.h + ih) * p.w + iw) * p.c + channel]) * gpu::Widen(dy[i * p.k + to.n]);
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

// Adds a border of zeros; Crop removes it. U has the size of an element.
template <class U>
absl::Status Pad(Stream& stream, const GpuBorder& b, const U* from, U* to) {
  const int64_t h = b.low_h + b.h + b.high_h, w = b.low_w + b.w + b.high_w;
  const IndexSplitter places(b.n, h, w, b.c);
  return gpu::ForEach(stream, b.n * h * w * b.c, [=] BELFRY_GPU(int64_t i) {
    const ElementIndex at = places.Find(i);
    const int64_t x = at.w - b.low_w, y = at.h - b.low_h;
    const bool inside = x >= 0 && x < b.w && y >= 0 && y < b.h;
    to[i] = inside ? from[((at.n * b.h + y) * b.w + x) * b.c + at.c] : U(0);
  });
}

template <class U>
absl::Status Crop(Stream& stream, const GpuBorder& b, const U* from, U* to) {
  const int64_t h = b.low_h + b.h + b.high_h, w = b.low_w + b.w + b.high_w;
  const IndexSplitter places(b.n, b.h, b.w, b.c);
  return gpu::ForEach(stream, b.n * b.h * b.w * b.c, [=] BELFRY_GPU(int64_t i) {
    const ElementIndex at = places.Find(i);
    to[i] = from[((at.n * h + at.h + b.low_h) * w + at.w + b.low_w) * b.c + at.c];
  });
}

template <class U>
absl::Status Transpose(Stream& stream, int64_t rows, int64_t columns, const U* from, U* to) {
  const Divider by_rows(rows, rows * columns);
  return gpu::ForEach(stream, rows * columns, [=] BELFRY_GPU(int64_t i) {
    int64_t column = i;
    const int64_t row = by_rows.Split(column);
    to[i] = from[row * columns + column];
  });
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
