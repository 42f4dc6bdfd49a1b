// What a convolution or a product of matrices does to its result, with its bias, before it is stored.
#pragma once

namespace belfry::ops {

// The activations that may join it. Their formulas are functors (ops/activation/functors.h).
enum class Activation { kNone, kRelu, kRelu6, kLeakyRelu, kElu, kTanh, kSigmoid, kGelu, kGeluTanh };

struct Epilogue {
  Activation activation = Activation::kNone;
  double alpha = 0;  // of kLeakyRelu and kElu
};

}  // namespace belfry::ops
