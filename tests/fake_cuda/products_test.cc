// Products by cuBLASLt, and the choice of the fastest algorithm, over fakes of cuBLASLt and CUDA's runtime.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "framework/device/device_set.h"
#include "ops/cublas/matmul.h"
#include "tests/fake_cuda/fake_cublas.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

using fake_cublas::Runs;
using fake_cublas::TheHeuristic;

class ProductsTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::SetCards(2);
    TheHeuristic() = {};
    Runs().clear();
  }
  void TearDown() override {
    devices_ = DeviceSet();
    fake_cuda::SetCards(2);
  }
  absl::StatusOr<GpuMatMulCore> Make(const GpuMatMul& product, bool deterministic = true) {
    devices_ = DeviceSet::Open("gpu:1", {.math = {.deterministic = deterministic}}).value();
    return MakeLibraryGpuMatMul(product, devices_.device(1));
  }
  void RunOnce(const GpuMatMulCore& core, const GpuMatMulOperands& operands) {
    const auto stream = devices_.device(1).NewStream(StreamKind::kCompute).value();
    ASSERT_TRUE(core.run(*stream, operands).ok());
  }

  DeviceSet devices_;
};

TEST_F(ProductsTest, WhatCublasDoesNotHaveIsUnimplemented) {
  TheHeuristic().status = CUBLAS_STATUS_INVALID_VALUE;
  EXPECT_TRUE(absl::IsUnimplemented(Make({.m = 2, .n = 3, .k = 4}).status()));
  TheHeuristic() = {.status = CUBLAS_STATUS_NOT_SUPPORTED};
  EXPECT_TRUE(absl::IsUnimplemented(Make({.m = 2, .n = 3, .k = 4}).status()));
  TheHeuristic() = {.states = {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_ARCH_MISMATCH}};
  EXPECT_TRUE(absl::IsUnimplemented(Make({.m = 2, .n = 3, .k = 4}).status()));
  TheHeuristic() = {.status = CUBLAS_STATUS_INTERNAL_ERROR};
  EXPECT_TRUE(absl::IsInternal(Make({.m = 2, .n = 3, .k = 4}).status()));
}

TEST_F(ProductsTest, AlgorithmsThatCannotRunAreLeftOut) {
  TheHeuristic().states = {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_SUCCESS};
  ASSERT_OK_AND_ASSIGN(const auto core, Make({.m = 2, .n = 3, .k = 4}));
  RunOnce(core, {});
  ASSERT_EQ(Runs().size(), 1u);
  EXPECT_EQ(Runs()[0].algorithm, 1u);
}

TEST_F(ProductsTest, TheHeuristicKnowsThatThereIsABias) {
  ASSERT_OK_AND_ASSIGN(const auto core, Make({.m = 2, .n = 3, .k = 4, .end = GpuMatMulEnd::kBiasRelu}));
  EXPECT_EQ(TheHeuristic().epilogue, CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_NE(TheHeuristic().bias, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(TheHeuristic().bias) % 64, 0u);
  const float bias = 1;
  RunOnce(core, {.bias = &bias});
  EXPECT_EQ(Runs().at(0).bias, &bias);
}

TEST_F(ProductsTest, SixteenBitsMayBeSummedIntoFloat32) {
  for (const auto& [dtype, type] :
       std::map<DType, cudaDataType_t>{{DType::kFloat16, CUDA_R_16F}, {DType::kBFloat16, CUDA_R_16BF}}) {
    for (const bool wide : {false, true}) {
      ASSERT_TRUE(Make({.m = 2, .n = 3, .k = 4, .dtype = dtype, .wide = wide}).ok());
      EXPECT_EQ(TheHeuristic().first, type);
      EXPECT_EQ(TheHeuristic().second, type);
      EXPECT_EQ(TheHeuristic().result, wide ? CUDA_R_32F : type);
    }
  }
}

struct EndOfProduct {
  GpuMatMulEnd end;
  cublasLtEpilogue_t epilogue;
  bool row, matrix;  // of n elements, and of m x n
};

TEST_F(ProductsTest, EndsAreEpiloguesWithTheirOperands) {
  float row = 0, matrix = 0, y = 0;
  for (const EndOfProduct& of : {EndOfProduct{GpuMatMulEnd::kBiasGelu, CUBLASLT_EPILOGUE_GELU_BIAS, true, false},
                                 {GpuMatMulEnd::kBiasKeepGelu, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, true},
                                 {GpuMatMulEnd::kGeluGrad, CUBLASLT_EPILOGUE_DGELU, false, true},
                                 {GpuMatMulEnd::kBiasGrad, CUBLASLT_EPILOGUE_BGRADA, true, false}}) {
    TheHeuristic() = {};
    Runs().clear();
    ASSERT_OK_AND_ASSIGN(const auto core, Make({.m = 2, .n = 16, .k = 4, .end = of.end}));
    EXPECT_EQ(TheHeuristic().epilogue, of.epilogue);
    EXPECT_EQ(TheHeuristic().bias != nullptr, of.row);
    EXPECT_EQ(TheHeuristic().aux != nullptr, of.matrix);
    EXPECT_EQ(TheHeuristic().aux_stride, of.matrix ? 16 : 0);
    const bool gradient = of.end == GpuMatMulEnd::kBiasGrad;
    RunOnce(core, {.b = &row,
                   .y = &y,
                   .bias = of.row && !gradient ? &row : nullptr,
                   .x = of.matrix ? &matrix : nullptr,
                   .dbias = gradient ? &row : nullptr});
    ASSERT_EQ(Runs().size(), 1u);
    EXPECT_EQ(Runs()[0].first, &row);
    EXPECT_EQ(Runs()[0].result, &y);
    EXPECT_EQ(Runs()[0].bias == &row, of.row);
    EXPECT_EQ(Runs()[0].aux == &matrix, of.matrix);
  }
}

// Then products and GELUs are kernels of their own.
TEST_F(ProductsTest, GelusOfSomeWidthsAreNoEpilogues) {
  for (const GpuMatMulEnd end : {GpuMatMulEnd::kBiasKeepGelu, GpuMatMulEnd::kGeluGrad}) {
    EXPECT_TRUE(absl::IsUnimplemented(Make({.m = 2, .n = 17, .k = 4, .end = end}).status()));
  }
}

// A gap after an event counts for each measurement, and not for each run.
TEST_F(ProductsTest, ManyRunsAreMeasuredTogether) {
  namespace fs = std::filesystem;
  const fs::path cache = fs::path(testing::TempDir()) / "belfry_products_test";
  fs::remove_all(cache);
  setenv("BELFRY_CACHE_DIR", cache.c_str(), 1);
  TheHeuristic().states = std::vector<cublasStatus_t>(3, CUBLAS_STATUS_SUCCESS);
  ASSERT_TRUE(Make({.m = 2, .n = 3, .k = 4}, /*deterministic=*/false).ok());
  std::map<uint64_t, std::map<int, int>> runs;  // by algorithm, by the number of events before
  for (const fake_cublas::Run& run : Runs()) ++runs[run.algorithm][run.records];
  EXPECT_EQ(runs.size(), 3u);
  for (const auto& [algorithm, by_records] : runs) {
    ASSERT_GE(by_records.size(), 2u) << "the first run is not measured";
    for (auto at = std::next(by_records.begin()); at != by_records.end(); ++at) EXPECT_GE(at->second, 10);
  }
  fs::remove_all(cache);
}

}  // namespace
}  // namespace belfry::ops
