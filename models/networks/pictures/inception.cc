#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/networks/pictures/convolution_and_norm_impl.h"
#include "models/networks/pictures/picture_networks.h"
#include "ops/array.h"

namespace belfry::models {
namespace {

// A convolution of a branch. Those of stride 2 do not pad.
struct Part {
  int64_t filters;
  Size2D kernel = 1;
  int64_t stride = 1;
};

class InceptionBuilder {
 public:
  explicit InceptionBuilder(const PictureNetworkOptions& options) : options_(options) {}

  Output Build(const Scope& scope, Output images) const {
    constexpr double kDropout = 0.5;
    Output x = Branch(scope, "stem1", images, {{32, 3, 2}});
    x = Convolve(scope, "stem2", x, {32, 3}, /*pads=*/false);
    x = Pool(scope, "pool1", Convolve(scope, "stem3", x, {64, 3}, /*pads=*/true));
    x = Convolve(scope, "stem4", x, {80}, /*pads=*/true);
    x = Pool(scope, "pool2", Convolve(scope, "stem5", x, {192, 3}, /*pads=*/false));
    int number = 0;
    const auto next = [&] { return scope.VariableScope(absl::StrCat("mixed", ++number)); };
    for (const int64_t pooled : {32, 64, 64}) x = Fives(next(), x, pooled);
    x = Smaller(next(), x, {{384, 3, 2}}, {{64}, {96, 3}, {96, 3, 2}});
    for (const int64_t width : {128, 160, 160, 192}) x = Sevens(next(), x, width);
    x = Smaller(next(), x, {{192}, {320, 3, 2}}, {{192}, {192, {1, 7}}, {192, {7, 1}}, {192, 3, 2}});
    for (int i = 0; i < 2; ++i) x = Split(next(), x);
    x = Dropout(scope, "dropout", ops::GlobalAvgPool(scope, x), options_.dropout < 0 ? kDropout : options_.dropout,
                options_.training);
    return Dense(scope, "logits", x, options_.classes, {.weight_decay = options_.weight_decay});
  }

 private:
  Output Convolve(const Scope& scope, absl::string_view name, Output x, const Part& part, bool pads) const {
    return Activate(
        scope,
        ConvolutionAndNorm(scope, name, x,
                           {.filters = part.filters, .kernel = part.kernel, .stride = part.stride, .pads = pads},
                           options_),
        Activation::kRelu);
  }
  Output Branch(const Scope& scope, absl::string_view name, Output x, std::initializer_list<Part> parts) const {
    int number = 0;
    for (const Part& part : parts) {
      x = Convolve(scope, absl::StrCat(name, "_", ++number), x, part, /*pads=*/part.stride == 1);
    }
    return x;
  }
  static Output Pool(const Scope& scope, absl::string_view name, Output x) {
    return MaxPool(scope, name, x, {.window = 3, .stride = 2, .padding = ops::Padding::Valid()});
  }
  Output Pooled(const Scope& scope, Output x, int64_t filters) const {
    return Branch(scope, "pooled", AvgPool(scope, "pool", x, {.window = 3, .stride = 1}), {{filters}});
  }

  // Figure 5 of the paper: a 5x5 convolution, and two of 3x3 in its place.
  Output Fives(const Scope& scope, Output x, int64_t pooled) const {
    return ops::Concat(scope,
                       {Branch(scope, "one", x, {{64}}), Branch(scope, "five", x, {{48}, {64, 5}}),
                        Branch(scope, "threes", x, {{64}, {96, 3}, {96, 3}}), Pooled(scope, x, pooled)},
                       3);
  }
  // Figure 10: half the height and width.
  Output Smaller(const Scope& scope, Output x, std::initializer_list<Part> first,
                 std::initializer_list<Part> second) const {
    return ops::Concat(
        scope, {Branch(scope, "first", x, first), Branch(scope, "second", x, second), Pool(scope, "pool", x)}, 3);
  }
  // Figure 6: 7x7 convolutions of 1x7 and 7x1.
  Output Sevens(const Scope& scope, Output x, int64_t width) const {
    const Size2D across{1, 7}, down{7, 1};
    return ops::Concat(
        scope,
        {Branch(scope, "one", x, {{192}}), Branch(scope, "seven", x, {{width}, {width, across}, {192, down}}),
         Branch(scope, "sevens", x, {{width}, {width, down}, {width, across}, {width, down}, {192, across}}),
         Pooled(scope, x, 192)},
        3);
  }
  // Figure 7: 1x3 and 3x1 beside each other.
  Output Split(const Scope& scope, Output x) const {
    const Output three = Branch(scope, "three", x, {{384}});
    const Output threes = Branch(scope, "threes", x, {{448}, {384, 3}});
    const Size2D across{1, 3}, down{3, 1};
    return ops::Concat(
        scope,
        {Branch(scope, "one", x, {{320}}), Branch(scope, "three_across", three, {{384, across}}),
         Branch(scope, "three_down", three, {{384, down}}), Branch(scope, "threes_across", threes, {{384, across}}),
         Branch(scope, "threes_down", threes, {{384, down}}), Pooled(scope, x, 192)},
        3);
  }

  const PictureNetworkOptions& options_;
};

}  // namespace

Output InceptionV3(OpScope scope, Output images, const PictureNetworkOptions& options) {
  return InceptionBuilder(options).Build(scope, images);
}

}  // namespace belfry::models
