#include "framework/graph/gradient_checker.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/graph/gradients.h"

namespace belfry {
namespace {

constexpr int kProjections = 2;

Tensor RandomWeights(const Shape& shape, PhiloxStream& random) {
  Tensor weights(DType::kFloat64, shape);
  for (int64_t i = 0; i < weights.elements(); ++i) weights.data<double>()[i] = 2 * random.NextFloat() - 1;
  return weights;
}

absl::StatusOr<double> Project(absl::Span<const Output> ys, const std::vector<Tensor>& weights, const FeedList& feeds,
                               const Evaluator& evaluate) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, evaluate(ys, feeds));
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].shape() != weights[i].shape()) {
      return absl::InternalError(absl::StrCat("the shape of '", ys[i].name(), "' depends on the values fed"));
    }
    for (int64_t j = 0; j < values[i].elements(); ++j) {
      sum += weights[i].data<double>()[j] * values[i].data<double>()[j];
    }
  }
  return sum;
}

// The gradients of sum(weights * ys); zeros for an x on which the ys do not depend.
absl::StatusOr<std::vector<Tensor>> SymbolicGradients(const Scope& scope, absl::Span<const Output> ys,
                                                      absl::Span<const Output> xs, const std::vector<Tensor>& weights,
                                                      const FeedList& feeds, const Evaluator& evaluate) {
  GradientOptions options;
  for (const Tensor& w : weights) {
    options.grad_ys.push_back(scope.Add(OpRole::kConst, {}, {{"dtype", DType::kFloat64}, {"value", w}}));
  }
  RETURN_IF_ERROR(scope.status());
  ASSIGN_OR_RETURN(const std::vector<Output> gradients, Gradients(scope, ys, xs, options));
  std::vector<Output> fetches;
  for (const Output& gradient : gradients) {
    if (gradient.valid()) fetches.push_back(gradient);
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, evaluate(fetches, feeds));
  std::vector<Tensor> values;
  size_t next = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const auto fed = std::find_if(feeds.begin(), feeds.end(), [&](const auto& feed) { return feed.first == xs[i]; });
    values.push_back(gradients[i].valid() ? fetched[next++] : Tensor::Zeros(DType::kFloat64, fed->second.shape()));
    if (values.back().shape() != fed->second.shape()) {
      return absl::FailedPreconditionError(absl::StrCat("the gradient of '", xs[i].name(), "' has shape ",
                                                        values.back().shape().ToString(), ", expected ",
                                                        fed->second.shape().ToString()));
    }
  }
  return values;
}

// Compares the gradients of one x, whose value is feeds[index]. Restores `feeds` on success.
absl::Status CheckOne(absl::Span<const Output> ys, size_t index, const Tensor& symbolic,
                      const std::vector<Tensor>& weights, FeedList& feeds, const Evaluator& evaluate,
                      const GradientCheckOptions& options) {
  const Tensor original = feeds[index].second;
  double largest = 1, worst = 0, worst_numeric = 0;
  int64_t worst_element = -1;
  for (int64_t i = 0; i < original.elements(); ++i) {
    const double x = original.data<double>()[i], h = options.step * std::max(1.0, std::abs(x));
    double ends[2];
    for (int side = 0; side < 2; ++side) {
      feeds[index].second = original.Clone();
      feeds[index].second.data<double>()[i] = side == 0 ? x - h : x + h;
      ASSIGN_OR_RETURN(ends[side], Project(ys, weights, feeds, evaluate));
    }
    const double numeric = (ends[1] - ends[0]) / ((x + h) - (x - h));
    const double error = std::abs(numeric - symbolic.data<double>()[i]);
    largest = std::max(largest, std::abs(numeric));
    if (!(error <= worst)) {  // phrased so that NaN counts as the worst
      worst = error;
      worst_element = i;
      worst_numeric = numeric;
    }
  }
  feeds[index].second = original;
  if (worst <= options.tolerance * largest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "The gradient of '", feeds[index].first.name(), "' (shape ", original.shape().ToString(), ") at element ",
      worst_element, " is ", symbolic.data<double>()[worst_element], ", but finite differences give ", worst_numeric));
}

}  // namespace

absl::Status CheckGradients(const Scope& scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                            const FeedList& feeds, const Evaluator& evaluate, const GradientCheckOptions& options) {
  RETURN_IF_ERROR(scope.status());
  for (absl::Span<const Output> outputs : {ys, xs}) {
    for (const Output& output : outputs) {
      if (output.valid() && output.dtype() == DType::kFloat64) continue;
      return absl::InvalidArgumentError(absl::StrCat("CheckGradients needs float64, but '",
                                                     output.valid() ? output.name() : "an invalid Output", "' is not"));
    }
  }
  FeedList moving = feeds;
  std::vector<size_t> index_of;
  for (const Output& x : xs) {
    const auto fed = std::find_if(feeds.begin(), feeds.end(), [&](const auto& feed) { return feed.first == x; });
    if (fed == feeds.end()) return absl::InvalidArgumentError(absl::StrCat("no value is fed for '", x.name(), "'"));
    index_of.push_back(static_cast<size_t>(fed - feeds.begin()));
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, evaluate(ys, feeds));
  PhiloxStream random(options.seed, 0);
  for (int projection = 0; projection < kProjections; ++projection) {
    std::vector<Tensor> weights;
    for (const Tensor& value : values) weights.push_back(RandomWeights(value.shape(), random));
    ASSIGN_OR_RETURN(const std::vector<Tensor> symbolic, SymbolicGradients(scope, ys, xs, weights, feeds, evaluate));
    for (size_t i = 0; i < xs.size(); ++i) {
      RETURN_IF_ERROR(CheckOne(ys, index_of[i], symbolic[i], weights, moving, evaluate, options));
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
