#include "framework/base/tensor.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "framework/base/half.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Tensor, SpansOfAllTypesAreItsElements) {
  const Tensor truths = Tensor::Of<bool>({true, false, true});
  EXPECT_EQ(truths.span<bool>().data(), truths.data<bool>());
  EXPECT_EQ(truths.span<bool>().size(), 3u);
  const Tensor numbers = Tensor::Of<float>({1, 2});
  EXPECT_EQ(numbers.span<float>().data(), numbers.data<float>());
}

TEST(Tensor, HoldsItsElementsInRowMajorOrder) {
  const Tensor matrix = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(matrix.dtype(), DType::kFloat32);
  EXPECT_EQ(matrix.shape(), (Shape{2, 3}));
  EXPECT_EQ(matrix.elements(), 6);
  EXPECT_EQ(matrix.bytes(), 24u);
  EXPECT_THAT(matrix.span<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(Tensor::Of<int64_t>({7, 8}).shape(), Shape{2});
  EXPECT_EQ(Tensor::Scalar(2.5).shape(), Shape());
  EXPECT_EQ(Tensor::Scalar(2.5).scalar<double>(), 2.5);
  EXPECT_DEATH(Tensor::Of<float>({1, 2, 3}, {2, 2}),
               "3 values for shape \\[2,2\\], which has 4 elements at .*tensor_test\\.cc:[0-9]+");
  EXPECT_DEATH(matrix.data<int32_t>(), "the tensor is float32 .*, not int32 at .*tensor_test\\.cc:[0-9]+");
  EXPECT_DEATH(matrix.scalar<float>(), "the tensor has shape .*, not a single element at .*tensor_test\\.cc:[0-9]+");
  EXPECT_DEATH(Tensor(DType::kFloat32, Shape{Shape::kUnknown}),
               "unknown extents of \\[\\?\\] at .*tensor_test\\.cc:[0-9]+");
}

TEST(Tensor, MayHaveNoElements) {
  for (const Tensor& tensor : {Tensor(), Tensor(DType::kFloat32, {3, 0, 2}), Tensor::Zeros(DType::kFloat32, {0})}) {
    EXPECT_EQ(tensor.elements(), 0);
    EXPECT_EQ(tensor.bytes(), 0u);
    EXPECT_EQ(tensor.raw(), nullptr);
    EXPECT_THAT(tensor.span<float>(), IsEmpty());
    EXPECT_THAT(tensor.ToDoubles(), IsEmpty());
    EXPECT_EQ(tensor.Clone().shape(), tensor.shape());
  }
}

TEST(Tensor, IsAlignedAndZeroedForEveryType) {
  for (DType dtype : kAllDTypes) {
    for (int64_t n : {1, 3, 64, 1001}) {
      const Tensor tensor = Tensor::Zeros(dtype, {n});
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw()) % 64, 0u);
      EXPECT_EQ(tensor.bytes(), n * SizeOf(dtype));
      EXPECT_EQ(tensor.ToDoubles(), std::vector<double>(n, 0.0)) << DTypeName(dtype);
    }
  }
}

// From 4 MiB on, memory comes in huge pages, except the tail of the last one.
TEST(Tensor, LargeOnesAreAlignedToPagesAndWhole) {
  constexpr int64_t kPage = int64_t{2} << 20;
  for (int64_t bytes : {2 * kPage - 1, 2 * kPage, 2 * kPage + 1, 3 * kPage - 64, 5 * kPage + 4097}) {
    Tensor tensor(DType::kUInt8, {bytes});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw()) % (bytes < 2 * kPage ? 64 : kPage), 0u) << bytes;
    for (int64_t i = 0; i < bytes; i += 4093) tensor.data<uint8_t>()[i] = static_cast<uint8_t>(i);
    tensor.data<uint8_t>()[bytes - 1] = 17;
    EXPECT_EQ(tensor.data<uint8_t>()[bytes - 1], 17);
    EXPECT_EQ(tensor.data<uint8_t>()[4093], static_cast<uint8_t>(4093));
  }
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor tensor = Tensor::Of<int32_t>({1, 2, 3, 4});
  const Tensor copy = tensor, reshaped = tensor.Reshaped({2, 2}), clone = tensor.Clone();
  tensor.data<int32_t>()[3] = 9;
  EXPECT_THAT(copy.span<int32_t>(), ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(reshaped.span<int32_t>(), ElementsAre(1, 2, 3, 9));
  EXPECT_EQ(reshaped.shape(), (Shape{2, 2}));
  EXPECT_THAT(clone.span<int32_t>(), ElementsAre(1, 2, 3, 4));
  EXPECT_DEATH(tensor.Reshaped({3}), "cannot have the shape \\[3\\] at .*tensor_test\\.cc:[0-9]+");
}

TEST(Tensor, ConvertsEveryTypeToDoubles) {
  EXPECT_THAT(Tensor::Of<float>({0.5f, -1}).ToDoubles(), ElementsAre(0.5, -1));
  EXPECT_THAT(Tensor::Of<double>({1e300}).ToDoubles(), ElementsAre(1e300));
  EXPECT_THAT(Tensor::Of<Half>({Half(0.5f), Half(-65504.0f)}).ToDoubles(), ElementsAre(0.5, -65504));
  EXPECT_THAT(Tensor::Of<BFloat16>({BFloat16(0.5f), BFloat16(-256.0f)}).ToDoubles(), ElementsAre(0.5, -256));
  EXPECT_THAT(Tensor::Of<int32_t>({INT32_MIN, 3}).ToDoubles(), ElementsAre(-0x1p31, 3));
  EXPECT_THAT(Tensor::Of<int64_t>({INT64_MIN, 3}).ToDoubles(), ElementsAre(-0x1p63, 3));
  EXPECT_THAT(Tensor::Of<uint8_t>({255, 0}).ToDoubles(), ElementsAre(255, 0));
  EXPECT_THAT(Tensor::Of<bool>({true, false}).ToDoubles(), ElementsAre(1, 0));
  EXPECT_THAT(Tensor::Of<float>({1, 2, 3}).ToDoubles(2), ElementsAre(1, 2));
  EXPECT_THAT(Tensor::Of<float>({1, 2, 3}).ToDoubles(7), ElementsAre(1, 2, 3));
  EXPECT_TRUE(std::isnan(Tensor::Scalar(std::nanf("")).ToDoubles()[0]));
}

TEST(Tensor, PrintsAsTensorFlowSummarises) {
  EXPECT_EQ(Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}).ToString(),
            "Tensor<type: float shape: [3,2] values: 1 2 3...>");
  EXPECT_EQ(Tensor::Of<float>({1, 2.5f, -3}).ToString(), "Tensor<type: float shape: [3] values: 1 2.5 -3>");
  EXPECT_EQ(Tensor::Of<float>({1, 2}).ToString(1), "Tensor<type: float shape: [2] values: 1...>");
  EXPECT_EQ(Tensor().ToString(), "Tensor<type: float shape: [0] values: >");
  EXPECT_EQ(Tensor::Scalar(true).ToString(), "Tensor<type: bool shape: [] values: 1>");
  EXPECT_EQ(Tensor::Scalar<int32_t>(1068298).ToString(), "Tensor<type: int32 shape: [] values: 1068298>");
  EXPECT_EQ(Tensor::Scalar<int64_t>(INT64_MAX).ToString(), "Tensor<type: int64 shape: [] values: 9223372036854775807>");
  EXPECT_EQ(Tensor::Scalar<uint8_t>(200).ToString(), "Tensor<type: uint8 shape: [] values: 200>");
  EXPECT_EQ(Tensor::Of<Half>({Half(1.5f)}).ToString(), "Tensor<type: half shape: [1] values: 1.5>");
  EXPECT_EQ(Tensor::Scalar(-std::numeric_limits<float>::infinity()).ToString(),
            "Tensor<type: float shape: [] values: -inf>");
}

TEST(Tensor, AllocatesOnlyWhatCanBe) {
  ASSERT_OK_AND_ASSIGN(const auto good, Tensor::Allocate(DType::kFloat32, {2, 3}));
  EXPECT_EQ(good.elements(), 6);
  EXPECT_EQ(Tensor::Allocate(DType::kFloat32, {2, Shape::kUnknown}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Tensor::Allocate(DType::kFloat64, {int64_t{1} << 56}).ok());
  const Tensor lent = Tensor::WithoutData(DType::kFloat32, {4, 5});
  EXPECT_EQ(lent.elements(), 20);
  EXPECT_EQ(lent.raw(), nullptr);
}

}  // namespace
}  // namespace belfry
