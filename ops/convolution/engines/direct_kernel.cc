#include "ops/convolution/engines/direct_kernel_impl.h"

#include <algorithm>

#include "framework/base/parallel.h"
#include "ops/convolution/engines/taps_impl.h"
#include "ops/simd/parts_impl.h"
#include "ops/simd/product_impl.h"

namespace belfry::ops {
namespace {

constexpr int64_t kLanes = simd::Vector<float>::kLanes;
// Output channels of a panel of the filter.
constexpr int64_t kWidth = simd::kProductWidth * kLanes;
// Outputs that read a panel while it is there. Their copied inputs stay in the L2 cache.
constexpr int64_t kRows = 96;

// The input, with all its channels, of output `ow` of line `line` (n out_h + oh) for a tap.
const float* InputOf(const ConvolutionGeometry& p, const float* x, int64_t line, int64_t ow, int64_t r, int64_t s) {
  const int64_t n = line / p.out_h(), ih = line % p.out_h() * p.stride_h - p.pad_top + r * p.dilation_h;
  const int64_t iw = ow * p.stride_w - p.pad_left + s * p.dilation_w;
  return x + ((n * p.h + ih) * p.w + iw) * p.c;
}

}  // namespace

DirectForward::DirectForward(const ConvolutionGeometry& shape) : shape_(shape), lines_(shape.n * shape.out_h()) {
  of_group_ = std::clamp<int64_t>(kRows / shape.out_w(), 1, lines_);
  groups_ = Parts(lines_, of_group_);
  threads_ = std::min<int64_t>(ParallelThreads(), groups_);
  block_ = of_group_ * shape.out_w() * (simd::kProductDepth + kLanes * 2);
}

int64_t DirectForward::filter_floats() const {
  return Parts(shape_.k, kWidth) * kWidth * shape_.r * shape_.s * shape_.c;
}

// [taps, panels, c, kWidth], of which the last panel may lack columns.
void DirectForward::Pack(const float* filter, float* packed) const {
  const int64_t panels = Parts(shape_.k, kWidth), taps = shape_.r * shape_.s, c = shape_.c, k = shape_.k;
  ParallelFor(taps * c, static_cast<double>(k) / 4, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = packed + (row / c * panels * c + row % c) * kWidth;
      for (int64_t j = 0; j < k; j += kWidth, to += c * kWidth) {
        std::copy_n(filter + row * k + j, std::min(kWidth, k - j), to);
      }
    }
  });
}

void DirectForward::Run(const float* x, const float* packed, const float* bias, bool relu, float* y,
                        float* workspace) const {
  const int64_t row = shape_.out_w() * shape_.k;
  const double cost = 2.0 / kLanes * static_cast<double>(of_group_ * row) *
                      static_cast<double>(shape_.r * shape_.s * shape_.c * groups_ / threads_);
  ParallelFor(threads_, cost, [=, this](int64_t from, int64_t to) {
    for (int64_t thread = from; thread < to; ++thread) {
      for (int64_t group = groups_ * thread / threads_; group < groups_ * (thread + 1) / threads_; ++group) {
        const int64_t begin = group * of_group_, end = std::min(begin + of_group_, lines_);
        for (float* at = y + begin * row; at < y + end * row; at += shape_.k) {
          bias == nullptr ? std::fill_n(at, shape_.k, 0.0f) : std::copy_n(bias, shape_.k, at);
        }
        RunLines(begin, end, x, packed, y, workspace + thread * block_);
        if (!relu) continue;
        // NaN stays NaN.
        for (float* at = y + begin * row; at < y + end * row; ++at) *at = *at < 0 ? 0 : *at;
      }
    }
  });
}

// Lines [begin, end): for each tap the runs of lines whose inputs are on the image.
void DirectForward::RunLines(int64_t begin, int64_t end, const float* x, const float* packed, float* y,
                             float* copies) const {
  const int64_t height = shape_.out_h();
  for (int64_t r = 0; r < shape_.r; ++r) {
    const Interval rows = Rows(shape_, r);
    const auto on_image = [&](int64_t line) { return rows.begin <= line % height && line % height < rows.end; };
    for (int64_t s = 0; s < shape_.s; ++s) {
      if (Columns(shape_, s).size() == 0) continue;
      for (int64_t first = begin; first < end;) {
        int64_t last = first;
        while (last < end && on_image(last)) ++last;
        if (last > first) AddTap(first, last, r, s, x, packed, y, copies);
        first = last + 1;
      }
    }
  }
}

// Adds the products of a tap to lines [begin, end).
void DirectForward::AddTap(int64_t begin, int64_t end, int64_t r, int64_t s, const float* x, const float* packed,
                           float* y, float* copies) const {
  const ConvolutionGeometry& p = shape_;
  const int64_t width = p.out_w(), panels = Parts(p.k, kWidth);
  const Interval columns = Columns(p, s);
  const float* const filter = packed + (r * p.s + s) * panels * p.c * kWidth;
  for (int64_t c = 0; c < p.c; c += simd::kProductDepth) {
    const int64_t depth = std::min(simd::kProductDepth, p.c - c), row = depth + 2 * kLanes;
    float* to = copies;
    for (int64_t line = begin; line < end; ++line) {
      const float* from = InputOf(p, x, line, columns.begin, r, s) + c;
      for (int64_t ow = 0; ow < width; ++ow, to += row) {
        if (ow < columns.begin || ow >= columns.end) {
          std::fill_n(to, depth, 0.0f);
          continue;
        }
        std::copy_n(from, depth, to);
        from += p.stride_w * p.c;
      }
    }
    for (int64_t panel = 0; panel < panels; ++panel) {
      const simd::Product product{.m = (end - begin) * width,
                                  .k = depth,
                                  .vectors = Parts(std::min(kWidth, p.k - panel * kWidth), kLanes),
                                  .a_row = row,
                                  .b_row = kWidth,
                                  .b_vector = kLanes,
                                  .c_row = p.k,
                                  .c_vector = kLanes};
      simd::MultiplyAndAdd(product, copies, filter + (panel * p.c + c) * kWidth,
                           y + begin * width * p.k + panel * kWidth);
    }
  }
}

DirectFilterGradient::DirectFilterGradient(const ConvolutionGeometry& shape)
    : shape_(shape), bands_(shape.c, shape.k, shape.n * shape.out_h() * shape.out_w(), ParallelThreads()) {}

void DirectFilterGradient::Run(const float* x, const float* dy, float* dfilter, float* workspace) const {
  const ConvolutionGeometry& p = shape_;
  const double cost = static_cast<double>(p.n * p.out_h() * p.out_w()) * static_cast<double>(p.r * p.s * p.c * p.k) /
                      static_cast<double>(kLanes * bands_.count());
  ParallelFor(bands_.count(), cost, [=, this](int64_t begin, int64_t end) {
    for (int64_t band = begin; band < end; ++band) {
      RunBand(bands_.At(band), x, dy, dfilter, workspace + band * bands_.elements());
    }
  });
}

// Blocks of outputs that all taps read while they are in a cache: some whole lines, or a part of one.
void DirectFilterGradient::RunBand(const Band& band, const float* x, const float* dy, float* dfilter,
                                   float* workspace) const {
  const ConvolutionGeometry& p = shape_;
  const int64_t height = p.out_h(), width = p.out_w(), lines = p.n * height;
  simd::OuterProducts<float> products = bands_.Products(band, workspace);
  const int64_t most = bands_.rows(), of_block = std::max<int64_t>(most / width, 1);
  float* const to = dfilter + band.row * p.k + band.column;
  for (int64_t i = 0; i < p.r * p.s * band.rows; ++i) {
    std::fill_n(to + (i / band.rows * p.c + i % band.rows) * p.k, band.columns, 0.0f);
  }
  for (int64_t line = 0; line < lines; line += of_block) {
    const int64_t last = std::min(line + of_block, lines);
    for (int64_t left = 0; left < width; left += most) {
      for (int64_t tap = 0; tap < p.r * p.s; ++tap) {
        const int64_t r = tap / p.s, s = tap % p.s;
        const Interval rows = Rows(p, r), on_image = Columns(p, s);
        const Interval columns = {std::max(left, on_image.begin), std::min(left + most, on_image.end)};
        for (int64_t i = line; i < last; ++i) {
          if (i % height < rows.begin || i % height >= rows.end) continue;
          const float* from = InputOf(p, x, i, columns.begin, r, s) + band.row;
          for (int64_t ow = columns.begin; ow < columns.end; ++ow, from += p.stride_w * p.c) {
            products.Add(from, dy + (i * width + ow) * p.k + band.column);
          }
        }
        products.AddTo(to + tap * p.c * p.k, p.k);
      }
    }
  }
}

}  // namespace belfry::ops
