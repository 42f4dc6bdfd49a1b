// The warning of a convolution for which the GPU's library has no kernel; fake GPUs have no library at all.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"

namespace belfry::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GpuConv2D, WarnsOncePerDeviceAndKindOfPlainKernels) {
  const DeviceSet devices = OpenFakeGpus(2, /*tagged=*/false);
  const auto warnings = [&](int gpu, int64_t rows, int64_t filter) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output y = Conv2D(scope, Fill(scope, {1, rows, 5, 1}, 1), Fill(scope, {filter, filter, 1, 1}, 1));
    std::vector<harness::NodeRun> trace;
    EXPECT_TRUE(harness::Evaluate({y}, {}, &trace).ok());
    std::ostringstream text;
    const auto former = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    const auto outputs = harness::RunKernel(trace.back(), {}, &devices.device(1 + gpu));
    spdlog::set_default_logger(former);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return text.str();
  };
  EXPECT_THAT(warnings(0, 4, 3), AllOf(HasSubstr("GPU:0: float32 convolutions (forward) with filters 3 x 3"),
                                       HasSubstr("fake GPUs have no cuDNN")));
  EXPECT_EQ(warnings(0, 7, 3), "");
  EXPECT_THAT(warnings(0, 4, 1), HasSubstr("filters 1 x 1"));
  EXPECT_THAT(warnings(1, 4, 3), HasSubstr("GPU:1"));
}

}  // namespace
}  // namespace belfry::ops
