// The groups of the nn family. Internal: programs include ops/nn.h.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterActivations(OpRegistry& registry);          // activations.cc
void RegisterSmoothActivations(OpRegistry& registry);    // smooth_activations.cc
void RegisterSoftmax(OpRegistry& registry);              // softmax.cc
void RegisterCrossEntropy(OpRegistry& registry);         // cross_entropy.cc
void RegisterSigmoidCrossEntropy(OpRegistry& registry);  // sigmoid_cross_entropy.cc
void RegisterBias(OpRegistry& registry);                 // bias.cc
void RegisterCheckNumerics(OpRegistry& registry);        // check_numerics.cc
void RegisterDropout(OpRegistry& registry);              // dropout.cc
void RegisterConv2D(OpRegistry& registry);               // conv2d.cc
void RegisterPool(OpRegistry& registry);                 // pool.cc
void RegisterLrn(OpRegistry& registry);                  // lrn.cc
void RegisterMoments(OpRegistry& registry);              // moments.cc
void RegisterBatchNorm(OpRegistry& registry);            // batch_norm.cc
void RegisterLayerNorm(OpRegistry& registry);            // layer_norm.cc
void RegisterFused(OpRegistry& registry);                // fused.cc

}  // namespace belfry::ops
