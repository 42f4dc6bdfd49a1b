#include "ops/convolution/engines/depthwise_kernel_impl.h"

#include <algorithm>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/base/parallel.h"
#include "ops/convolution/engines/taps_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops::depthwise {
namespace {

using V = simd::Vector<float>;

constexpr int64_t kLanes = V::kLanes;
// Outputs for which a weight is loaded once.
constexpr int kTogether = 6;
// Rows, and columns, of taps whose sums stay in registers.
constexpr int64_t kTaps = 3;
// Outputs for each tap below which a part of the lines has no sums of its own, and the most such parts.
constexpr int64_t kOutputsOfPart = 16, kMostParts = 16;
// Floats of an image batch that is not in a cache.
constexpr int64_t kLarge = 1 << 20;
// The ways of an L1 cache, and the bytes of one.
constexpr int64_t kWays = 8, kWay = 4096, kCacheLine = 64;

// Loads a float of each cache line. Loops over a vector of channels visit addresses far apart, which prefetchers follow
// at half the speed at which they follow these loads.
void ReadInOrder(const float* from, int64_t n) {
  constexpr int64_t kStep = kCacheLine / static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < n; i += kStep) static_cast<void>(*static_cast<const volatile float*>(from + i));
}

// Reads the inputs that line `line` (n out_h + oh) of outputs is the first to read.
void ReadInputs(const ConvolutionGeometry& p, const float* x, int64_t line) {
  const int64_t n = line / p.out_h(), oh = line % p.out_h();
  const int64_t end = oh * p.stride_h - p.pad_top + (p.r - 1) * p.dilation_h + 1;
  const Interval rows = {std::max<int64_t>(end - p.stride_h, 0), std::min(end, p.h)};
  ReadInOrder(x + (n * p.h + rows.begin) * p.w * p.c, rows.size() * p.w * p.c);
}
bool IsLarge(const ConvolutionGeometry& p) { return p.n * p.h * p.w * p.c >= kLarge; }

// Columns of which a vector in each of four lines stays in the L1 cache until the next vector is read: if columns are
// a power of two apart, they share a few of its sets.
int64_t SegmentColumns(int64_t channels) {
  const int64_t bytes = channels * static_cast<int64_t>(sizeof(float));
  return std::max<int64_t>(kWays * std::min(kWay / std::gcd(bytes, kWay), kWay / kCacheLine) / 4, 4);
}

V::Lanes ReluIf(bool relu, V::Lanes x) { return relu ? V::Relu(x) : x; }

// Positions of a line for filters of three columns: output o reads o, o + 1 and o + 2.
struct Slide {
  int64_t channels;
  const float* in;  // of the first row, and position 0, which may be left of the image
  int64_t row;      // floats to the next row
  Interval on_image, outputs;

  // Those on the image that the outputs read. The first two complete sums of outputs left of these.
  Interval positions() const {
    return {std::max(outputs.begin, on_image.begin), std::min(outputs.end + 2, on_image.end)};
  }
};
Slide SlideOf(const ConvolutionGeometry& p, const float* x, int64_t n, int64_t row) {
  return {.channels = p.c,
          .in = x + ((n * p.h + row) * p.w - p.pad_left) * p.c,
          .row = p.w * p.c,
          .on_image = {p.pad_left, p.pad_left + p.w},
          .outputs = {0, 0}};
}

struct SlideWeights {
  const float* first;
  int64_t row, column;
  const float* bias;
  bool relu;
};

template <int kRows>
void ComputeSlide(const Slide& slide, const SlideWeights& of, float* out) {
  const int64_t step = slide.channels, row = slide.row;
  const Interval positions = slide.positions(), outputs = slide.outputs;
  const int64_t first_full = std::min(outputs.begin + 2, positions.end);
  for (int64_t c = 0; c < slide.channels; c += kLanes) {
    V::Lanes weights[kRows][kTaps];
    for (int r = 0; r < kRows; ++r) {
      for (int s = 0; s < kTaps; ++s) weights[r][s] = V::Load(of.first + r * of.row + s * of.column + c);
    }
    const V::Lanes bias = of.bias == nullptr ? V::Lanes{} : V::Load(of.bias + c);
    const float* from = slide.in + positions.begin * step + c;
    V::Lanes one = bias, two = bias;  // of the outputs one and two before the position
    // Adds the inputs of a position and returns the sum that this completes.
    const auto add = [&] {
      V::Lanes next = bias;
      for (int r = 0; r < kRows; ++r) {
        const V::Lanes x = V::Load(from + r * row);
        two += x * weights[r][2];
        one += x * weights[r][1];
        next += x * weights[r][0];
      }
      from += step;
      const V::Lanes done = two;
      two = one;
      one = next;
      return done;
    };
    int64_t i = positions.begin;
    for (; i < first_full; ++i) add();
    float* to = out + (i - 2) * step + c;
    for (; i < positions.end; ++i, to += step) V::Store(ReluIf(of.relu, add()), to);
    // Columns right of the image have nothing to add.
    const auto store = [&](int64_t output, V::Lanes sum) {
      if (output < outputs.begin || output >= outputs.end) return;
      V::Store(ReluIf(of.relu, sum), out + output * step + c);
    };
    store(i - 2, two);
    store(i - 1, one);
  }
}

// REQUIRES: Slides(p).
void ComputeSlides(const ConvolutionGeometry& p, const float* x, const SlideWeights& weights, float* y) {
  const int64_t height = p.out_h(), width = p.out_w(), columns = SegmentColumns(p.c);
  const bool large = IsLarge(p);
  const double cost = static_cast<double>(kTaps * kTaps * width * p.c / kLanes);
  ParallelFor(p.n * height, cost, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t n = line / height, top = line % height - p.pad_top;
      const Interval rows = {std::max<int64_t>(top, 0), std::min(top + kTaps, p.h)};
      float* const out = y + line * width * p.c;
      if (large) {
        ReadInputs(p, x, line);
        ReadInOrder(out, width * p.c);
      }
      Slide slide = SlideOf(p, x, n, rows.begin);
      SlideWeights of = weights;
      of.first += (rows.begin - top) * of.row;
      for (int64_t left = 0; left < width; left += columns) {
        slide.outputs = {left, std::min(left + columns, width)};
        switch (rows.size()) {
          case 1: ComputeSlide<1>(slide, of, out); break;
          case 2: ComputeSlide<2>(slide, of, out); break;
          default: ComputeSlide<3>(slide, of, out);
        }
      }
    }
  });
}

// A tap of a line of outputs, for other filters.
struct Tap {
  const float* weights;
  int64_t from;  // floats from the image to the input of output 0, which may be left of it
  Interval outputs;
};
using Taps = absl::InlinedVector<Tap, 25>;

struct Line {
  int64_t channels;
  const float* in;
  int64_t step;  // floats from an input to that of the next output
  const float* bias;
  bool relu;
  float* out;
};

// Outputs first, ..., first + kOutputs - 1, for all of which these taps are on the image.
template <int kOutputs>
void ComputeOutputs(const Line& line, absl::Span<const Tap> taps, int64_t first) {
  const int64_t step = line.step, channels = line.channels;
  const float* const in = line.in + first * step;
  float* const out = line.out + first * channels;
  for (int64_t c = 0; c < channels; c += kLanes) {
    V::Lanes sums[kOutputs];
    for (V::Lanes& sum : sums) sum = line.bias == nullptr ? V::Lanes{} : V::Load(line.bias + c);
    for (const Tap& tap : taps) {
      const V::Lanes weight = V::Load(tap.weights + c);
      const float* const from = in + tap.from + c;
      for (int i = 0; i < kOutputs; ++i) sums[i] += weight * V::Load(from + i * step);
    }
    for (int i = 0; i < kOutputs; ++i) V::Store(ReluIf(line.relu, sums[i]), out + i * channels + c);
  }
}

void ComputeLine(const Line& line, const Taps& taps, int64_t width) {
  Interval all = {0, width};
  for (const Tap& tap : taps) {
    all = {std::max(all.begin, tap.outputs.begin), std::min(all.end, tap.outputs.end)};
  }
  for (int64_t i = 0; i < width;) {
    if (i >= all.begin && i + kTogether <= all.end) {
      ComputeOutputs<kTogether>(line, taps, i);
      i += kTogether;
    } else if (i >= all.begin && i + 2 <= all.end) {
      ComputeOutputs<2>(line, taps, i);
      i += 2;
    } else {
      Taps on_image;
      for (const Tap& tap : taps) {
        if (tap.outputs.begin <= i && i < tap.outputs.end) on_image.push_back(tap);
      }
      ComputeOutputs<1>(line, on_image, i++);
    }
  }
}

}  // namespace

bool Slides(const ConvolutionGeometry& p) {
  return p.r == kTaps && p.s == kTaps && std::max({p.stride_h, p.stride_w, p.dilation_h, p.dilation_w}) == 1 &&
         std::max({p.pad_top, p.pad_bottom, p.pad_left, p.pad_right}) < kTaps;
}

void Forward(const ConvolutionGeometry& p, const float* x, const float* filter, const float* bias, bool relu,
             float* y) {
  if (Slides(p)) return ComputeSlides(p, x, {filter, kTaps * p.c, p.c, bias, relu}, y);
  const int64_t height = p.out_h(), width = p.out_w();
  const bool large = IsLarge(p);
  const double cost = static_cast<double>(p.r * p.s * width * p.c / kLanes);
  ParallelFor(p.n * height, cost, [&](int64_t begin, int64_t end) {
    Taps taps;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t n = at / height, top = at % height * p.stride_h - p.pad_top;
      taps.clear();
      for (int64_t r = 0; r < p.r; ++r) {
        const int64_t ih = top + r * p.dilation_h;
        if (ih < 0 || ih >= p.h) continue;
        for (int64_t s = 0; s < p.s; ++s) {
          const int64_t from = (ih * p.w - p.pad_left + s * p.dilation_w) * p.c;
          taps.push_back({filter + (r * p.s + s) * p.c, from, Columns(p, s)});
        }
      }
      float* const out = y + at * width * p.c;
      if (large) {
        ReadInputs(p, x, at);
        ReadInOrder(out, width * p.c);
      }
      ComputeLine({p.c, x + n * p.h * p.w * p.c, p.stride_w * p.c, bias, relu, out}, taps, width);
    }
  });
}

// The convolution of dy with the filter turned by 180 degrees.
void BackpropInput(const ConvolutionGeometry& p, const float* filter, const float* dy, float* dx) {
  ConvolutionGeometry turned = p;
  turned.h = p.out_h();
  turned.w = p.out_w();
  for (int64_t* pad : {&turned.pad_top, &turned.pad_bottom, &turned.pad_left, &turned.pad_right}) {
    *pad = kTaps - 1 - *pad;
  }
  const float* const last = filter + (kTaps * kTaps - 1) * p.c;
  ComputeSlides(turned, dy, {last, -kTaps * p.c, -p.c, nullptr, false}, dx);
}

namespace {

template <int kRows, int kColumns>
void AddTo(const V::Lanes (&sums)[kRows][kColumns], int64_t row, int64_t column, float* to) {
  for (int r = 0; r < kRows; ++r) {
    for (int s = 0; s < kColumns; ++s) {
      float* const at = to + r * row + s * column;
      V::Store(V::Load(at) + sums[r][s], at);
    }
  }
}

// Adds the products of a segment to `sums`.
template <int kRows>
void AddSlide(const Slide& slide, int64_t channels, const float* dy, float* sums) {
  const int64_t step = slide.channels, row = slide.row;
  const Interval positions = slide.positions(), outputs = slide.outputs;
  for (int64_t c = 0; c < channels; c += kLanes) {
    const float *const in = slide.in + c, *const slopes = dy + c;
    V::Lanes of_segment[kRows][kTaps] = {};
    // A position that outputs of other segments, or none, read with some taps. A slope of 0 in their place would make
    // NaN of an infinite input.
    const auto add_part = [&](int64_t i) {
      for (int s = 0; s < kTaps; ++s) {
        if (i - s < outputs.begin || i - s >= outputs.end) continue;
        const V::Lanes slope = V::Load(slopes + (i - s) * step);
        for (int r = 0; r < kRows; ++r) of_segment[r][s] += V::Load(in + i * step + r * row) * slope;
      }
    };
    const Interval whole = {outputs.begin + kTaps - 1, std::min(positions.end, outputs.end)};
    int64_t i = positions.begin;
    for (; i < std::min(whole.begin, positions.end); ++i) add_part(i);
    if (i < whole.end) {
      V::Lanes one = V::Load(slopes + (i - 1) * step), two = V::Load(slopes + (i - 2) * step);
      for (; i < whole.end; ++i) {
        const V::Lanes next = V::Load(slopes + i * step);
        for (int r = 0; r < kRows; ++r) {
          const V::Lanes x = V::Load(in + i * step + r * row);
          of_segment[r][0] += x * next;
          of_segment[r][1] += x * one;
          of_segment[r][2] += x * two;
        }
        two = one;
        one = next;
      }
    }
    for (; i < positions.end; ++i) add_part(i);
    AddTo(of_segment, kTaps * step, step, sums + c);
  }
}

// Up to kTaps x kTaps neighbouring taps in a segment of a line, for other filters.
struct Block {
  int64_t channels, all_channels;
  const float* in;            // of the first tap and output 0, which may be left of the image
  int64_t step, row, column;  // floats to the input of the next output, row, and column
  const float* dy;
  Interval outputs;
  const Interval* on_image;  // for each column
  float* sums;
  int64_t sums_row;
};

template <int kRows, int kColumns>
void AddBlock(const Block& b) {
  Interval on_image[kColumns], all = b.outputs;
  for (int s = 0; s < kColumns; ++s) {
    on_image[s] = {std::max(b.outputs.begin, b.on_image[s].begin), std::min(b.outputs.end, b.on_image[s].end)};
    all = {std::max(all.begin, on_image[s].begin), std::min(all.end, on_image[s].end)};
  }
  all.end = std::max(all.begin, all.end);
  const int64_t step = b.step, row = b.row, column = b.column, dy_step = b.all_channels;
  for (int64_t c = 0; c < b.channels; c += kLanes) {
    V::Lanes sums[kRows][kColumns] = {};
    const float *const in = b.in + c, *const dy = b.dy + c;
    for (int64_t i = all.begin; i < all.end; ++i) {
      const V::Lanes slope = V::Load(dy + i * dy_step);
      const float* const from = in + i * step;
      for (int r = 0; r < kRows; ++r) {
        for (int s = 0; s < kColumns; ++s) sums[r][s] += slope * V::Load(from + r * row + s * column);
      }
    }
    // The outputs for which some columns only are on the image.
    for (int s = 0; s < kColumns; ++s) {
      const auto add = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const V::Lanes slope = V::Load(dy + i * dy_step);
          for (int r = 0; r < kRows; ++r) sums[r][s] += slope * V::Load(in + i * step + r * row + s * column);
        }
      };
      add(on_image[s].begin, std::min(on_image[s].end, all.begin));
      add(std::max(on_image[s].begin, all.end), on_image[s].end);
    }
    AddTo(sums, b.sums_row, b.all_channels, b.sums + c);
  }
}

template <int kRows>
void AddRows(const Block& block, int64_t columns) {
  switch (columns) {
    case 1: return AddBlock<kRows, 1>(block);
    case 2: return AddBlock<kRows, 2>(block);
    default: return AddBlock<kRows, 3>(block);
  }
}

// The channels of a band, and the gradient of the filter whose channel `first` is at `sums`.
struct FilterBand {
  int64_t first, channels;
  float* sums;
};

// Adds up to kTaps rows of taps, which are on the image, for a segment of a line.
void AddToSegment(const ConvolutionGeometry& p, const FilterBand& band, int64_t line, Interval rows, Interval outputs,
                  absl::Span<const Interval> columns, const float* x, const float* dy) {
  const int64_t n = line / p.out_h(), ih = line % p.out_h() * p.stride_h - p.pad_top + rows.begin * p.dilation_h;
  dy += line * p.out_w() * p.c + band.first;
  float* const sums = band.sums + rows.begin * p.s * p.c;
  if (Slides(p)) {
    Slide slide = SlideOf(p, x + band.first, n, ih);
    slide.outputs = outputs;
    switch (rows.size()) {
      case 1: return AddSlide<1>(slide, band.channels, dy, sums);
      case 2: return AddSlide<2>(slide, band.channels, dy, sums);
      default: return AddSlide<3>(slide, band.channels, dy, sums);
    }
  }
  for (int64_t s = 0; s < p.s; s += kTaps) {
    const Block block{.channels = band.channels,
                      .all_channels = p.c,
                      .in = x + ((n * p.h + ih) * p.w - p.pad_left + s * p.dilation_w) * p.c + band.first,
                      .step = p.stride_w * p.c,
                      .row = p.dilation_h * p.w * p.c,
                      .column = p.dilation_w * p.c,
                      .dy = dy,
                      .outputs = outputs,
                      .on_image = columns.data() + s,
                      .sums = sums + s * p.c,
                      .sums_row = p.s * p.c};
    const int64_t width = std::min(kTaps, p.s - s);
    switch (rows.size()) {
      case 1: AddRows<1>(block, width); break;
      case 2: AddRows<2>(block, width); break;
      default: AddRows<3>(block, width);
    }
  }
}

// Parts of the lines whose sums are added in the end.
int64_t CountParts(const ConvolutionGeometry& p) {
  const int64_t lines = p.n * p.out_h(), outputs = lines * p.out_w();
  return std::min(std::clamp<int64_t>(outputs / (kOutputsOfPart * p.r * p.s), 1, kMostParts), lines);
}

}  // namespace

int64_t FilterWorkspace(const ConvolutionGeometry& p) { return (CountParts(p) - 1) * p.r * p.s * p.c; }

// The parts do not depend on the number of threads. More threads divide the channels.
void BackpropFilter(const ConvolutionGeometry& p, const float* x, const float* dy, float* dfilter, float* workspace) {
  const int64_t width = p.out_w(), lines = p.n * p.out_h(), parts = CountParts(p);
  const int64_t vectors = p.c / kLanes, weights = p.r * p.s * p.c, segment = SegmentColumns(p.c);
  const int64_t bands = std::clamp<int64_t>((ParallelThreads() + parts - 1) / parts, 1, vectors);
  const bool large = IsLarge(p);
  absl::InlinedVector<Interval, 16> columns;
  for (int64_t s = 0; s < p.s; ++s) columns.push_back(Columns(p, s));
  const auto run = [&](const FilterBand& band, Interval of_part) {
    for (int64_t i = 0; i < p.r * p.s; ++i) std::fill_n(band.sums + i * p.c, band.channels, 0.0f);
    for (int64_t line = of_part.begin; line < of_part.end; ++line) {
      if (large) {
        ReadInputs(p, x, line);
        ReadInOrder(dy + line * width * p.c, width * p.c);
      }
      const int64_t top = line % p.out_h() * p.stride_h - p.pad_top;
      for (int64_t left = 0; left < width; left += segment) {
        for (int64_t r = 0; r < p.r; r += kTaps) {
          Interval rows = {r, std::min(r + kTaps, p.r)};
          while (rows.size() > 0 && top + rows.begin * p.dilation_h < 0) ++rows.begin;
          while (rows.size() > 0 && top + (rows.end - 1) * p.dilation_h >= p.h) --rows.end;
          if (rows.size() == 0) continue;
          AddToSegment(p, band, line, rows, {left, std::min(left + segment, width)}, columns, x, dy);
        }
      }
    }
  };
  const double cost = static_cast<double>(lines * width) * static_cast<double>(p.r * p.s * vectors) /
                      static_cast<double>(parts * bands);
  ParallelFor(parts * bands, cost, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const int64_t part = task / bands, band = task % bands, first = vectors * band / bands * kLanes;
      float* const sums = part == 0 ? dfilter : workspace + (part - 1) * weights;
      run({first, vectors * (band + 1) / bands * kLanes - first, sums + first},
          {lines * part / parts, lines * (part + 1) / parts});
    }
  });
  ParallelFor(weights / kLanes, static_cast<double>(parts), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
      V::Lanes sum = V::Load(dfilter + i);
      for (int64_t part = 1; part < parts; ++part) sum += V::Load(workspace + (part - 1) * weights + i);
      V::Store(sum, dfilter + i);
    }
  });
}

}  // namespace belfry::ops::depthwise
