#include "models/networks/autoencoder.h"

#include "absl/strings/str_cat.h"
#include "models/layers/layers_impl.h"
#include "models/layers/metrics.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/random.h"

namespace belfry::models {
namespace {

Output Wide(const Scope& scope, const Output& x) {
  const bool narrow = x.valid() && (x.dtype() == DType::kFloat16 || x.dtype() == DType::kBFloat16);
  return narrow ? ops::Cast(scope, x, DType::kFloat32) : x;
}

// The mean over the batch of the sums over the elements of each example.
Output MeanOfSums(const Scope& scope, absl::string_view name, const Output& x) {
  return ops::Mean(scope.Named(name), ops::Sum(scope, x, {1}));
}

}  // namespace

VaeCode VaeEncoder(OpScope scope, Output x, const VaeOptions& options) {
  if (options.latent < 1) {
    Reject(scope, "VaeEncoder", "", absl::StrCat("has a code of width ", options.latent), x);
    return {};
  }
  const Scope encoder = scope.VariableScope("encoder");
  Output y = Flatten(encoder, x);
  for (size_t i = 0; i < options.hidden.size(); ++i) {
    y = Dense(encoder, absl::StrCat("hidden", i + 1), y, options.hidden[i],
              {.activation = options.activation, .weights = HeNormalInitializer()});
  }
  VaeCode code = {.mean = Dense(encoder, "mean", y, options.latent),
                  .log_variance = Dense(encoder, "log_variance", y, options.latent)};
  if (!code.log_variance.valid()) return {};
  const Output noise = ops::RandomNormal(encoder.Named("noise"), {ops::Extent::Of(code.mean, 0), options.latent}, 0, 1,
                                         {.dtype = code.mean.dtype()});
  const Output deviation = ops::Exp(encoder, ops::Scale(encoder, code.log_variance, 0.5));
  code.sample = ops::Add(encoder, code.mean, ops::Mul(encoder, deviation, noise));
  return code;
}

Output VaeDecoder(OpScope scope, Output code, int64_t size, const VaeOptions& options) {
  const Scope decoder = scope.VariableScope("decoder");
  Output y = code;
  for (size_t i = 0; i < options.hidden.size(); ++i) {
    y = Dense(decoder, absl::StrCat("hidden", i + 1), y, options.hidden[options.hidden.size() - 1 - i],
              {.activation = options.activation, .weights = HeNormalInitializer()});
  }
  return Dense(decoder, "logits", y, size);
}

Output AddVaeLoss(OpScope scope, Output x, const VaeOptions& options) {
  const Output flat = Flatten(scope, x);
  const VaeCode code = VaeEncoder(scope, flat, options);
  const Output logits = VaeDecoder(scope, code.sample, flat.shape().rank() == 2 ? flat.shape()[1] : 0, options);
  if (!logits.valid()) return Output();
  const Output mean = Wide(scope, code.mean), log_variance = Wide(scope, code.log_variance);
  const Output reconstruction =
      MeanOfSums(scope, "reconstruction", ops::SigmoidCrossEntropy(scope, Wide(scope, logits), Wide(scope, flat)));
  // KL = sum of (mean^2 + variance - log_variance - 1) / 2.
  const Output squares = ops::Add(scope, ops::Square(scope, mean), ops::Exp(scope, log_variance));
  const Output one = ops::Fill(scope, {}, 1, mean.dtype());
  const Output twice = ops::Sub(scope, ops::Sub(scope, squares, log_variance), one);
  const Output divergence = MeanOfSums(scope, "kl_divergence", ops::Scale(scope, twice, 0.5));
  const Output loss =
      ops::Add(scope.Named("vae_loss"), reconstruction, ops::Scale(scope, divergence, options.kl_weight));
  scope.AddToCollection(kLosses, loss);
  scope.AddToCollection(kMetrics, reconstruction);
  scope.AddToCollection(kMetrics, divergence);
  return loss;
}

}  // namespace belfry::models
