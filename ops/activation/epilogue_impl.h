// Epilogues of convolutions and matrix products on CPUs: a bias, and an activation after it. Internal.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"
#include "ops/common/epilogue.h"
#include "ops/elementwise/elementwise_impl.h"

namespace belfry::ops {

// An activation's op, and its name in the attribute "activation" of the ops that take it into their kernels.
struct FusedActivation {
  absl::string_view op;  // empty: none
  absl::string_view name;
  Activation activation;
  bool has_alpha = false;    // the op's attribute "alpha" goes along
  bool approximate = false;  // the value that the op's attribute "approximate" must have, if there is one
};

inline constexpr FusedActivation kFusedActivations[] = {
    {"", "none", Activation::kNone},
    {"Relu", "relu", Activation::kRelu},
    {"Relu6", "relu6", Activation::kRelu6},
    {"LeakyRelu", "leaky_relu", Activation::kLeakyRelu, /*has_alpha=*/true},
    {"Elu", "elu", Activation::kElu, /*has_alpha=*/true},
    {"Tanh", "tanh", Activation::kTanh},
    {"Sigmoid", "sigmoid", Activation::kSigmoid},
    {"Gelu", "gelu", Activation::kGelu},
    {"Gelu", "gelu_tanh", Activation::kGeluTanh, /*has_alpha=*/false, /*approximate=*/true}};

// `attrs`, and those of an epilogue: "activation" and "alpha".
std::vector<AttrDef> WithEpilogueAttrs(std::vector<AttrDef> attrs);
// The epilogue of a node with these attributes. InvalidArgument for the name of another activation.
absl::StatusOr<Epilogue> EpilogueOf(const Attrs& attrs);
// Fails unless `bias` has one element for each of the last axis of `y`.
absl::Status CheckBias(const Shape& y, const Shape& bias);

// The loop over floats of an epilogue's activation; without one, for kNone, its `map` is null.
ElementLoops ActivationLoops(const Epilogue& epilogue);

// The node without its bias, which is input 2.
KernelSpec WithoutBias(const KernelSpec& spec);

// CPU kernels for float, double and 16-bit floats. ThenActivation runs `kernel`, and then the activation over its
// output. ThenBiasAndActivation runs that of the node WithoutBias, and then both over its output. Results of 16 bits
// get the activation together with the bias, so that they are rounded once.
template <class T>
Kernel ThenActivation(Kernel kernel, const KernelSpec& spec, const Epilogue& epilogue);
template <class T>
Kernel ThenBiasAndActivation(Kernel product, const KernelSpec& spec, const Epilogue& epilogue);

}  // namespace belfry::ops
