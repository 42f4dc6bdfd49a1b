// The checks that every OpCase must pass.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/graph/gradients.h"
#include "ops/math.h"
#include "tests/framework/base/same_bits.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/op_case_fixture.h"

namespace belfry::harness {

namespace {

class OpWithReferenceTest : public OpCaseTest {};
class OpWithUnknownExtentsTest : public OpCaseTest {};
class OpWithGradientTest : public OpCaseTest {};
class OpWithNarrowGradientTest : public OpCaseTest {};

int64_t MaxElements(const Instance& instance) {
  int64_t elements = 0;
  for (const Array& array : instance.arrays) elements = std::max(elements, array.size());
  return elements;
}

TEST_P(OpWithReferenceTest, Forward) {
  ForAll([&](const Instance& instance, DType, const std::vector<Shape>&) {
    ASSERT_OK_AND_ASSIGN(const auto actual, Evaluate(instance.outs, instance.feeds));
    const Arrays expected = op_case().reference(instance.arrays);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      double rounding = Rounding(actual[i].dtype());
      for (const Output& in : instance.ins) rounding = std::max(rounding, Rounding(in.dtype()));
      if (Rounding(actual[i].dtype()) == 0) rounding = 0;
      // A sum may be near to 0 by chance, which its rounding errors are not.
      const int64_t terms = MaxElements(instance) / std::max<int64_t>(expected[i].size(), 1);
      const double more = actual[i].dtype() == DType::kFloat32 ? op_case().float32_error : 0;
      ExpectClose(ToArray(actual[i]), expected[i], rounding * op_case().tolerance + more, absl::StrCat("output ", i),
                  op_case().tolerance * ReorderedSum(terms, rounding));
    }
  });
}

TEST_P(OpCaseTest, ShapesAreThoseInferred) {
  ForAll([&](const Instance& instance, DType, const std::vector<Shape>&) {
    ASSERT_OK_AND_ASSIGN(const auto actual, Evaluate(instance.outs, instance.feeds));
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(instance.outs[i].shape(), actual[i].shape()) << "output " << i;
      EXPECT_EQ(instance.outs[i].dtype(), actual[i].dtype()) << "output " << i;
    }
  });
}

TEST_P(OpWithUnknownExtentsTest, UnknownExtents) {
  const DType dtype = op_case().dtypes[0];
  ASSERT_OK_AND_ASSIGN(const auto known, MakeInstance(op_case(), dtype, own_shapes()));
  ASSERT_OK_AND_ASSIGN(const auto expected, Evaluate(known.outs, known.feeds));
  for (const int axis : op_case().unknown_axes) {
    SCOPED_TRACE(absl::StrCat("axis ", axis, " unknown"));
    ASSERT_OK_AND_ASSIGN(const auto unknown, MakeInstance(op_case(), dtype, own_shapes(), axis));
    ASSERT_OK_AND_ASSIGN(const auto actual, Evaluate(unknown.outs, unknown.feeds));
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(unknown.outs[i].shape().CompatibleWith(actual[i].shape()))
          << "output " << i << ": inferred " << unknown.outs[i].shape().ToString() << ", is "
          << actual[i].shape().ToString();
      EXPECT_TRUE(SameBits(expected[i], actual[i])) << "output " << i;
    }
    if (!op_case().gradient || !IsFloating(dtype)) continue;
    ASSERT_OK_AND_ASSIGN(const auto gradient, Gradient(known));
    ASSERT_OK_AND_ASSIGN(const auto again, Gradient(unknown));
    for (size_t i = 0; i < gradient.size(); ++i) {
      ExpectClose(ToArray(again[i]), ToArray(gradient[i]), 10 * Rounding(dtype), absl::StrCat("gradient ", i));
    }
  }
}

TEST_P(OpWithGradientTest, GradientIsThatOfFiniteDifferences) {
  ASSERT_OK_AND_ASSIGN(const auto instance, MakeInstance(op_case(), DType::kFloat64, own_shapes()));
  std::vector<Output> ys;
  for (const Output& y : instance.outs) {
    if (y.dtype() == DType::kFloat64) ys.push_back(y);
  }
  const auto evaluate = [](absl::Span<const Output> fetches, const FeedList& feeds) {
    return Evaluate(fetches, feeds);
  };
  EXPECT_EQ(CheckGradients(instance.scope(), ys, instance.Differentiable(op_case()), instance.feeds, evaluate,
                           {.tolerance = 1e-6 * op_case().gradient_tolerance}),
            absl::OkStatus());
}

// First derivatives with respect to the xs, and a path to each x.
absl::StatusOr<std::vector<Output>> Slopes(const Instance& instance, const std::vector<Output>& xs, double frequency) {
  std::vector<Output> ys;
  GradientOptions options;
  for (const Output& y : instance.outs) {
    if (!IsFloating(y.dtype())) continue;
    // A slope that depends on y, so that the gradient op's derivative with respect to that is tried, too.
    ys.push_back(y);
    const Output angle = ops::Add(instance.scope(), 1, ops::Scale(instance.scope(), y, frequency));
    options.grad_ys.push_back(ops::Sin(instance.scope(), angle));
  }
  ASSIGN_OR_RETURN(std::vector<Output> slopes, Gradients(instance.scope(), ys, xs, options));
  std::erase_if(slopes, [](const Output& slope) { return !slope.valid(); });
  for (const Output& x : xs) slopes.push_back(ops::Square(instance.scope(), x));
  return slopes;
}

TEST_P(OpWithGradientTest, SecondDerivativeIsThatOfFiniteDifferences) {
  ASSERT_OK_AND_ASSIGN(auto instance, MakeInstance(op_case(), DType::kFloat64, own_shapes()));
  const std::vector<Output> xs = instance.Differentiable(op_case());
  ASSERT_OK_AND_ASSIGN(const auto slopes, Slopes(instance, xs, /*frequency=*/1));
  const auto evaluate = [](absl::Span<const Output> fetches, const FeedList& feeds) {
    return Evaluate(fetches, feeds);
  };
  const absl::Status status = CheckGradients(instance.scope(), slopes, xs, instance.feeds, evaluate,
                                             {.tolerance = 1e-5 * op_case().gradient_tolerance});
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_P(OpWithNarrowGradientTest, GradientInEveryTypeIsThatInDouble) {
  for (const DType dtype : op_case().dtypes) {
    if (!IsFloating(dtype) || dtype == DType::kFloat64) continue;
    SCOPED_TRACE(DTypeName(dtype));
    auto narrow = MakeInstance(op_case(), dtype, own_shapes());
    auto wide = MakeInstance(op_case(), DType::kFloat64, own_shapes());
    ASSERT_TRUE(narrow.ok() && wide.ok()) << narrow.status() << wide.status();
    for (size_t i = 0; i < wide->feeds.size(); ++i) {
      wide->feeds[i].second = MakeTensor(wide->ins[i].dtype(), narrow->arrays[i]);
    }
    ASSERT_OK_AND_ASSIGN(const auto actual, Gradient(*narrow));
    ASSERT_OK_AND_ASSIGN(const auto expected, Gradient(*wide));
    for (size_t i = 0; i < expected.size(); ++i) {
      ExpectClose(ToArray(actual[i]), ToArray(expected[i]),
                  4 * Rounding(dtype) * op_case().tolerance * op_case().gradient_tolerance,
                  absl::StrCat("gradient ", i));
    }
  }
}

TEST_P(OpWithNarrowGradientTest, SecondDerivativeInEveryTypeIsThatInDouble) {
  const auto second = [&](const Instance& instance) -> absl::StatusOr<std::vector<Tensor>> {
    const std::vector<Output> xs = instance.Differentiable(op_case());
    // Sums of many elements are rounded by much more than the sine of a higher frequency bears.
    ASSIGN_OR_RETURN(const auto slopes, Slopes(instance, xs, /*frequency=*/1. / 64));
    ASSIGN_OR_RETURN(const auto seconds, Gradients(instance.scope(), slopes, xs));
    return Evaluate(seconds, instance.feeds);
  };
  for (const DType dtype : op_case().dtypes) {
    if (!IsFloating(dtype) || dtype == DType::kFloat64) continue;
    SCOPED_TRACE(DTypeName(dtype));
    ASSERT_OK_AND_ASSIGN(const auto narrow, MakeInstance(op_case(), dtype, own_shapes()));
    ASSERT_OK_AND_ASSIGN(auto wide, MakeInstance(op_case(), DType::kFloat64, own_shapes()));
    for (size_t i = 0; i < wide.feeds.size(); ++i) {
      wide.feeds[i].second = MakeTensor(wide.ins[i].dtype(), narrow.arrays[i]);
    }
    ASSERT_OK_AND_ASSIGN(const auto actual, second(narrow));
    ASSERT_OK_AND_ASSIGN(const auto expected, second(wide));
    for (size_t i = 0; i < expected.size(); ++i) {
      ExpectClose(ToArray(actual[i]), ToArray(expected[i]),
                  16 * Rounding(dtype) * op_case().tolerance * op_case().gradient_tolerance,
                  absl::StrCat("second derivative ", i));
    }
  }
}

TEST_P(OpCaseTest, InPlace) {
  ForAll([&](const Instance& instance, DType dtype, const std::vector<Shape>&) {
    std::vector<NodeRun> trace;
    ASSERT_EQ(Evaluate(instance.outs, instance.feeds, &trace).status(), absl::OkStatus());
    if (op_case().gradient && IsFloating(dtype)) {
      ASSERT_EQ(Gradient(instance, &trace).status(), absl::OkStatus());
    }
    for (const NodeRun& run : trace) {
      for (const auto& [in, out] : run.node->op().in_place) {
        if (run.inputs[in].shape() != run.outputs[out].shape() || run.inputs[in].dtype() != run.outputs[out].dtype()) {
          continue;
        }
        ASSERT_OK_AND_ASSIGN(const auto again, RunKernel(run, {in, out}));
        for (size_t i = 0; i < run.outputs.size(); ++i) {
          EXPECT_TRUE(SameBits(again[i], run.outputs[i]))
              << "output " << i << " of " << run.node->op().name << " differs when output " << out
              << " overwrites input " << in;
        }
      }
    }
  });
}

TEST_P(OpCaseTest, ThreadsDoNotMatter) {
  ForAll([&](const Instance& instance, DType dtype, const std::vector<Shape>&) {
    std::vector<Tensor> results[2];
    for (int threads = 1; threads <= 2; ++threads) {
      const ScopedParallelThreads scoped(threads);
      ASSERT_OK_AND_ASSIGN(const auto outputs, Evaluate(instance.outs, instance.feeds));
      results[threads - 1] = outputs;
      if (!op_case().gradient || !IsFloating(dtype)) continue;
      ASSERT_OK_AND_ASSIGN(const auto gradient, Gradient(instance));
      results[threads - 1].insert(results[threads - 1].end(), gradient.begin(), gradient.end());
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      if (op_case().thread_dependent) {
        ExpectClose(ToArray(results[1][i]), ToArray(results[0][i]),
                    Rounding(results[0][i].dtype()) * op_case().tolerance, absl::StrCat("result ", i));
      } else {
        EXPECT_TRUE(SameBits(results[0][i], results[1][i])) << "result " << i << " depends on the number of threads";
      }
    }
  });
}

bool HasReference(const OpCase& op_case) { return op_case.reference != nullptr; }
bool HasUnknownExtents(const OpCase& op_case) { return !op_case.unknown_axes.empty(); }
bool HasType(const OpCase& op_case, DType dtype) {
  return std::find(op_case.dtypes.begin(), op_case.dtypes.end(), dtype) != op_case.dtypes.end();
}
bool HasGradient(const OpCase& op_case) { return op_case.gradient && HasType(op_case, DType::kFloat64); }
bool HasNarrowGradient(const OpCase& op_case) {
  return HasGradient(op_case) && std::any_of(op_case.dtypes.begin(), op_case.dtypes.end(),
                                             [](DType dtype) { return IsFloating(dtype) && dtype != DType::kFloat64; });
}

// The cases that a test applies to.
auto CasesWith(bool (*has)(const OpCase&)) {
  std::vector<OpCase> cases = AllCases();
  cases.erase(std::remove_if(cases.begin(), cases.end(), [&](const OpCase& op_case) { return !has(op_case); }),
              cases.end());
  return testing::ValuesIn(cases);
}

constexpr auto kName = [](const testing::TestParamInfo<OpCase>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Ops, OpCaseTest, testing::ValuesIn(AllCases()), kName);
INSTANTIATE_TEST_SUITE_P(Ops, OpWithReferenceTest, CasesWith(HasReference), kName);
INSTANTIATE_TEST_SUITE_P(Ops, OpWithUnknownExtentsTest, CasesWith(HasUnknownExtents), kName);
INSTANTIATE_TEST_SUITE_P(Ops, OpWithGradientTest, CasesWith(HasGradient), kName);
INSTANTIATE_TEST_SUITE_P(Ops, OpWithNarrowGradientTest, CasesWith(HasNarrowGradient), kName);

}  // namespace
}  // namespace belfry::harness
