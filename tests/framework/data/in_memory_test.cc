#include "framework/data/in_memory.h"

#include "tests/framework/io/io_testing.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

TEST(InMemory, GivesRowsOfItsTensors) {
  const Tensor x = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}), y = Tensor::Of<int64_t>({7, 8, 9});
  ASSERT_OK_AND_ASSIGN(const auto dataset, FromTensors({{"x", x}, {"y", y}}));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(FieldsText(dataset->fields()), "x float32 [2], y int64 []");
  const std::vector<Tensor> example = ReadExample(*dataset, 2).value();
  EXPECT_THAT(example[0].span<float>(), testing::ElementsAre(5, 6));
  EXPECT_EQ(example[1].scalar<int64_t>(), 9);
}

TEST(InMemory, KnowsCategories) {
  const Tensor images = Tensor::Zeros(DType::kUInt8, {2, 4, 5, 1}), labels = Tensor::Of<int32_t>({1, 0});
  ASSERT_OK_AND_ASSIGN(const auto dataset, FromTensors({{"image", images}, {"label", labels, 2, {"cat", "dog"}}}));
  EXPECT_EQ(dataset->fields()[0].shape, (Shape{4, 5, 1}));
  EXPECT_EQ(dataset->fields()[1].categories, 2);
  EXPECT_EQ(dataset->fields()[1].category_names[1], "dog");
}

TEST(InMemory, RejectsWhatDoesNotFit) {
  const Tensor x(DType::kFloat32, {3, 2});
  const auto error = [](std::vector<TensorField> fields) { return FromTensors(std::move(fields)).status(); };
  ExpectError(error({}), StatusCode::kInvalidArgument, "no field");
  ExpectError(error({{"x", x}, {"y", Tensor(DType::kFloat32, {2})}}), StatusCode::kInvalidArgument,
              "'y' is float32 [2]", "3 examples, as 'x'");
  ExpectError(error({{"x", x}, {"y", Tensor::Scalar(1.0f)}}), StatusCode::kInvalidArgument, "'y' is float32 []");
  ExpectError(error({{"x", x}, {"x", x}}), StatusCode::kInvalidArgument, "two fields have the name 'x'");
  ExpectError(error({{"x", x}, {"", x}}), StatusCode::kInvalidArgument, "field 1 has no name");
  ExpectError(error({{"x", x, 2}}), StatusCode::kInvalidArgument, "x float32 [2] has 2 categories");
  ExpectError(error({{"y", Tensor::Of<int32_t>({0, 5, -1}), 5}}), StatusCode::kInvalidArgument, "example 1 has y 5",
              "0 to 4");
  ExpectError(error({{"y", Tensor::Of<int64_t>({0, 1, 2, int64_t{1} << 40}, {2, 2}), 5}}), StatusCode::kInvalidArgument,
              "example 1 has y 1099511627776");
  ExpectError(error({{"y", Tensor::Of<uint8_t>({0, 5}), 5}}), StatusCode::kInvalidArgument, "example 1 has y 5");
  ExpectError(error({{"y", Tensor::Of<int32_t>({0, 1, 0}), 2, {"a"}}}), StatusCode::kInvalidArgument,
              "1 names for 2 categories");
}

TEST(Fields, AreFoundByName) {
  const std::vector<Field> fields = {{"x", DType::kFloat32, {2}}, {"tokens", DType::kInt32, {}}};
  EXPECT_EQ(FindField(fields, "tokens").value(), 1u);
  ExpectError(FindField(fields, "token").status(), StatusCode::kNotFound,
              "no field 'token'; an example has x float32 [2], tokens int32 []");
  ExpectError(CheckFields({{"x", DType::kFloat32, {Shape::kUnknown}}}), StatusCode::kInvalidArgument, "unknown extent");
}

}  // namespace
}  // namespace belfry::data
