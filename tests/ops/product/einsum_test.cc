// Equations that Einsum refuses, and the limits of LogSumExp.
#include <cmath>

#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/ops/harness/special_values.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Error(absl::string_view equation, const std::vector<Shape>& shapes) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  std::vector<Output> operands;
  for (const Shape& shape : shapes) operands.push_back(Fill(scope, shape, 1));
  EXPECT_FALSE(Einsum(scope, equation, operands).valid());
  return std::string(graph.status().message());
}

TEST(Einsum, ErrorsNameTheEquation) {
  EXPECT_THAT(Error("ij,jk->ik", {{2, 3}, {4, 5}}),
              AllOf(HasSubstr("'ij,jk->ik'"), HasSubstr("'j' is 3 in operand 0 and 4 in operand 1")));
  EXPECT_THAT(Error("ij,jk->ik", {{2, 3}}), HasSubstr("there are 1 operands for 2"));
  EXPECT_THAT(Error("ij->k", {{2, 3}}), HasSubstr("'k' of the result occurs in no operand"));
  EXPECT_THAT(Error("ii->i", {{2, 2}}), HasSubstr("'i' occurs twice in the operand 'ii'"));
  EXPECT_THAT(Error("...i->i", {{2, 2}}), HasSubstr("an ellipsis is not supported"));
  EXPECT_THAT(Error("ij->i->j", {{2, 2}}), HasSubstr("more than one '->'"));
  EXPECT_THAT(Error("ijk->i", {{2, 2}}), HasSubstr("operand 0 is [2,2], which 'ijk' does not describe"));
}

TEST(Einsum, WithoutAnArrowTheResultHasTheLettersThatOccurOnce) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  EXPECT_EQ(Einsum(scope, "kj, ji", {Fill(scope, {2, 3}, 1), Fill(scope, {3, 4}, 1)}).shape(), Shape({4, 2}));
}

TEST(LogSumExp, NeitherOverflowsNorLosesInfinities) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const auto of = [&](std::initializer_list<float> values) {
    return Value(LogSumExp(scope, Const(scope, values)))->ToDoubles()[0];
  };
  EXPECT_FLOAT_EQ(of({1000, 1000}), 1000.6931F);
  EXPECT_FLOAT_EQ(of({-1000, -kInfinity}), -1000);
  EXPECT_EQ(of({-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_EQ(of({1, kInfinity}), kInfinity);
  EXPECT_TRUE(std::isnan(of({1, kNaN})));
}

}  // namespace
}  // namespace belfry::ops
