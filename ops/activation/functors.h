// Scalar functors of activations and element-wise losses. As in ops/elementwise/functors.h, each formula is written
// once for the CPU and the CUDA kernels. T is float or double.
#pragma once

#include <cmath>

#include "ops/elementwise/functors.h"

namespace belfry::ops::functor {

// The constants of SELU (Klambauer et al., "Self-Normalizing Neural Networks", 2017).
inline constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

// Comparisons are written so that NaN passes through. Gradients that take y instead of x infer from y on which side of
// 0 x was.
template <class T>
struct Relu {
  constexpr T operator()(T x) const { return x < 0 ? T(0) : x; }
};
template <class T>
struct ReluGrad {
  constexpr T operator()(T dy, T y) const { return y > 0 ? dy : T(0); }
};
template <class T>
struct Relu6 {
  constexpr T operator()(T x) const {
    const T low = x < 0 ? T(0) : x;
    return low > 6 ? T(6) : low;
  }
};
template <class T>
struct Relu6Grad {
  constexpr T operator()(T dy, T y) const { return ((y > 0) & (y < 6)) ? dy : T(0); }
};
template <class T>
struct LeakyRelu {
  T slope;
  explicit constexpr LeakyRelu(double alpha) : slope(static_cast<T>(alpha)) {}
  constexpr T operator()(T x) const { return x < 0 ? slope * x : x; }
};
template <class T>
struct LeakyReluGrad {
  T slope;
  explicit constexpr LeakyReluGrad(double alpha) : slope(static_cast<T>(alpha)) {}
  constexpr T operator()(T dy, T y) const { return y > 0 ? dy : slope * dy; }
};
// y = scale x above 0, scale alpha (exp(x) - 1) below 0: ELU, and SELU with its constants.
template <class T>
struct Elu {
  static constexpr double kCost = 10;
  T positive, negative;
  explicit constexpr Elu(double alpha, double scale = 1)
      : positive(static_cast<T>(scale)), negative(static_cast<T>(scale * alpha)) {}
  constexpr T operator()(T x) const { return x < 0 ? negative * std::expm1(x) : positive * x; }
};
// Below 0 the derivative is scale alpha exp(x) = y + scale alpha.
template <class T>
struct EluGrad {
  static constexpr double kCost = 2;
  T positive, negative;
  explicit constexpr EluGrad(double alpha, double scale = 1)
      : positive(static_cast<T>(scale)), negative(static_cast<T>(scale * alpha)) {}
  constexpr T operator()(T dy, T y) const { return dy * (y < 0 ? y + negative : positive); }
};

template <class T>
struct Selu : Elu<T> {
  constexpr Selu() : Elu<T>(kSeluAlpha, kSeluScale) {}
};
template <class T>
struct SeluGrad : EluGrad<T> {
  constexpr SeluGrad() : EluGrad<T>(kSeluAlpha, kSeluScale) {}
};

// Beyond these magnitudes the functions below equal their limits. Clamping avoids inf * 0, also in double.
inline constexpr double kGateLimit = 1000, kErfLimit = 40;

template <class T>
constexpr T Clamp(T x, double limit) {
  const T high = static_cast<T>(limit);
  return x < -high ? -high : (x > high ? high : x);
}

// Gates g of the functions y = x sigmoid(g(x)). V is T or a register of T.
template <class T>
struct SiluGate {
  template <class V>
  static constexpr V Value(V x) {
    return x;
  }
  template <class V>
  static constexpr T Slope(V) {
    return 1;
  }
};
// x / 2 (1 + tanh(u)) = x sigmoid(2 u), where u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class T>
struct GeluTanhGate {
  static constexpr double kLinear = 1.5957691216057308, kCubic = kLinear * 0.044715;
  template <class V>
  static constexpr V Value(V x) {
    return x * (T(kLinear) + T(kCubic) * x * x);
  }
  template <class V>
  static constexpr V Slope(V x) {
    return T(kLinear) + T(3 * kCubic) * x * x;
  }
};

// With exp(-|g|) nothing overflows, and small results keep their precision.
template <class T, template <class> class Gate>
struct Gated {
  static constexpr double kCost = 11;
  constexpr T operator()(T x) const {
    const T g = Gate<T>::Value(Clamp(x, kGateLimit)), e = std::exp(g < 0 ? g : -g);
    x = x < T(-kGateLimit) ? T(-kGateLimit) : x;
    return (g < 0 ? x * e : x) / (1 + e);
  }
};
template <class T, template <class> class Gate>
struct GatedGrad {
  constexpr T operator()(T dy, T x) const {
    const T v = Clamp(x, kGateLimit), g = Gate<T>::Value(v), e = std::exp(g < 0 ? g : -g), share = 1 / (1 + e);
    // The sigmoid of g, and that of -g.
    const T s = g < 0 ? e * share : share, rest = g < 0 ? share : e * share;
    return dy * s * (1 + v * rest * Gate<T>::Slope(v));
  }
};

template <class T>
using Silu = Gated<T, SiluGate>;
template <class T>
using SiluGrad = GatedGrad<T, SiluGate>;
template <class T>
using GeluTanh = Gated<T, GeluTanhGate>;
template <class T>
using GeluTanhGrad = GatedGrad<T, GeluTanhGate>;

inline constexpr double kSqrtHalf = 0.70710678118654752;
template <class T>
struct Gelu {
  static constexpr double kCost = 12;
  constexpr T operator()(T x) const {
    const T v = x < T(-kErfLimit) ? T(-kErfLimit) : x;
    return v * T(0.5) * std::erfc(v * T(-kSqrtHalf));
  }
};
template <class T>
struct GeluGrad {
  constexpr T operator()(T dy, T x) const {
    constexpr double kInverseSqrtTwoPi = 0.39894228040143268;
    const T v = Clamp(x, kErfLimit);
    const T density = T(kInverseSqrtTwoPi) * std::exp(T(-0.5) * v * v);
    return dy * (T(0.5) * std::erfc(v * T(-kSqrtHalf)) + v * density);
  }
};

template <class T>
struct Identity {
  constexpr T operator()(T x) const { return x; }
};

// log(1 + exp(-|x|)), which neither overflows nor loses small results.
template <class T>
struct SoftplusTail {
  constexpr T operator()(T x) const { return std::log1p(std::exp(x < 0 ? x : -x)); }
};
// log(1 + exp(x)) = max(x, 0) + tail.
template <class T>
struct Softplus {
  static constexpr double kCost = 20;
  constexpr T Finish(T x, T tail) const { return (x > 0 ? x : T(0)) + tail; }
  constexpr T operator()(T x) const { return Finish(x, SoftplusTail<T>()(x)); }
};
// sigmoid(x) = 1 - exp(-y).
template <class T>
struct SoftplusGrad {
  constexpr T operator()(T dy, T y) const { return dy * -std::expm1(-y); }
};

// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) = |x| w + tail, where w = 1 - t if x > 0, and otherwise t. An
// infinite x that the label agrees with costs nothing: w is 0.
template <class T>
struct SigmoidCrossEntropy {
  constexpr T Finish(T x, T t, T tail) const {
    const T w = x > 0 ? T(1) - t : t;
    return (w == 0 ? T(0) : std::abs(x) * w) + tail;
  }
  constexpr T operator()(T x, T t) const { return Finish(x, t, SoftplusTail<T>()(x)); }
};
// dy (sigmoid(x) - t), where e = exp(-x).
template <class T>
struct SigmoidCrossEntropyGrad {
  constexpr T Finish(T dy, T t, T e) const { return dy * (1 / (1 + e) - t); }
  constexpr T operator()(T dy, T x, T t) const { return Finish(dy, t, std::exp(-x)); }
};

// base^-beta and 1 / base, for local response normalisation. The exponents 0.75, used by the tutorial network, and 0.5
// need no logarithm.
template <class T>
struct NegativePower {
  T beta;
  explicit constexpr NegativePower(double b) : beta(static_cast<T>(b)) {}
  constexpr T operator()(T base, T& inverse) const {
    if (beta == T(0.75)) {
      const T root = T(1) / std::sqrt(base);
      inverse = root * root;
      return inverse * (T(1) / std::sqrt(root));
    }
    if (beta == T(0.5)) {
      const T root = T(1) / std::sqrt(base);
      inverse = root * root;
      return root;
    }
    inverse = T(1) / base;
    return std::exp(std::log(base) * -beta);
  }
};

}  // namespace belfry::ops::functor
