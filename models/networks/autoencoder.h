// A variational autoencoder (Kingma and Welling, "Auto-encoding variational Bayes", 2014) of dense layers, for examples
// [N, ...] whose elements are in [0, 1]. The rules of models/layers/layers.h hold.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/graph/scope.h"
#include "models/layers/layers.h"

namespace belfry::models {

struct VaeOptions {
  std::vector<int64_t> hidden = {256};  // widths of the encoder's hidden layers; the decoder's are these in reverse
  int64_t latent = 16;                  // width of the code
  Activation activation = Activation::kRelu;
  double kl_weight = 1;  // above 1: the beta-VAE (Higgins et al., 2017)
};

// The code of each example: a normal distribution with these parameters in each direction, and one draw from it.
struct VaeCode {
  Output mean, log_variance;  // [N, latent]
  Output sample;              // [N, latent]: mean + exp(log_variance / 2) noise; gradients pass through both parameters
};
// Encodes x [N, ...], which is flattened. Several towers draw parts of the noise that one would draw for the whole
// batch. Variables: encoder/hidden1/weights, encoder/hidden1/biases, ..., encoder/mean/... and encoder/log_variance/...
VaeCode VaeEncoder(OpScope scope, Output x, const VaeOptions& options = {});

// The logits [N, size] of the elements of an example, for a code [N, latent]; ops::Sigmoid of them are the elements. To
// make new examples, decode normal random numbers. Variables: decoder/hidden1/..., decoder/logits/...
Output VaeDecoder(OpScope scope, Output code, int64_t size, const VaeOptions& options = {});

// Encodes x, decodes the sample, and returns the negative evidence lower bound, a scalar:
//   mean over the batch of (sum of SigmoidCrossEntropy of the elements + kl_weight KL(code || standard normal))
// It is added to kLosses, and its terms to kMetrics as "reconstruction" and "kl_divergence". float32 if x has 16 bits.
Output AddVaeLoss(OpScope scope, Output x, const VaeOptions& options = {});

}  // namespace belfry::models
