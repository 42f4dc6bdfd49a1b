#include "models/layers/views.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/layers_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

// The images moved by a pixel along an axis, towards its end or its beginning.
Output Moved(const Scope& scope, Output images, int64_t axis, bool forward) {
  const int64_t extent = images.shape()[static_cast<int>(axis)];
  const auto part = [&](int64_t begin, int64_t size) {
    std::vector<int64_t> begins(4, 0), sizes(4, -1);
    begins[axis] = begin;
    sizes[axis] = size;
    return ops::Slice(scope, images, begins, sizes);
  };
  if (forward) return ops::Concat(scope, {part(1, 1), part(0, extent - 1)}, axis);
  return ops::Concat(scope, {part(1, extent - 1), part(extent - 2, 1)}, axis);
}

Output Mirrored(const Scope& scope, Output images) {
  return ops::StridedSlice(scope, images, {0, 0, ops::kSliceEnd}, {ops::kSliceEnd, ops::kSliceEnd, -ops::kSliceEnd},
                           {1, 1, -1});
}

}  // namespace

Output AverageOverViews(OpScope scope, Output images, int64_t views, const std::function<Output(Output)>& logits) {
  if (views != 1 && views != 2 && views != 6) {
    return Reject(scope, "AverageOverViews", "", absl::StrCat("has ", views, " views; expected 1, 2 or 6"), images);
  }
  if (!images.valid() || images.shape().rank() != 4 || !images.shape().Remove(0).known() || images.shape()[1] < 2 ||
      images.shape()[2] < 2) {
    return Reject(scope, "AverageOverViews", "", "needs images [N, H, W, C] of at least 2 x 2 pixels", images);
  }
  if (views == 1) return logits(images);
  const Scope inner = scope.NameScope("views");
  std::vector<Output> all = {images};
  std::vector<float> weights = {1};
  if (views == 6) {
    weights[0] = 2;
    for (const bool forward : {false, true}) {
      all.push_back(Moved(inner, Moved(inner, images, 1, forward), 2, forward));
      weights.push_back(1);
    }
  }
  for (size_t i = 0, plain = all.size(); i < plain; ++i) {
    all.push_back(Mirrored(inner, all[i]));
    weights.push_back(weights[i]);
  }
  float sum = 0;
  for (const float weight : weights) sum += weight;
  for (float& weight : weights) weight /= sum;
  const Output each = logits(ops::Concat(inner, all, 0));
  if (!each.valid()) return Output();
  const Output by_view = ops::Reshape(inner, each, {views, -1, each.shape()[-1]});
  const Output factors = ops::Cast(
      inner, ops::Const(inner, Tensor::Of<float>(absl::MakeConstSpan(weights), Shape({views, 1, 1}))), each.dtype());
  return ops::Sum(inner, ops::Mul(inner, by_view, factors), {0});
}

}  // namespace belfry::models
