#include "ops/onednn/matmul.h"

#include "framework/base/parallel.h"
#include "tests/main/testing.h"
#include "tests/ops/onednn/harness.h"

namespace belfry::ops::onednn {
namespace {

// Index of the first element of the matrix of `size` elements that belongs to entry `entry` of a batch of shape
// `batch`.
int64_t Start(const Shape& own, const Shape& batch, int64_t entry, int64_t size) {
  int64_t flat = 0, stride = 1;
  for (int axis = batch.rank() - 1; axis >= 0; --axis) {
    const int64_t index = entry % batch[axis];
    entry /= batch[axis];
    const int own_axis = axis - (batch.rank() - own.rank());
    if (own_axis < 0) continue;
    if (own[own_axis] != 1) flat += index * stride;
    stride *= own[own_axis];
  }
  return flat * size;
}

int64_t Elements(const Shape& shape) {
  int64_t elements = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) elements *= shape[axis];
  return elements;
}

Values Reference(const MatMulShape& s, const Values& a, const Values& b) {
  const Shape batch = BroadcastShapes(s.a_batch, s.b_batch).value();
  Values y(Elements(batch) * s.m * s.n);
  for (int64_t e = 0; e < Elements(batch); ++e) {
    const int64_t a0 = Start(s.a_batch, batch, e, s.m * s.k), b0 = Start(s.b_batch, batch, e, s.k * s.n);
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        for (int64_t k = 0; k < s.k; ++k)
          y[(e * s.m + i) * s.n + j] +=
              a[a0 + (s.transpose_a ? k * s.m + i : i * s.k + k)] * b[b0 + (s.transpose_b ? j * s.k + k : k * s.n + j)];
  }
  return y;
}

std::vector<MatMulShape> MatMulShapes() {
  return {{{}, {}, 1, 1, 1},
          {{}, {}, 3, 5, 7},
          {{}, {}, 64, 33, 10},
          {{}, {}, 1, 17, 65},
          {{}, {}, 65, 17, 1},
          {{}, {}, 9, 1, 8},
          {{}, {}, 128, 192, 10},
          {{3}, {3}, 4, 5, 6},
          {{2, 3}, {2, 3}, 7, 8, 9},
          {{5}, {}, 3, 4, 6},
          {{}, {5}, 3, 4, 6},
          {{2, 1}, {1, 3}, 5, 6, 4},
          {{4, 1, 3}, {2, 1}, 2, 9, 5},
          {{1}, {1}, 4, 4, 4},
          {{2, 1, 2}, {2, 3, 2}, 16, 32, 16},
          {{}, {}, 1, 4096, 10},  // long sums, which some processors compute in parts
          {{}, {}, 64, 2304, 384},
          {{2}, {2}, 3, 3072, 5}};
}

class MatrixProduct : public ::testing::TestWithParam<std::tuple<size_t, int, int>> {};

TEST_P(MatrixProduct, AgreesWithLoops) {
  MatMulShape shape = MatMulShapes()[std::get<0>(GetParam())];
  const int transposes = std::get<1>(GetParam());
  shape.transpose_a = transposes & 1, shape.transpose_b = transposes & 2;
  const ScopedParallelThreads threads(std::get<2>(GetParam()));
  for (const auto& [dtype, output] :
       {std::pair(DType::kFloat32, DType::kFloat32), std::pair(DType::kBFloat16, DType::kBFloat16),
        std::pair(DType::kBFloat16, DType::kFloat32)}) {
    if (!IsComputed(dtype)) continue;
    shape.dtype = dtype, shape.output_dtype = output;
    const Values a = Random(Elements(shape.a_batch) * shape.m * shape.k, dtype);
    const Values b = Random(Elements(shape.b_batch) * shape.k * shape.n, dtype);
    const Values bias = Random(shape.n, output);
    const Values product = Reference(shape, a, b);
    for (const bool with_bias : {false, true}) {
      for (const Epilogue& post_ops :
           {Epilogue{}, Epilogue{Activation::kTanh}, Epilogue{Activation::kLeakyRelu, 0.1}}) {
        auto primitive = MatMul(shape, {.bias = with_bias, .post_ops = post_ops});
        // Our own loops compute long sums that the library would not give in parts.
        if (shape.k > 1024 && absl::IsUnimplemented(primitive.status())) continue;
        ASSERT_TRUE(primitive.ok()) << primitive.status();
        SCOPED_TRACE(shape.DebugString() + " " + std::string(primitive->implementation()));
        EXPECT_FALSE(primitive->is_reference());
        Values want = product;
        for (size_t i = 0; i < want.size(); ++i) {
          want[i] = Apply(post_ops, want[i] + (with_bias ? bias[i % shape.n] : 0));
        }
        std::vector<Argument> inputs = {{a, dtype}, {b, dtype}};
        if (with_bias) inputs.push_back({bias, output});
        const auto got = RunPrimitive(*primitive, inputs, {{static_cast<int64_t>(want.size()), output}});
        ExpectClose(got[0], want, output == DType::kFloat32 ? 1e-4 : Tolerance(output));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatrixProduct,
                         ::testing::Combine(::testing::Range<size_t>(0, MatMulShapes().size()), ::testing::Range(0, 4),
                                            ::testing::Values(1, 2)));

// The library keeps extents in 32 bits in places: 2^32 rows would be a division by 0 there.
TEST(MatrixProductExtents, AreCheckedBeforeTheLibraryCutsThem) {
  for (const int64_t rows : {int64_t{1} << 31, int64_t{1} << 32, (int64_t{1} << 32) + 1}) {
    for (const bool transpose_a : {false, true}) {
      const MatMulShape shape{{}, {}, rows, 16, 16, transpose_a};
      EXPECT_THAT(MatMul(shape).status().message(), ::testing::HasSubstr("2147483647"));
    }
  }
}

// Shapes of layers, of their gradients and of single rows: the library splits some of them along k where it has more
// threads than blocks of results, which must not change the sums.
std::vector<MatMulShape> LayerShapes() {
  return {{{}, {}, 64, 2304, 384}, {{}, {}, 2304, 64, 384}, {{}, {}, 1, 4096, 10},  {{}, {}, 10, 20000, 16},
          {{}, {}, 31, 1152, 33},  {{}, {}, 64, 4096, 64},  {{}, {}, 384, 512, 7},  {{}, {}, 1, 33, 3000},
          {{6}, {6}, 48, 64, 48},  {{3}, {3}, 8, 3072, 8},  {{2}, {}, 100, 96, 192}};
}

TEST(MatrixProductThreads, DoNotChangeTheBits) {
  if (!ProductsRepeat(DType::kFloat32)) GTEST_SKIP() << "oneDNN's products repeat on processors with AVX-512 only";
  int products = 0;
  for (MatMulShape shape : LayerShapes()) {
    for (const auto& [dtype, output] :
         {std::pair(DType::kFloat32, DType::kFloat32), std::pair(DType::kBFloat16, DType::kBFloat16),
          std::pair(DType::kBFloat16, DType::kFloat32)}) {
      if (!ProductsRepeat(dtype)) continue;
      shape.dtype = dtype, shape.output_dtype = output;
      const Values a = Random(Elements(shape.a_batch) * shape.m * shape.k, dtype);
      const Values b = Random(Elements(shape.b_batch) * shape.k * shape.n, dtype);
      const Values bias = Random(shape.n, output);
      for (int transposes = 0; transposes < 4; ++transposes) {
        shape.transpose_a = transposes & 1, shape.transpose_b = transposes & 2;
        Values of_one_thread;
        bool computed_by_one = false;
        for (const int count : {1, 2, 3, 4, 8}) {
          const ScopedParallelThreads threads(count);
          auto primitive = MatMul(shape, {.bias = true, .post_ops = Epilogue{Activation::kLeakyRelu, 0.1}});
          const bool computed = !absl::IsUnimplemented(primitive.status());
          if (count == 1) computed_by_one = computed;
          ASSERT_EQ(computed, computed_by_one) << primitive.status();
          if (!computed) continue;  // our own loops do it
          ASSERT_TRUE(primitive.ok()) << primitive.status();
          ++products;
          const int64_t size = Elements(BroadcastShapes(shape.a_batch, shape.b_batch).value()) * shape.m * shape.n;
          const Values y = RunPrimitive(*primitive, {{a, dtype}, {b, dtype}, {bias, output}}, {{size, output}})[0];
          if (count == 1) of_one_thread = y;
          ASSERT_EQ(y, of_one_thread) << shape.DebugString() << " " << primitive->implementation() << " on " << count
                                      << " threads";
        }
      }
    }
  }
  EXPECT_GT(products, 150);
}

TEST(MatrixProductErrors, NameWhatIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_EQ(MatMul({{}, {}, 0, 1, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MatMul({{2}, {3}, 1, 1, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  MatMulShape shape{{}, {}, 2, 2, 2};
  shape.output_dtype = DType::kBFloat16;
  EXPECT_THAT(MatMul(shape).status().message(), HasSubstr("a bfloat16 result"));
  shape.dtype = shape.output_dtype = DType::kFloat64;
  EXPECT_THAT(MatMul(shape).status().message(), HasSubstr("float64"));
}

}  // namespace
}  // namespace belfry::ops::onednn
