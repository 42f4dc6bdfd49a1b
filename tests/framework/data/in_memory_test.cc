#include "framework/data/in_memory.h"

#include "tests/framework/data/data_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

TEST(InMemory, GivesRowsOfItsTensors) {
  const Tensor inputs = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}), targets = Tensor::Of<float>({7, 8, 9});
  const auto dataset = FromTensors(inputs, targets);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 3);
  Example example;
  ASSERT_TRUE((*dataset)->Read(2, {}, example).ok());
  EXPECT_EQ(static_cast<const float*>(example.input)[1], 6);
  EXPECT_EQ(example.target, 9);
}

TEST(InMemory, TakesImagesWithLabels) {
  const Tensor images = Tensor::Zeros(DType::kUInt8, {2, 4, 5, 1}), labels = Tensor::Of<int32_t>({1, 0});
  const auto dataset = FromTensors(images, labels, 2, {"cat", "dog"});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE((*dataset)->spec().is_image());
  EXPECT_EQ((*dataset)->spec().shape, (Shape{4, 5, 1}));
  EXPECT_EQ((*dataset)->spec().class_names[1], "dog");
}

TEST(InMemory, RejectsWhatDoesNotFit) {
  const Tensor inputs(DType::kFloat32, {3, 2});
  ExpectError(FromTensors(inputs, Tensor(DType::kFloat32, {2})).status(), StatusCode::kInvalidArgument, "[2]", "[3]");
  ExpectError(FromTensors(inputs, Tensor(DType::kInt32, {3})).status(), StatusCode::kInvalidArgument, "int32");
  ExpectError(FromTensors(Tensor(DType::kFloat64, {3, 2}), Tensor(DType::kFloat32, {3})).status(),
              StatusCode::kInvalidArgument, "float64 [3,2]");
  ExpectError(FromTensors(inputs, Tensor::Of<int32_t>({0, 5, -1}), 5).status(), StatusCode::kInvalidArgument,
              "example 1 has label 5", "0 to 4");
  ExpectError(FromTensors(inputs, Tensor::Of<int32_t>({0, 1, 0}), 2, {"a"}).status(), StatusCode::kInvalidArgument,
              "2 classes with 1 names");
}

}  // namespace
}  // namespace belfry::data
