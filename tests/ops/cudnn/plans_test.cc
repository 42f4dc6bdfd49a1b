// Tests that cuDNN accepts our graphs, on described GPUs that need not be present (possible since cuDNN 9.8): it
// recommends engines, checks them and compiles code. Only running them needs a GPU.
#include <cudnn.h>
#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "nlohmann/json.hpp"
#include "ops/cudnn/attention_graph_impl.h"
#include "ops/cudnn/batch_norm_graph_impl.h"
#include "ops/cudnn/convolution_graph_impl.h"
#include "ops/cudnn/descriptor.h"
#include "ops/cudnn/pool_graph_impl.h"
#include "tests/main/testing.h"

namespace belfry::cudnn {
namespace {

using ops::GpuAttention;
using ops::GpuBatchNorm;
using ops::GpuConv;
using ops::GpuPool;

// Properties in which the GPUs differ, from NVIDIA's "Tuning Guide" and data sheet of each.
struct Gpu {
  const char* name;
  int capability, multiprocessors, l2_mib, shared_memory, memory_gb, clock_khz, memory_clock_khz;
};
constexpr Gpu kGpus[] = {
    {"NVIDIA A100-SXM4-80GB", 800, 108, 40, 166912, 80, 1410000, 1593000},
    {"NVIDIA H100 80GB HBM3", 900, 132, 50, 232448, 80, 1980000, 2619000},
};

absl::StatusOr<Descriptor> Describe(const Gpu& gpu) {
  return DescribeDevice(nlohmann::json{
      {"schemaVersion", "1"},
      {"cudnnVersion", cudnnGetVersion()},
      {"deviceName", gpu.name},
      {"cudaDeviceId", 0},
      {"deviceVer", gpu.capability},
      {"driverVer", 13000},
      {"isTccDriver", 0},
      {"l2CacheSize", gpu.l2_mib << 20},
      {"maxCtasPerSM", 32},
      {"maxRegistersPerSM", 65536},
      {"maxSharedMemoryPerBlock", 49152},
      {"maxSharedMemoryPerBlockOptin", gpu.shared_memory},
      {"maxThreadsPerBlock", 1024},
      {"maxThreadsPerSM", 2048},
      {"memClockRateKHz", gpu.memory_clock_khz},
      {"multiProcessorCount", gpu.multiprocessors},
      {"pciDeviceId", 0},
      {"regsPerBlock", 65536},
      {"reservedSharedMemoryPerBlock", 1024},
      {"smClockRateKHz", gpu.clock_khz},
      {"supportCoopLaunch", 1},
      {"totalGlobalMem", int64_t{gpu.memory_gb} * 1000000000},
      {"warpSize", 32},
      {"maxGridSize", {2147483647, 65535, 65535}},
      {"maxBlockSize",
       {1024, 1024, 64}}}.dump());
}

class CudnnPlansTest : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    absl::StatusOr<Descriptor> gpu = Describe(GetParam());
    if (!gpu.ok()) GTEST_SKIP() << "cuDNN " << cudnnGetVersion() << " takes no description: " << gpu.status();
    gpu_ = std::make_unique<Descriptor>(*std::move(gpu));
  }

  Target target() const { return {.described = gpu_.get()}; }

  // Engines that are compiled at run time need CUDA's driver; the toolkit's stub of it suffices.
  static bool HasDriver() { return dlopen(BELFRY_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) != nullptr; }

  // Builds the first plan that can be built, like Engine does. Returns the size of its workspace.
  absl::StatusOr<size_t> Build(const absl::StatusOr<OperationGraph>& graph, const ConfigFilter& filter) const {
    RETURN_IF_ERROR(graph.status());
    ASSIGN_OR_RETURN(Configs configs, FindConfigs(target(), graph->operations, filter));
    absl::Status failure;
    for (Descriptor& config : configs.configs) {
      const absl::StatusOr<ExecutionPlan> plan = MakePlan(target(), std::move(config));
      if (plan.ok()) return plan->workspace_bytes;
      failure = plan.status();
    }
    return failure;
  }
  // The number of engines for a graph.
  size_t Engines(const absl::StatusOr<OperationGraph>& graph) const {
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return 0;
    const absl::StatusOr<Configs> configs = FindConfigs(target(), graph->operations, {});
    return configs.ok() ? configs->configs.size() : 0;
  }

  std::unique_ptr<Descriptor> gpu_;
};

// One axis of "SAME" windows.
ops::WindowAxis Same(int64_t in, int64_t window, int64_t stride) {
  const int64_t out = (in + stride - 1) / stride, padding = std::max<int64_t>((out - 1) * stride + window - in, 0);
  return {.in = in,
          .window = window,
          .stride = stride,
          .out = out,
          .pad_low = padding / 2,
          .pad_high = padding - padding / 2};
}

// The convolutions of the tutorial network and of ResNets for CIFAR-10, and one with odd extents.
std::vector<GpuConv> Convolutions(int64_t n) {
  const auto conv = [&](int64_t in, int64_t c, int64_t k, int64_t window, int64_t stride) {
    const ops::WindowAxis axis = Same(in, window, stride);
    return GpuConv{.n = n,
                   .h = in,
                   .w = in,
                   .c = c,
                   .k = k,
                   .r = window,
                   .s = window,
                   .out_h = axis.out,
                   .out_w = axis.out,
                   .stride_h = stride,
                   .stride_w = stride,
                   .pad_h = axis.pad_low,
                   .pad_w = axis.pad_low,
                   .end_h = axis.pad_high - axis.pad_low,
                   .end_w = axis.pad_high - axis.pad_low};
  };
  return {conv(24, 3, 64, 5, 1),  conv(12, 64, 64, 5, 1), conv(32, 3, 16, 3, 1),  conv(32, 16, 16, 3, 1),
          conv(32, 16, 32, 3, 2), conv(32, 16, 32, 1, 2), conv(16, 32, 32, 3, 1), conv(16, 32, 64, 3, 2),
          conv(16, 32, 64, 1, 2), conv(8, 64, 64, 3, 1),  conv(7, 5, 3, 3, 1)};
}

TEST_P(CudnnPlansTest, ConvolutionsOfTheModels) {
  for (const int64_t n : {1, 128, 512}) {
    for (GpuConv conv : Convolutions(n)) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
        conv.dtype = dtype;
        for (const auto kind :
             {GpuConv::Kind::kForward, GpuConv::Kind::kBackwardData, GpuConv::Kind::kBackwardFilter}) {
          conv.kind = kind;
          const auto size = Build(MakeConvolutionGraph(conv), {});
          EXPECT_TRUE(size.ok()) << DTypeName(dtype) << ", kind " << static_cast<int>(kind) << ", " << conv.n << "x"
                                 << conv.h << "x" << conv.w << "x" << conv.c << " to " << conv.k << ": "
                                 << size.status();
        }
      }
    }
  }
}

TEST_P(CudnnPlansTest, ConvolutionsWithBiasAndRelu) {
  for (GpuConv conv : Convolutions(128)) {
    conv.bias = true;
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      conv.dtype = dtype;
      for (const bool relu : {false, true}) {
        conv.relu = relu;
        const auto size = Build(MakeConvolutionGraph(conv), {});
        EXPECT_TRUE(size.ok()) << DTypeName(dtype) << ", " << conv.h << "x" << conv.w << "x" << conv.c << " to "
                               << conv.k << ": " << size.status();
      }
    }
  }
}

TEST_P(CudnnPlansTest, ExactAndDeterministicConvolutions) {
  for (GpuConv conv : Convolutions(128)) {
    for (const auto kind : {GpuConv::Kind::kForward, GpuConv::Kind::kBackwardData, GpuConv::Kind::kBackwardFilter}) {
      conv.kind = kind;
      const auto size = Build(MakeConvolutionGraph(conv), {.tensor_cores = false, .deterministic = true});
      EXPECT_TRUE(size.ok()) << "kind " << static_cast<int>(kind) << ", " << conv.h << "x" << conv.w << "x" << conv.c
                             << " to " << conv.k << ": " << size.status();
    }
  }
}

TEST_P(CudnnPlansTest, BatchNormOfTheModels) {
  if (!HasDriver()) GTEST_SKIP() << "no " << BELFRY_CUDA_STUB;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const auto& [pixels, channels] : {std::pair(1024, 16), {256, 32}, {64, 64}}) {
      GpuBatchNorm norm{.dtype = dtype, .n = 128, .pixels = pixels, .channels = channels};
      const std::string what = absl::StrCat(DTypeName(dtype), " of ", channels, " channels");
      EXPECT_GT(Engines(MakeBatchNormGraph(norm)), 0u) << what;
      norm.relu = true;
      EXPECT_GT(Engines(MakeBatchNormGraph(norm)), 0u) << what << ", ReLU";
      norm.add = true;
      EXPECT_GT(Engines(MakeBatchNormGraph(norm)), 0u) << what << ", addition and ReLU";
      norm.add = norm.relu = false;
      norm.gradient = true;
      EXPECT_GT(Engines(MakeBatchNormGraph(norm)), 0u) << what << ", gradient";
    }
  }
}

// Packed q, k and v, as a transformer's layer has them.
GpuAttention PackedAttention(DType dtype, int64_t heads, int64_t kv_heads, int64_t width) {
  const int64_t row = (heads + 2 * kv_heads) * width;
  return {.dtype = dtype,
          .n = 8,
          .t = 1024,
          .s = 1024,
          .h = heads,
          .g = kv_heads,
          .d = width,
          .q_row = row,
          .k_row = row,
          .y_row = heads * width,
          .causal = true,
          .scale = 0.125f};
}

// The first is that of GPT-2.
TEST_P(CudnnPlansTest, Attention) {
  if (!HasDriver()) GTEST_SKIP() << "no " << BELFRY_CUDA_STUB;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const auto& [kv_heads, width] : {std::pair(12, 64), {4, 64}, {12, 40}, {4, 128}}) {
      for (const bool causal : {true, false}) {
        GpuAttention attention = PackedAttention(dtype, 12, kv_heads, width);
        attention.causal = causal;
        const std::string what = absl::StrCat(DTypeName(dtype), " of ", kv_heads, " heads of ", width);
        EXPECT_GT(Engines(MakeAttentionGraph(attention, false)), 0u) << what;
        attention.gradient = true;
        EXPECT_GT(Engines(MakeAttentionGraph(attention, false)), 0u) << what << ", gradient";
        EXPECT_GT(Engines(MakeAttentionGraph(attention, true)), 0u) << what << ", ordered gradient";
      }
    }
  }
}

TEST_P(CudnnPlansTest, Pooling) {
  if (!HasDriver()) GTEST_SKIP() << "no " << BELFRY_CUDA_STUB;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const ops::WindowAxis axis : {Same(24, 3, 2), Same(7, 3, 2), Same(8, 8, 8), Same(9, 2, 1), Same(40, 20, 20)}) {
      GpuPool pool{.dtype = dtype, .n = 128, .channels = 64, .window = {axis, axis}};
      pool.winners = axis.window * axis.window > 255 ? DType::kInt32 : DType::kUInt8;
      for (const auto kind :
           {GpuPool::Kind::kAverage, GpuPool::Kind::kAverageGradient, GpuPool::Kind::kMaximumGradient}) {
        pool.kind = kind;
        EXPECT_GT(Engines(MakePoolGraph(pool)), 0u)
            << DTypeName(dtype) << " kind " << static_cast<int>(kind) << ", window " << axis.window;
      }
    }
  }
}

// Unimplemented, and left to our kernels: batch normalisation with a number of channels that is not a multiple of 4,
// and float64.
TEST_P(CudnnPlansTest, WhatCudnnHasNoEngineFor) {
  if (!HasDriver()) GTEST_SKIP() << "no " << BELFRY_CUDA_STUB;
  for (const GpuBatchNorm& norm : {GpuBatchNorm{.n = 128, .pixels = 64, .channels = 7},
                                   {.dtype = DType::kFloat64, .n = 128, .pixels = 64, .channels = 8}}) {
    const auto graph = MakeBatchNormGraph(norm);
    if (!graph.ok()) {
      EXPECT_TRUE(absl::IsUnimplemented(graph.status())) << graph.status();
      continue;
    }
    const auto configs = FindConfigs(target(), graph->operations, {});
    EXPECT_TRUE(absl::IsUnimplemented(configs.status())) << configs.status();
  }
  GpuAttention attention = PackedAttention(DType::kBFloat16, 4, 2, 64);
  attention.s = 2048;
  EXPECT_TRUE(absl::IsUnimplemented(MakeAttentionGraph(attention, false).status()));
}

// Engines compile to the end: the driver's stub, which receives the code, answers with CUDA_ERROR_STUB_LIBRARY (34).
TEST_P(CudnnPlansTest, CompilesEngines) {
  if (!HasDriver()) GTEST_SKIP() << "no " << BELFRY_CUDA_STUB;
  const auto compiles = [&](const absl::StatusOr<OperationGraph>& graph) {
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_OK_AND_ASSIGN(Configs configs, FindConfigs(target(), graph->operations, {}));
    const auto plan = MakePlan(target(), std::move(configs.configs[0]));
    if (plan.ok()) return;  // the driver is not a stub
    EXPECT_THAT(plan.status().message(), testing::HasSubstr("(34)"));
  };
  compiles(MakeBatchNormGraph({.n = 128, .pixels = 1024, .channels = 16, .add = true, .relu = true}));
  compiles(MakeBatchNormGraph({.gradient = true, .n = 128, .pixels = 1024, .channels = 16}));
  GpuAttention attention = PackedAttention(DType::kBFloat16, 12, 12, 64);
  compiles(MakeAttentionGraph(attention, false));
  attention.gradient = true;
  for (const bool ordered : {false, true}) compiles(MakeAttentionGraph(attention, ordered));
  const ops::WindowAxis axis = Same(24, 3, 2);
  for (const auto kind : {GpuPool::Kind::kAverage, GpuPool::Kind::kAverageGradient, GpuPool::Kind::kMaximumGradient}) {
    compiles(MakePoolGraph({.kind = kind, .n = 128, .channels = 64, .window = {axis, axis}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlansTest, testing::ValuesIn(kGpus),
                         [](const auto& info) { return absl::StrCat("Sm", info.param.capability / 10); });

}  // namespace
}  // namespace belfry::cudnn
