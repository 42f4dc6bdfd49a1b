// The end of a convolution or a product of matrices: what it applies to its result, with its bias, before storing it.
#pragma once

namespace belfry::ops {

// The activations that may join it. Their formulas are functors (ops/activation/functors.h).
enum class Activation { kNone, kRelu, kRelu6, kLeakyRelu, kElu, kTanh, kSigmoid, kGelu, kGeluTanh };

struct Epilogue {
  Activation activation = Activation::kNone;
  double alpha = 0;  // of kLeakyRelu and kElu
};

}  // namespace belfry::ops
