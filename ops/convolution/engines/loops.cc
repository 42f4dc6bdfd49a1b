#include "ops/convolution/engines/loops_impl.h"

#include "ops/common/op_rules_impl.h"

namespace belfry::ops {
namespace {

// Calls body(tap, ih, iw) for each tap r S + s of the window at output (oh, ow) that lies on the image, at (ih, iw).
template <class Body>
void ForEachTap(const ConvolutionGeometry& p, int64_t oh, int64_t ow, const Body& body) {
  for (int64_t r = 0; r < p.r; ++r) {
    const int64_t ih = oh * p.stride_h - p.pad_top + r * p.dilation_h;
    if (ih < 0 || ih >= p.h) continue;
    for (int64_t s = 0; s < p.s; ++s) {
      const int64_t iw = ow * p.stride_w - p.pad_left + s * p.dilation_w;
      if (iw >= 0 && iw < p.w) body(r * p.s + s, ih, iw);
    }
  }
}

}  // namespace

template <class T>
void Conv2DForwardLoops(const ConvolutionGeometry& p, const T* x, const T* filter, T* y) {
  using C = Compute<T>;
  const int64_t c_group = p.c / p.groups, k_group = p.k / p.groups, rows = p.out_h(), columns = p.out_w();
  const double cost = static_cast<double>(columns * p.k * p.r * p.s * c_group);
  ParallelFor(p.n * rows, cost, [&](int64_t begin, int64_t end) {
    alignas(64) C sum[kBlock];
    for (int64_t at = begin * columns; at < end * columns; ++at) {
      const int64_t ow = at % columns, oh = at / columns % rows, n = at / columns / rows;
      for (int64_t group = 0; group < p.groups; ++group) {
        for (int64_t k = group * k_group; k < (group + 1) * k_group; k += kBlock) {
          const int64_t size = std::min(kBlock, (group + 1) * k_group - k);
          std::fill_n(sum, size, C(0));
          ForEachTap(p, oh, ow, [&](int64_t tap, int64_t ih, int64_t iw) {
            const T* from = x + ((n * p.h + ih) * p.w + iw) * p.c + group * c_group;
            for (int64_t c = 0; c < c_group; ++c) {
              const C value = static_cast<C>(from[c]);
              const T* weights = filter + (tap * c_group + c) * p.k + k;
              for (int64_t i = 0; i < size; ++i) sum[i] += value * static_cast<C>(weights[i]);
            }
          });
          Store(sum, size, y + at * p.k + k);
        }
      }
    }
  });
}

template <class T>
void Conv2DBackpropInputLoops(const ConvolutionGeometry& p, const T* filter, const T* dy, T* dx) {
  using C = Compute<T>;
  const int64_t c_group = p.c / p.groups, k_group = p.k / p.groups, rows = p.out_h(), columns = p.out_w();
  const double cost = static_cast<double>(p.w * p.c * p.r * p.s * k_group);
  // The output that input `in` contributes to through tap `tap`, or -1.
  const auto output = [](int64_t in, int64_t tap, int64_t pad, int64_t stride, int64_t dilation, int64_t outputs) {
    const int64_t at = in + pad - tap * dilation;
    return at >= 0 && at % stride == 0 && at / stride < outputs ? at / stride : -1;
  };
  ParallelFor(p.n * p.h, cost, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * p.w; at < end * p.w; ++at) {
      const int64_t iw = at % p.w, ih = at / p.w % p.h, n = at / p.w / p.h;
      for (int64_t c = 0; c < p.c; ++c) {
        const int64_t group = c / c_group;
        C sum = 0;
        for (int64_t r = 0; r < p.r; ++r) {
          const int64_t oh = output(ih, r, p.pad_top, p.stride_h, p.dilation_h, rows);
          for (int64_t s = 0; oh >= 0 && s < p.s; ++s) {
            const int64_t ow = output(iw, s, p.pad_left, p.stride_w, p.dilation_w, columns);
            if (ow < 0) continue;
            const T* slope = dy + ((n * rows + oh) * columns + ow) * p.k + group * k_group;
            const T* weights = filter + ((r * p.s + s) * c_group + c % c_group) * p.k + group * k_group;
            for (int64_t k = 0; k < k_group; ++k) sum += static_cast<C>(slope[k]) * static_cast<C>(weights[k]);
          }
        }
        dx[at * p.c + c] = static_cast<T>(sum);
      }
    }
  });
}

template <class T>
void Conv2DBackpropFilterLoops(const ConvolutionGeometry& p, const T* x, const T* dy, T* dfilter) {
  using C = Compute<T>;
  const int64_t c_group = p.c / p.groups, k_group = p.k / p.groups, rows = p.out_h(), columns = p.out_w();
  const double cost = static_cast<double>(p.n * rows * columns * p.k);
  ParallelFor(p.r * p.s * c_group, cost, [&](int64_t begin, int64_t end) {
    alignas(64) C sum[kBlock];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t c = task % c_group, s = task / c_group % p.s, r = task / c_group / p.s;
      for (int64_t k = 0; k < p.k;) {
        const int64_t group = k / k_group, size = std::min(kBlock, (group + 1) * k_group - k);
        std::fill_n(sum, size, C(0));
        for (int64_t at = 0; at < p.n * rows * columns; ++at) {
          const int64_t ih = at / columns % rows * p.stride_h - p.pad_top + r * p.dilation_h;
          const int64_t iw = at % columns * p.stride_w - p.pad_left + s * p.dilation_w;
          if (ih < 0 || ih >= p.h || iw < 0 || iw >= p.w) continue;
          const C value = static_cast<C>(x[((at / columns / rows * p.h + ih) * p.w + iw) * p.c + group * c_group + c]);
          const T* slope = dy + at * p.k + k;
          for (int64_t i = 0; i < size; ++i) sum[i] += value * static_cast<C>(slope[i]);
        }
        Store(sum, size, dfilter + task * p.k + k);
        k += size;
      }
    }
  });
}

#define BELFRY_CONV2D_LOOPS(T)                                                                   \
  template void Conv2DForwardLoops<T>(const ConvolutionGeometry&, const T*, const T*, T*);       \
  template void Conv2DBackpropInputLoops<T>(const ConvolutionGeometry&, const T*, const T*, T*); \
  template void Conv2DBackpropFilterLoops<T>(const ConvolutionGeometry&, const T*, const T*, T*)
BELFRY_CONV2D_LOOPS(float);
BELFRY_CONV2D_LOOPS(double);
BELFRY_CONV2D_LOOPS(BFloat16);
#undef BELFRY_CONV2D_LOOPS

namespace {

bool LoopsServe(const ConvolutionNode&) { return true; }

// The kernel that run.operator()<T>(context) makes of the C++ type of the images.
template <class Run>
MadeKernel KernelOfDType(DType dtype, const Run& run) {
  const auto kernel = [&]<class T>() {
    return Kernel{[run](const KernelContext& context) {
      run.template operator()<T>(context);
      return absl::OkStatus();
    }};
  };
  switch (dtype) {
    case DType::kFloat64: return kernel.template operator()<double>();
    case DType::kBFloat16: return kernel.template operator()<BFloat16>();
    default: return kernel.template operator()<float>();
  }
}

MadeKernel MakeLoopsForward(const ConvolutionNode& node) {
  return KernelOfDType(node.shape.dtype, [shape = node.shape]<class T>(const KernelContext& context) {
    Conv2DForwardLoops(shape, context.input<T>(0), context.input<T>(1), context.output<T>(0));
  });
}
MadeKernel MakeLoopsBackwardData(const ConvolutionNode& node) {
  return KernelOfDType(node.shape.dtype, [shape = node.shape]<class T>(const KernelContext& context) {
    Conv2DBackpropInputLoops(shape, context.input<T>(1), context.input<T>(2), context.output<T>(0));
  });
}
MadeKernel MakeLoopsBackwardWeights(const ConvolutionNode& node) {
  return KernelOfDType(node.shape.dtype, [shape = node.shape]<class T>(const KernelContext& context) {
    Conv2DBackpropFilterLoops(shape, context.input<T>(0), context.input<T>(2), context.output<T>(0));
  });
}

constexpr ConvolutionEngine Loops(decltype(ConvolutionEngine::make) make) {
  return {.name = "loops", .serves = &LoopsServe, .make = make, .fuses = false, .empty = true};
}

}  // namespace

const ConvolutionEngine kLoopsForward = Loops(&MakeLoopsForward);
const ConvolutionEngine kLoopsBackwardData = Loops(&MakeLoopsBackwardData);
const ConvolutionEngine kLoopsBackwardWeights = Loops(&MakeLoopsBackwardWeights);

}  // namespace belfry::ops
