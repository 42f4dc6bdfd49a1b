// The functor of an activation that is an attribute, and the rounding to its limits that activations see.
#pragma once

#include "framework/base/dtype.h"
#include "ops/activation/functors.h"
#include "ops/common/epilogue.h"

namespace belfry::ops::functor {

// Values of magnitude up to this one round to 0 in the dtype.
constexpr float RoundsToZero(DType dtype) {
  return dtype == DType::kFloat16 ? 0x1p-25f : dtype == DType::kBFloat16 ? 0x1p-134f : 0;
}

// The least values that round to 6 or more in the dtype, ties to even.
constexpr float RoundsToSix(DType dtype) {
  return dtype == DType::kFloat16 ? 6 - 0x1p-9f : dtype == DType::kBFloat16 ? 6 - 0x1p-6f : 6;
}

// Calls use(f) with the activation's functor.
template <class T, class Use>
constexpr auto VisitActivation(Activation activation, double alpha, const Use& use) {
  switch (activation) {
    case Activation::kRelu: return use(Relu<T>());
    case Activation::kRelu6: return use(Relu6<T>());
    case Activation::kLeakyRelu: return use(LeakyRelu<T>(alpha));
    case Activation::kElu: return use(Elu<T>(alpha));
    case Activation::kTanh: return use(Tanh<T>());
    case Activation::kSigmoid: return use(Sigmoid<T>());
    case Activation::kGelu: return use(Gelu<T>());
    case Activation::kGeluTanh: return use(GeluTanh<T>());
    case Activation::kNone: break;
  }
  return use(Identity<T>());
}
// The activation, chosen at each call.
template <class T>
struct Activate {
  Activation activation;
  T alpha;
  constexpr T operator()(T x) const {
    return VisitActivation<T>(activation, alpha, [x](const auto& f) { return f(x); });
  }
};

}  // namespace belfry::ops::functor
