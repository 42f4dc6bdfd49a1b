// The activations that a convolution or a product of matrices takes into its kernel.
#pragma once

#include "absl/strings/string_view.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops {

struct FusedActivation {
  absl::string_view op;    // empty: none
  absl::string_view name;  // as the fused ops' attribute "activation" has it
  onednn::Activation activation;
  bool has_alpha = false;    // the op's attribute "alpha" goes along
  bool approximate = false;  // the value that the op's attribute "approximate" must have, if there is one
};

inline constexpr FusedActivation kFusedActivations[] = {
    {"", "none", onednn::Activation::kNone},
    {"Relu", "relu", onednn::Activation::kRelu},
    {"Relu6", "relu6", onednn::Activation::kRelu6},
    {"LeakyRelu", "leaky_relu", onednn::Activation::kRelu, /*has_alpha=*/true},
    {"Elu", "elu", onednn::Activation::kElu, /*has_alpha=*/true},
    {"Tanh", "tanh", onednn::Activation::kTanh},
    {"Sigmoid", "sigmoid", onednn::Activation::kSigmoid},
    {"Gelu", "gelu", onednn::Activation::kGelu},
    {"Gelu", "gelu_tanh", onednn::Activation::kGeluTanh, /*has_alpha=*/false, /*approximate=*/true}};

}  // namespace belfry::ops
