// GatherND, ScatterND and SegmentSum with arguments that do not fit.
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NdTest : public ::testing::Test {
 protected:
  std::string Error(Output output) {
    if (!graph_.status().ok()) return std::string(graph_.status().message());
    return std::string(Value(output).status().message());
  }

  Graph graph_{BuiltinOps()};
  Scope scope_{graph_};
};

TEST_F(NdTest, IndicesOutOfRangeAreNamed) {
  const Output indices = Const(scope_, {1, 2, 0, 3}, {2, 2});
  EXPECT_THAT(Error(GatherND(scope_, Fill(scope_, {2, 3}, 1), indices)),
              HasSubstr("index [0, 3] (at position 1) is outside [2, 3]"));
  EXPECT_THAT(Error(ScatterND(scope_, indices, Fill(scope_, {2}, 1), Shape({1, 4}))),
              HasSubstr("index [1, 2] (at position 0) is outside [1, 4]"));
  EXPECT_THAT(Error(SegmentSum(scope_, Fill(scope_, {2}, 1), Const(scope_, {0, 2}), 2)),
              HasSubstr("index 2 (at position 1) is outside [0, 2)"));
}

TEST_F(NdTest, TooManyAxesAreAnError) {
  EXPECT_THAT(Error(GatherND(scope_, Fill(scope_, {2, 3}, 1), Const(scope_, {1, 2, 0}, {1, 3}))),
              HasSubstr("cannot index 3 axes of [2,3]"));
}

TEST_F(NdTest, UpdatesOfAnotherShapeAreAnError) {
  EXPECT_THAT(Error(ScatterND(scope_, Const(scope_, {1, 2}, {2, 1}), Fill(scope_, {2, 5}, 1), Shape({3, 4}))),
              HasSubstr("updates [2,5] must have the shape [2,4]"));
}

TEST_F(NdTest, SegmentsNeedNotBeSorted) {
  const Output sums = SegmentSum(scope_, Const(scope_, {1.f, 2.f, 4.f, 8.f}), Const(scope_, {2, 0, 2, 0}), 4);
  EXPECT_THAT(Value(sums)->ToDoubles(), ElementsAre(10, 0, 5, 0));
}

}  // namespace
}  // namespace belfry::ops
