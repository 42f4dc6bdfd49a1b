#include <functional>
#include <limits>

#include "absl/strings/match.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/ops/harness/value.h"

namespace belfry {
namespace {

using Numbers = std::vector<double>;

class RearrangeTest : public testing::Test {
 protected:
  // Expects the graph to fail with a message that contains `text`.
  void ExpectError(const std::function<void(const Scope&)>& build, absl::string_view text) {
    Graph graph(BuiltinOps());
    build(Scope(graph));
    EXPECT_TRUE(absl::StrContains(graph.status().message(), text)) << graph.status() << " should say " << text;
  }
  Output Count(const Shape& shape) {
    return ops::Reshape(scope_, ops::Range(scope_, 0, static_cast<double>(shape.elements()), 1, DType::kFloat32),
                        shape);
  }
  Output Gradient(Output y, Output x) { return Gradients(scope_, {y}, {x}).value()[0]; }

  Graph graph_{BuiltinOps()};
  Scope scope_{graph_};
};

TEST_F(RearrangeTest, StridedSliceFollowsPython) {
  const Output x = Count({10});
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {2}, {7}, {2})), (Numbers{2, 4, 6}));
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {-3}, {ops::kSliceEnd})), (Numbers{7, 8, 9}));
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {7}, {2}, {-2})), (Numbers{7, 5, 3}));
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {ops::kSliceEnd}, {-ops::kSliceEnd}, {-1})),
            (Numbers{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {5}, {2})), Numbers());
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {20}, {30})), Numbers());
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, x, {-20}, {1}, {ops::kSliceEnd})), (Numbers{0}));
  EXPECT_EQ(ops::Values(ops::StridedSlice(scope_, Count({2, 2, 2}), {1}, {2})), (Numbers{4, 5, 6, 7}));
  const Output unknown = ops::Placeholder(scope_, DType::kFloat32, {-1, 5});
  EXPECT_EQ(ops::StridedSlice(scope_, unknown, {0, 1}, {3, -1}).shape(), Shape({-1, 3}));
}

TEST_F(RearrangeTest, PadAddsAndTakesAway) {
  const Output x = Count({2, 3});
  EXPECT_EQ(ops::Values(ops::Pad(scope_, x, {{1, 0}, {0, 2}}, -1)),
            (Numbers{-1, -1, -1, -1, -1, 0, 1, 2, -1, -1, 3, 4, 5, -1, -1}));
  EXPECT_EQ(ops::Values(ops::Pad(scope_, x, {{0, -1}, {1, -2}}, 9)), (Numbers{9, 0}));
  EXPECT_EQ(ops::Values(ops::Pad(scope_, x, {{0, 0}, {-5, 4}}, 9)), (Numbers{9, 9, 9, 9}));
}

TEST_F(RearrangeTest, BroadcastToKeepsExtentsThatAreNotGiven) {
  EXPECT_EQ(ops::Values(ops::BroadcastTo(scope_, Count({2, 1}), {2, -1, 3})),
            (Numbers{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
}

TEST_F(RearrangeTest, SelectPassesNoNanToTheOtherChoice) {
  const Output nan = ops::Const(scope_, {std::nanf(""), 4.f});
  const Output x = ops::Const(scope_, {1.f, 2.f});
  const Output y = ops::Select(scope_, ops::Const(scope_, {false, true}), ops::Mul(scope_, nan, x), x);
  EXPECT_EQ(ops::Values(y), (Numbers{1, 8}));
  const Output branch = ops::Select(scope_, ops::Const(scope_, {false, true}), nan, x);
  EXPECT_EQ(ops::Values(Gradient(branch, nan)), (Numbers{0, 1}));
  EXPECT_EQ(ops::Values(Gradient(branch, x)), (Numbers{1, 0}));
}

TEST_F(RearrangeTest, GatherNamesTheIndexThatIsOutside) {
  const Output x = Count({4, 2});
  EXPECT_EQ(ops::Values(ops::Gather(scope_, x, ops::Const(scope_, {3, 0, 3}))), (Numbers{6, 7, 0, 1, 6, 7}));
  for (const int bad : {-1, 4}) {
    const auto result = ops::Value(ops::Gather(scope_, x, ops::Const(scope_, {0, bad})));
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(result.status().message(), "(at position 1) is outside [0, 4)")) << result.status();
  }
  EXPECT_EQ(ops::Values(ops::Gather(scope_, Count({0, 3}), ops::Fill(scope_, {0}, 0, DType::kInt32))), Numbers());
}

TEST_F(RearrangeTest, OneHotOutsideIsOff) {
  const ops::OneHotOptions options = {.on_value = 5, .off_value = -1, .axis = 0, .dtype = DType::kInt64};
  EXPECT_EQ(ops::Values(ops::OneHot(scope_, ops::Const(scope_, {1, -1, 0, 7}), 2, options)),
            (Numbers{-1, -1, 5, -1, 5, -1, -1, -1}));
}

TEST_F(RearrangeTest, PartsWithoutGradientCountAsZero) {
  const Output x = Count({4, 2});
  const std::vector<Output> parts = ops::Split(scope_, x, 0, std::vector<int64_t>{1, -1});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].shape(), Shape({3, 2}));
  EXPECT_EQ(ops::Values(Gradient(parts[1], x)), (Numbers{0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(ops::Values(Gradient(ops::Unstack(scope_, x, 1)[0], x)), (Numbers{1, 0, 1, 0, 1, 0, 1, 0}));
}

TEST_F(RearrangeTest, StopGradientStops) {
  const Output x = Count({3});
  const Output y = ops::Mul(scope_, x, ops::StopGradient(scope_, x));
  EXPECT_EQ(ops::Values(Gradient(y, x)), (Numbers{0, 1, 2}));
}

TEST_F(RearrangeTest, ErrorsSayWhatIsWrong) {
  const auto x = [](const Scope& scope) { return ops::Placeholder(scope, DType::kFloat32, {2, 6}); };
  ExpectError(
      [&](const Scope& s) {
        ops::Transpose(s, x(s), {0, 0});
      },
      "perm [0, 0] does not name each of 2 axes once");
  ExpectError([&](const Scope& s) { ops::Reshape(s, x(s), {5, -1}); }, "cannot reshape [2,6] to [5,?]");
  ExpectError([&](const Scope& s) { ops::Reshape(s, x(s), {-1, -1}); }, "at most one extent may be -1");
  ExpectError([&](const Scope& s) { ops::Squeeze(s, x(s), {1}); }, "cannot remove axis 1 of [2,6]");
  ExpectError([&](const Scope& s) { ops::FlatSlice(s, x(s), 0, 13); }, "[0, 13) are not in the input's shape [2,6]");
  ExpectError([&](const Scope& s) { ops::FlatSlice(s, x(s), 3, 2); }, "must be a multiple of 16 (64 bytes)");
  ExpectError([&](const Scope& s) { ops::ExpandDims(s, x(s), 3); }, "Axis 3 is outside [-3, 3)");
  ExpectError([&](const Scope& s) { ops::Slice(s, x(s), {0, 4}, {2, 3}); }, "begin 4 and size 3 do not fit axis 1");
  ExpectError([&](const Scope& s) { ops::Slice(s, x(s), {0, 7}, {2, -1}); }, "begin 7 and size -1 do not fit axis 1");
  ExpectError([&](const Scope& s) { ops::StridedSlice(s, x(s), {0}, {2}, {0}); }, "stride 0 is not allowed");
  ExpectError([&](const Scope& s) { ops::Split(s, x(s), 1, 4); }, "cannot split an extent of 6 into 4 equal parts");
  ExpectError(
      [&](const Scope& s) {
        ops::Split(s, x(s), 1, std::vector<int64_t>{4, 3});
      },
      "do not add up to the extent 6");
  ExpectError([&](const Scope& s) { ops::Unstack(s, x(s), 1, 5); }, "cannot unstack axis 1 of [2,6] into 5");
  ExpectError(
      [&](const Scope& s) {
        ops::Concat(s, {x(s), ops::Fill(s, {3, 5}, 0)}, 1);
      },
      "input 1 has shape [3,5], which does not match input 0's [2,6]; only the extents of axis 1 may differ");
  ExpectError([&](const Scope& s) { ops::Stack(s, {x(s), ops::Fill(s, {2, 5}, 0)}); }, "input 1 has shape [2,5]");
  ExpectError(
      [&](const Scope& s) {
        ops::Pad(s, x(s), {{0, -3}, {0, 0}});
      },
      "crop more elements than there are along axis 0");
  ExpectError([&](const Scope& s) { ops::Tile(s, x(s), {2}); }, "needs one multiple per axis of [2,6]");
  ExpectError([&](const Scope& s) { ops::BroadcastTo(s, x(s), {3, 6}); }, "cannot broadcast [2,6] to [3,6]");
  ExpectError([&](const Scope& s) { ops::Gather(s, x(s), x(s)); }, "does not support float32 for 'indices'");
}

// Impossible extents are errors, even if their sums and products overflow.
TEST(Extents, BeyondAllBoundsAreErrors) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto error = [](const std::function<void(const Scope&, Output)>& build) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    build(scope, ops::Placeholder(scope, DType::kFloat32, {Shape::kUnknown, 3}));
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << graph.status();
  };
  const auto of_known = [&](const std::function<void(const Scope&, Output)>& build) {
    error([&](const Scope& scope, Output) { build(scope, ops::Fill(scope, {2, 3}, 1)); });
  };
  of_known([](const Scope& scope, Output x) { ops::Pad(scope, x, {{kMax, kMax}, {0, 0}}); });
  of_known([](const Scope& scope, Output x) { ops::Tile(scope, x, {kMax, 1}); });
  of_known([](const Scope& scope, Output x) { ops::Split(scope, x, 1, std::vector<int64_t>{kMax, kMax, 5}); });
  of_known([](const Scope& scope, Output x) { ops::OneHot(scope, ops::Cast(scope, x, DType::kInt32), kMax); });
  error([](const Scope& scope, Output x) { ops::Split(scope, x, 0, int64_t{1} << 40); });
  error([](const Scope& scope, Output x) { ops::Unstack(scope, x, 0, int64_t{1} << 40); });
  error([](const Scope& scope, Output) { ops::Concat(scope, {}, 0); });
}

}  // namespace
}  // namespace belfry
