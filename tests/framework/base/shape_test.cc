#include "framework/base/shape.h"

#include <gtest/gtest.h>

namespace belfry {
namespace {

TEST(Shape, BroadcastsFromTheLastAxis) {
  EXPECT_EQ(BroadcastShapes({4, 1, 3}, {2, 1}).value(), (Shape{4, 2, 3}));
  EXPECT_EQ(BroadcastShapes({Shape::kUnknown, 3}, {3}).value(), (Shape{Shape::kUnknown, 3}));
  EXPECT_FALSE(BroadcastShapes({4, 2}, {3}).ok());
}

}  // namespace
}  // namespace belfry
