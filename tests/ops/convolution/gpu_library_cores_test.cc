// The library's kernels for batch normalisation, pooling and attention, tested against the CPU's even if they are not
// the fastest.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "framework/base/status.h"
#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/attention.h"
#include "ops/builtin_ops.h"
#include "ops/cudnn/attention.h"
#include "ops/cudnn/batch_norm.h"
#include "ops/cudnn/pool.h"
#include "ops/gpu/autotune.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/pooling/pool_impl.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

using harness::NodeRun;

class GpuLibraryCores : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { ASSIGN_OR_SKIP(devices_, OpenFastTestGpu()); }
  Device& gpu() const { return devices_.device(1); }

  Output Random(const Shape& shape, DType dtype) {
    Tensor x(DType::kFloat32, shape);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = normal(random_);
    return Cast(scope_, Const(scope_, x), dtype);
  }
  Output Images(const Shape& shape) { return Random(shape, GetParam()); }
  Output Vector(int64_t n) { return Random({n}, DType::kFloat32); }

  // The nodes that the fetches need, as run on the CPU.
  std::vector<NodeRun> Run(const std::vector<Output>& fetches) {
    std::vector<NodeRun> trace;
    EXPECT_EQ(harness::Evaluate(fetches, {}, &trace).status(), absl::OkStatus());
    return trace;
  }
  std::vector<NodeRun> RunWithGradient(const Output& y, const Output& x) {
    const auto gradients = Gradients(scope_, {Mul(scope_, y, Images(y.shape()))}, {x});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? Run({y, (*gradients)[0]}) : std::vector<NodeRun>();
  }
  static const NodeRun& Find(const std::vector<NodeRun>& trace, absl::string_view op) {
    const auto found = std::find_if(trace.begin(), trace.end(),
                                    [&](const NodeRun& run) { return absl::string_view(run.node->op().name) == op; });
    EXPECT_NE(found, trace.end()) << op;
    return *found;
  }

  // Runs a core twice on copies of `inputs`, in a workspace of ones, and expects outputs near `expected`.
  void ExpectGives(const absl::StatusOr<LibraryCore>& core, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& expected) {
    ASSERT_TRUE(core.ok()) << core.status();
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs, RunCore(*core, inputs, expected));
    const double tolerance = GetParam() == DType::kFloat32 ? 1e-4 : GetParam() == DType::kFloat16 ? 4e-3 : 3e-2;
    for (size_t k = 0; k < expected.size(); ++k) {
      const std::vector<double> a = outputs[k].ToDoubles(), e = expected[k].ToDoubles();
      double largest = 1;
      for (const double value : e) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < e.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance * largest) << "output " << k << "[" << i;
    }
  }

  absl::StatusOr<std::vector<Tensor>> RunCore(const LibraryCore& core, const std::vector<Tensor>& inputs,
                                              const std::vector<Tensor>& like) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, gpu().NewStream(StreamKind::kCompute));
    const Device& host = devices_.device(0);
    std::vector<Tensor> outputs;
    std::vector<DeviceMemory> memory;
    std::vector<void*> operands;
    const auto place = [&](const Tensor& tensor) -> absl::Status {
      ASSIGN_OR_RETURN(memory.emplace_back(), DeviceMemory::Allocate(gpu(), tensor.bytes()));
      RETURN_IF_ERROR(stream->Copy(memory.back().data(), gpu(), tensor.raw(), host, tensor.bytes()));
      return stream->Synchronize();
    };
    for (const Tensor& tensor : like) outputs.emplace_back(tensor.dtype(), tensor.shape());
    std::vector<Tensor> all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    for (const Tensor& tensor : all) {
      RETURN_IF_ERROR(place(tensor));
      operands.push_back(memory.back().data());
    }
    Tensor space(DType::kUInt8, {static_cast<int64_t>(BytesForLibraries(core.workspace_bytes))});
    std::fill_n(space.data<uint8_t>(), space.elements(), uint8_t{0xff});
    RETURN_IF_ERROR(place(space));
    for (int run = 0; run < 2; ++run) {
      RETURN_IF_ERROR(core.run(*stream, operands, AlignForLibraries(memory.back().data())));
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      RETURN_IF_ERROR(stream->Copy(outputs[k].raw(), host, operands[inputs.size() + k], gpu(), outputs[k].bytes()));
    }
    RETURN_IF_ERROR(stream->Synchronize());
    return outputs;
  }

  // 1 / sqrt(variance + epsilon), which the library uses in place of the variance.
  static Tensor Inverse(const Tensor& variance) {
    Tensor inverse(DType::kFloat32, variance.shape());
    for (int64_t i = 0; i < variance.elements(); ++i) {
      inverse.data<float>()[i] = 1 / std::sqrt(variance.data<float>()[i] + kEpsilon);
    }
    return inverse;
  }
  GpuPool PoolOf(const NodeRun& run, GpuPool::Kind kind) const {
    const Shape& x = run.inputs[0].shape();
    return {.kind = kind,
            .dtype = GetParam(),
            .n = x[0],
            .channels = x[3],
            .window = PoolWindow(run.node->attrs(), x).value()};
  }

  static constexpr float kEpsilon = 1e-3f;
  DeviceSet devices_ = DeviceSet::Open("cpu:1").value();
  Graph graph_{BuiltinOps()};
  const Scope scope_{graph_};
  std::mt19937 random_{TestSeed()};
};

TEST_P(GpuLibraryCores, BatchNorm) {
  for (const int64_t channels : {8, 64}) {
    const Shape shape{5, 9, 7, channels};
    const Output x = Images(shape), addend = Images(shape);
    const BatchNormOutputs norm = BatchNorm(scope_, x, Vector(channels), Vector(channels), kEpsilon);
    const Output relu = Relu(scope_, norm.y), sum = Relu(scope_, Add(scope_, norm.y, addend));
    const std::vector<NodeRun> trace = Run({relu, sum, addend});
    const NodeRun& run = Find(trace, "BatchNorm");
    GpuBatchNorm p{.dtype = GetParam(), .n = 5, .pixels = 63, .channels = channels, .epsilon = kEpsilon};
    const Tensor mean = run.outputs[1], inverse = Inverse(run.outputs[2]);
    ExpectGives(MakeLibraryGpuBatchNorm(p, gpu()), run.inputs, {run.outputs[0], mean, inverse});
    ASSERT_OK_AND_ASSIGN(const auto values, harness::Evaluate({relu, sum, addend}, {}));
    p.relu = true;
    ExpectGives(MakeLibraryGpuBatchNorm(p, gpu()), run.inputs, {values[0], mean, inverse});
    p.add = true;
    std::vector<Tensor> inputs = run.inputs;
    inputs.push_back(values[2]);
    ExpectGives(MakeLibraryGpuBatchNorm(p, gpu()), inputs, {values[1], mean, inverse});
  }
}

TEST_P(GpuLibraryCores, BatchNormGradient) {
  for (const int64_t channels : {8, 64}) {
    const Output x = Images({5, 9, 7, channels});
    const Output y = BatchNorm(scope_, x, Vector(channels), Vector(channels), kEpsilon).y;
    const std::vector<NodeRun> trace = RunWithGradient(y, x);
    const NodeRun& run = Find(trace, "BatchNormGrad");
    const GpuBatchNorm p{.gradient = true, .dtype = GetParam(), .n = 5, .pixels = 63, .channels = channels};
    std::vector<Tensor> inputs = run.inputs;
    inputs[4] = Inverse(inputs[4]);
    ExpectGives(MakeLibraryGpuBatchNorm(p, gpu()), inputs, run.outputs);
  }
}

TEST_P(GpuLibraryCores, AveragePooling) {
  for (const int64_t extent : {24, 9}) {
    const Output x = Images({2, extent, extent, 16});
    const Output y = AvgPool(scope_, x, {.height = 3, .width = 3});
    const std::vector<NodeRun> trace = RunWithGradient(y, x);
    const NodeRun &forward = Find(trace, "AvgPool"), &gradient = Find(trace, "AvgPoolGrad");
    ExpectGives(MakeLibraryGpuPool(PoolOf(forward, GpuPool::Kind::kAverage), gpu()), forward.inputs, forward.outputs);
    ExpectGives(MakeLibraryGpuPool(PoolOf(gradient, GpuPool::Kind::kAverageGradient), gpu()), {gradient.inputs[1]},
                gradient.outputs);
  }
}

TEST_P(GpuLibraryCores, GradientOfMaxima) {
  const Output x = Images({2, 24, 24, 16});
  const Output y = MaxPool(scope_, x, {.height = 3, .width = 3});
  const std::vector<NodeRun> trace = RunWithGradient(y, x);
  const NodeRun& run = Find(trace, "MaxPoolGrad");
  ExpectGives(MakeLibraryGpuPool(PoolOf(run, GpuPool::Kind::kMaximumGradient), gpu()), {run.inputs[1], run.inputs[2]},
              run.outputs);
}

TEST_P(GpuLibraryCores, Attention) {
  if (GetParam() == DType::kFloat32) GTEST_SKIP() << "the library's attention is for 16 bits";
  for (const bool causal : {false, true}) {
    GpuAttention p{.dtype = GetParam(), .n = 2, .t = 40, .s = 40, .h = 4, .g = 2, .d = 64};
    p.q_row = p.y_row = p.h * p.d;
    p.k_row = p.g * p.d;
    p.causal = causal;
    p.scale = 0.125f;
    const Output q = Images({p.n, p.t, p.h, p.d}), k = Images({p.n, p.s, p.g, p.d}), v = Images(k.shape());
    const std::vector<NodeRun> trace = RunWithGradient(Attention(scope_, q, k, v, {.causal = causal}), q);
    const NodeRun &forward = Find(trace, "Attention"), &gradient = Find(trace, "AttentionGrad");
    ExpectGives(MakeLibraryGpuAttention(p, gpu()), forward.inputs, forward.outputs);
    p.gradient = true;
    ExpectGives(MakeLibraryGpuAttention(p, gpu()), gradient.inputs, gradient.outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, GpuLibraryCores, testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace belfry::ops
