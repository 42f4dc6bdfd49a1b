#include "models/networks/mlp.h"

#include "absl/strings/str_cat.h"

namespace belfry::models {

Output SoftmaxRegression(OpScope scope, Output x, const SoftmaxRegressionOptions& options) {
  return Dense(scope, "softmax_linear", Flatten(scope, x), options.classes,
               {.weights = ZerosInitializer(), .weight_decay = options.weight_decay});
}

Output Mlp(OpScope scope, Output x, const MlpOptions& options) {
  Output y = Flatten(scope, x);
  for (size_t i = 0; i < options.hidden.size(); ++i) {
    y = Dense(
        scope, absl::StrCat("hidden", i + 1), y, options.hidden[i],
        {.activation = options.activation, .weights = HeNormalInitializer(), .weight_decay = options.weight_decay});
    if (options.dropout > 0) y = Dropout(scope, absl::StrCat("dropout", i + 1), y, options.dropout, options.training);
  }
  return Dense(scope, "softmax_linear", y, options.classes,
               {.weights = HeNormalInitializer(), .weight_decay = options.weight_decay});
}

}  // namespace belfry::models
