#include "framework/base/shape.h"

#include <vector>

#include "tests/main/testing.h"

namespace belfry {
namespace {

constexpr int64_t kUnknown = Shape::kUnknown;

TEST(Shape, ExtentsCountFromBothEnds) {
  Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape.dim(-3), 2);
  shape.set_dim(-2, 7);
  EXPECT_EQ(shape, (Shape{2, 7, 5}));
  EXPECT_DEATH(shape.dim(3), "CHECK failed");
  EXPECT_DEATH(shape.dim(-4), "CHECK failed");
  EXPECT_DEATH(shape.set_dim(0, -2), "CHECK failed");
}

TEST(Shape, AnInvalidOneAnswersWithUnknownExtents) {
  for (const Shape& shape : {Shape::Invalid(), Shape{2, -3}}) {
    EXPECT_FALSE(shape.valid());
    EXPECT_EQ(shape.rank(), 0);
    EXPECT_EQ(shape[3], kUnknown);
    EXPECT_EQ(shape[-1], kUnknown);
    EXPECT_EQ(shape.elements(), kUnknown);
    EXPECT_EQ(shape.elements(1, 3), kUnknown);
    EXPECT_FALSE(shape.known());
    EXPECT_FALSE(shape.Insert(2, 5).valid());
    EXPECT_FALSE(shape.Remove(1).valid());
    EXPECT_FALSE(shape.CompatibleWith(shape));
    EXPECT_FALSE(shape.CompatibleWith({}));
    EXPECT_NE(shape, Shape());
    EXPECT_EQ(shape.ToString(), "[invalid]");
  }
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{2, 3, 5}.elements()), 30);
  EXPECT_EQ((Shape{2, 0, 5}.elements()), 0);
  EXPECT_EQ((Shape{2, 3, 5}.elements(1, 3)), 15);
  EXPECT_EQ((Shape{2, 3, 5}.elements(2, 2)), 1);
  EXPECT_EQ((Shape{kUnknown, 3, 5}.elements(1, 3)), 15);
  EXPECT_FALSE((Shape{kUnknown, 3}.known()));
  EXPECT_TRUE((Shape{0, 3}.known()));
  EXPECT_TRUE(Shape().known());
  EXPECT_DEATH((Shape{kUnknown, 3}.elements()), "CHECK failed");
  EXPECT_DEATH((Shape{2, 3}.elements(0, 3)), "CHECK failed");
  EXPECT_DEATH((Shape{2, 3}.elements(-1, 1)), "CHECK failed");
}

TEST(Shape, MakeChecksWhatComesFromInput) {
  const auto make = [](std::vector<int64_t> dims) { return Shape::Make(dims); };
  EXPECT_EQ(make({}).value(), Shape());
  EXPECT_EQ(make({kUnknown, 0, 4}).value(), (Shape{kUnknown, 0, 4}));
  EXPECT_EQ(make({int64_t{1} << 29, int64_t{1} << 30}).value().elements(), int64_t{1} << 59);
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
           {2, -2},
           {(int64_t{1} << 59) + 1},
           {int64_t{1} << 30, int64_t{1} << 30},
           {int64_t{1} << 40, 0, int64_t{1} << 40},
           {INT64_MAX, INT64_MAX},
           {INT64_MIN},
       }) {
    EXPECT_EQ(make(dims).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(make({3, -7}).status().message(), "Shape [3,-7] has a negative extent");
}

TEST(Shape, PrintsUnknownExtents) {
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ((Shape{128, 24, 24, 3}.ToString()), "[128,24,24,3]");
  EXPECT_EQ((Shape{kUnknown, 10}.ToString()), "[?,10]");
}

TEST(Shape, MergesKnownExtentsIntoUnknownOnes) {
  const Shape a{kUnknown, 3, kUnknown}, b{0, 3, kUnknown};
  EXPECT_TRUE(a.CompatibleWith(b));
  EXPECT_EQ(a.Merge(b).value(), b);
  EXPECT_EQ(b.Merge(a).value(), b);
  EXPECT_FALSE(a.CompatibleWith({1, 4, 1}));
  EXPECT_FALSE(a.CompatibleWith({1, 3}));
  EXPECT_EQ(a.Merge({1, 4, 1}).status().message(), "Shapes [?,3,?] and [1,4,1] do not agree");
}

TEST(Shape, InsertsAndRemovesAxes) {
  const Shape shape{2, 3};
  EXPECT_EQ(shape.Insert(0, 1), (Shape{1, 2, 3}));
  EXPECT_EQ(shape.Insert(2, 1), (Shape{2, 3, 1}));
  EXPECT_EQ(shape.Insert(-1, 7), (Shape{2, 3, 7}));
  EXPECT_EQ(shape.Insert(-3, 7), (Shape{7, 2, 3}));
  EXPECT_EQ(Shape().Insert(0, 4), Shape{4});
  EXPECT_EQ(shape.Remove(0), Shape{3});
  EXPECT_EQ(shape.Remove(-1), Shape{2});
  EXPECT_DEATH(shape.Insert(3, 1), "CHECK failed");
  EXPECT_DEATH(shape.Remove(2), "CHECK failed");
  EXPECT_DEATH(Shape().Remove(0), "CHECK failed");
}

TEST(Shape, BroadcastsFromTheLastAxis) {
  struct Row {
    Shape a, b, result;
  };
  const Row rows[] = {
      {{4, 1, 3}, {2, 1}, {4, 2, 3}},
      {{}, {2, 3}, {2, 3}},
      {{1}, {0}, {0}},
      {{5, 1}, {1, 6}, {5, 6}},
      {{kUnknown, 3}, {3}, {kUnknown, 3}},
      {{kUnknown}, {1}, {kUnknown}},
      {{kUnknown}, {4}, {4}},
      {{kUnknown}, {0}, {0}},
      {{kUnknown}, {kUnknown}, {kUnknown}},
      {{}, {}, {}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(BroadcastShapes(row.a, row.b).value(), row.result) << row.a.ToString() << " " << row.b.ToString();
    EXPECT_EQ(BroadcastShapes(row.b, row.a).value(), row.result) << row.a.ToString() << " " << row.b.ToString();
  }
  EXPECT_EQ(BroadcastShapes({4, 2}, {3}).status().message(), "Shapes [4,2] and [3] do not broadcast");
  EXPECT_FALSE(BroadcastShapes({0}, {2}).ok());
  EXPECT_FALSE(BroadcastShapes({int64_t{1} << 40, 1}, {int64_t{1} << 40}).ok()) << "too many elements";
}

TEST(Shape, CanonicalAxisCountsFromTheFront) {
  EXPECT_EQ(CanonicalAxis(-1, 3).value(), 2);
  EXPECT_EQ(CanonicalAxis(-3, 3).value(), 0);
  EXPECT_EQ(CanonicalAxis(2, 3).value(), 2);
  EXPECT_EQ(CanonicalAxis(3, 3).status().message(), "Axis 3 is outside [-3, 3)");
  EXPECT_FALSE(CanonicalAxis(-4, 3).ok());
  EXPECT_FALSE(CanonicalAxis(0, 0).ok());
  EXPECT_FALSE(CanonicalAxis((int64_t{1} << 32) + 1, 3).ok());
}

}  // namespace
}  // namespace belfry
