// The checks that every OpCase must pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/graph/gradients.h"
#include "tests/framework/base/same_bits.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/op_case_fixture.h"

namespace belfry::harness {

namespace {

TEST_P(OpCaseTest, Forward) {
  if (op_case().reference == nullptr) return;
  ForAll([&](const Instance& instance, DType, const std::vector<Shape>&) {
    const auto actual = Evaluate(instance.outs, instance.feeds);
    ASSERT_TRUE(actual.ok()) << actual.status();
    const Arrays expected = op_case().reference(instance.arrays);
    ASSERT_EQ(actual->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      double rounding = Rounding((*actual)[i].dtype());
      for (const Output& in : instance.ins) rounding = std::max(rounding, Rounding(in.dtype()));
      if (Rounding((*actual)[i].dtype()) == 0) rounding = 0;
      ExpectClose(ToArray((*actual)[i]), expected[i], rounding * op_case().tolerance, absl::StrCat("output ", i));
    }
  });
}

TEST_P(OpCaseTest, ShapesAreThoseInferred) {
  ForAll([&](const Instance& instance, DType, const std::vector<Shape>&) {
    const auto actual = Evaluate(instance.outs, instance.feeds);
    ASSERT_TRUE(actual.ok()) << actual.status();
    for (size_t i = 0; i < actual->size(); ++i) {
      EXPECT_EQ(instance.outs[i].shape(), (*actual)[i].shape()) << "output " << i;
      EXPECT_EQ(instance.outs[i].dtype(), (*actual)[i].dtype()) << "output " << i;
    }
  });
}

TEST_P(OpCaseTest, UnknownExtents) {
  const DType dtype = op_case().dtypes[0];
  const auto known = MakeInstance(op_case(), dtype, own_shapes());
  ASSERT_TRUE(known.ok()) << known.status();
  const auto expected = Evaluate(known->outs, known->feeds);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int axis : op_case().unknown_axes) {
    SCOPED_TRACE(absl::StrCat("axis ", axis, " unknown"));
    const auto unknown = MakeInstance(op_case(), dtype, own_shapes(), axis);
    ASSERT_TRUE(unknown.ok()) << unknown.status();
    const auto actual = Evaluate(unknown->outs, unknown->feeds);
    ASSERT_TRUE(actual.ok()) << actual.status();
    for (size_t i = 0; i < actual->size(); ++i) {
      EXPECT_TRUE(unknown->outs[i].shape().CompatibleWith((*actual)[i].shape()))
          << "output " << i << ": inferred " << unknown->outs[i].shape().ToString() << ", is "
          << (*actual)[i].shape().ToString();
      EXPECT_TRUE(SameBits((*expected)[i], (*actual)[i])) << "output " << i;
    }
    if (!op_case().gradient || !IsFloating(dtype)) continue;
    const auto gradient = Gradient(*known), again = Gradient(*unknown);
    ASSERT_TRUE(gradient.ok()) << gradient.status();
    ASSERT_TRUE(again.ok()) << again.status();
    for (size_t i = 0; i < gradient->size(); ++i) {
      ExpectClose(ToArray((*again)[i]), ToArray((*gradient)[i]), 10 * Rounding(dtype), absl::StrCat("gradient ", i));
    }
  }
}

TEST_P(OpCaseTest, GradientIsThatOfFiniteDifferences) {
  if (!op_case().gradient || !has(DType::kFloat64)) return;
  const auto instance = MakeInstance(op_case(), DType::kFloat64, own_shapes());
  ASSERT_TRUE(instance.ok()) << instance.status();
  std::vector<Output> ys;
  for (const Output& y : instance->outs) {
    if (y.dtype() == DType::kFloat64) ys.push_back(y);
  }
  const auto evaluate = [](absl::Span<const Output> fetches, const FeedList& feeds) {
    return Evaluate(fetches, feeds);
  };
  const absl::Status status =
      CheckGradients(instance->scope(), ys, instance->Differentiable(op_case()), instance->feeds, evaluate,
                     {.tolerance = 1e-6 * op_case().gradient_tolerance});
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(OpCaseTest, GradientInEveryTypeIsThatInDouble) {
  if (!op_case().gradient || !has(DType::kFloat64)) return;
  for (const DType dtype : op_case().dtypes) {
    if (!IsFloating(dtype) || dtype == DType::kFloat64) continue;
    SCOPED_TRACE(DTypeName(dtype));
    auto narrow = MakeInstance(op_case(), dtype, own_shapes());
    auto wide = MakeInstance(op_case(), DType::kFloat64, own_shapes());
    ASSERT_TRUE(narrow.ok() && wide.ok()) << narrow.status() << wide.status();
    for (size_t i = 0; i < wide->feeds.size(); ++i) {
      wide->feeds[i].second = MakeTensor(wide->ins[i].dtype(), narrow->arrays[i]);
    }
    const auto actual = Gradient(*narrow), expected = Gradient(*wide);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (size_t i = 0; i < expected->size(); ++i) {
      ExpectClose(ToArray((*actual)[i]), ToArray((*expected)[i]),
                  4 * Rounding(dtype) * op_case().tolerance * op_case().gradient_tolerance,
                  absl::StrCat("gradient ", i));
    }
  }
}

TEST_P(OpCaseTest, InPlace) {
  ForAll([&](const Instance& instance, DType dtype, const std::vector<Shape>&) {
    std::vector<NodeRun> trace;
    const auto outputs = Evaluate(instance.outs, instance.feeds, &trace);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    if (op_case().gradient && IsFloating(dtype)) {
      const auto gradient = Gradient(instance, &trace);
      ASSERT_TRUE(gradient.ok()) << gradient.status();
    }
    for (const NodeRun& run : trace) {
      for (const auto& [in, out] : run.node->op().in_place) {
        if (run.inputs[in].shape() != run.outputs[out].shape() || run.inputs[in].dtype() != run.outputs[out].dtype()) {
          continue;
        }
        const auto again = RunKernel(run, {in, out});
        ASSERT_TRUE(again.ok()) << again.status();
        for (size_t i = 0; i < run.outputs.size(); ++i) {
          EXPECT_TRUE(SameBits((*again)[i], run.outputs[i]))
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
      const auto outputs = Evaluate(instance.outs, instance.feeds);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      results[threads - 1] = *outputs;
      if (!op_case().gradient || !IsFloating(dtype)) continue;
      const auto gradient = Gradient(instance);
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      results[threads - 1].insert(results[threads - 1].end(), gradient->begin(), gradient->end());
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

INSTANTIATE_TEST_SUITE_P(Ops, OpCaseTest, testing::ValuesIn(AllCases()),
                         [](const testing::TestParamInfo<OpCase>& info) { return info.param.name; });

}  // namespace
}  // namespace belfry::harness
