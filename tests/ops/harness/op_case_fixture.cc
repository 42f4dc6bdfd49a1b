#include "tests/ops/harness/op_case_fixture.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/graph/gradients.h"

namespace belfry::harness {

void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

namespace {

std::string Describe(DType dtype, const std::vector<Shape>& shapes) {
  std::string text(DTypeName(dtype));
  for (const Shape& shape : shapes) absl::StrAppend(&text, " ", shape.ToString());
  return text;
}

}  // namespace

double ReorderedSum(int64_t n, double rounding) {
  const auto numbers = static_cast<double>(n);
  return std::min(rounding, Rounding(DType::kFloat32)) * std::max(std::sqrt(numbers), numbers / 16);
}

void ExpectClose(const Array& actual, const Array& expected, double tolerance, const std::string& what,
                 double absolute) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  double scale = 1;
  for (const double x : expected.values) {
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  }
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    if (expected[i] == actual[i]) continue;
    ASSERT_LE(std::abs(actual[i] - expected[i]), std::max(tolerance * scale, absolute))
        << what << ", element " << i << " of shape " << expected.shape.ToString() << ": is " << actual[i]
        << " and should be " << expected[i];
  }
}

void OpCaseTest::ForAll(const std::function<void(const Instance&, DType, const std::vector<Shape>&)>& body) const {
  for (const DType dtype : op_case().dtypes) {
    for (const std::vector<Shape>& shapes : ShapeSets(op_case())) {
      SCOPED_TRACE(Describe(dtype, shapes));
      ASSERT_OK_AND_ASSIGN(Instance instance, MakeInstance(op_case(), dtype, shapes));
      body(instance, dtype, shapes);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

absl::StatusOr<std::vector<Tensor>> OpCaseTest::Gradient(const Instance& instance, std::vector<NodeRun>* trace) const {
  const absl::StatusOr<std::vector<Tensor>> ys = Evaluate(instance.outs, instance.feeds);
  if (!ys.ok()) return ys.status();
  std::vector<Output> floating;
  GradientOptions options;
  FeedList feeds = instance.feeds;
  for (size_t i = 0; i < instance.outs.size(); ++i) {
    const Output& y = instance.outs[i];
    if (!IsFloating(y.dtype())) continue;
    Array weights((*ys)[i].shape());
    for (int64_t j = 0; j < weights.size(); ++j) weights[j] = std::cos(static_cast<double>(3 * j + 1));
    floating.push_back(y);
    options.grad_ys.push_back(instance.scope().Add("Placeholder", {}, {{"dtype", y.dtype()}, {"shape", y.shape()}}));
    feeds.emplace_back(options.grad_ys.back(), MakeTensor(y.dtype(), weights));
  }
  const std::vector<Output> xs = instance.Differentiable(op_case());
  const auto dx = Gradients(instance.scope(), floating, xs, options);
  if (!dx.ok()) return dx.status();
  std::vector<Output> fetches;
  for (const Output& d : *dx) {
    if (d.valid()) fetches.push_back(d);
  }
  return Evaluate(fetches, feeds, trace);
}

}  // namespace belfry::harness
