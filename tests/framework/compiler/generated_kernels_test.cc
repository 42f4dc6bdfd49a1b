// Generated kernels of the models' training steps, compiled for several cards, none of which need be present.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/cores.h"
#include "framework/base/library/cuda_libraries.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/compiler/elementwise_codegen/generated_kernel.h"
#include "framework/device/cuda/nvrtc.h"
#include "framework/device/cuda/nvrtc_prelude.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/compiler/model_kernels.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

// The PTX from which NVRTC makes the machine code of `source` for capability 8.0; empty if it fails.
std::string PtxOf(const std::string& source) {
  using Program = struct AnyProgram*;
  const absl::StatusOr<void*> nvrtc = OpenCudaLibrary(absl::StrCat("libnvrtc.so.", CUDART_VERSION / 1000), "");
  if (!nvrtc.ok()) return "";
  const auto find = [&]<class F>(const char* name, F*) { return reinterpret_cast<F*>(dlsym(*nvrtc, name)); };
  using Create = int(Program*, const char*, const char*, int, const char* const*, const char* const*);
  using Compile = int(Program, int, const char* const*);
  std::vector<std::string> options = absl::StrSplit(NvrtcOptions(), ' ');
  options.push_back("--gpu-architecture=sm_80");
  std::vector<const char*> texts;
  for (const std::string& option : options) texts.push_back(option.c_str());
  const std::string text = absl::StrCat(NvrtcPrelude(), source);
  Program program = nullptr;
  std::string ptx;
  size_t size = 0;
  if (find("nvrtcCreateProgram", static_cast<Create*>(nullptr))(&program, text.c_str(), "", 0, nullptr, nullptr) == 0 &&
      find("nvrtcCompileProgram", static_cast<Compile*>(nullptr))(program, static_cast<int>(texts.size()),
                                                                  texts.data()) == 0 &&
      find("nvrtcGetPTXSize", static_cast<int (*)(Program, size_t*)>(nullptr))(program, &size) == 0) {
    ptx.resize(size);
    find("nvrtcGetPTX", static_cast<int (*)(Program, char*)>(nullptr))(program, ptx.data());
  }
  find("nvrtcDestroyProgram", static_cast<int (*)(Program*)>(nullptr))(&program);
  return ptx;
}

// The errors of one source, empty if there are none. It is compiled for one of the cards, or for all with BELFRY_LONG.
std::string Check(const std::string& source, std::atomic<size_t>& bytes) {
  static const bool all = std::getenv("BELFRY_LONG") != nullptr;
  size_t card = source.size();
  for (const auto& [major, minor] : kKernelCapabilities) {
    if (!all && card++ % std::size(kKernelCapabilities) != 0) continue;
    const absl::StatusOr<std::string> cubin = CompileCubin(source, major, minor);
    if (!cubin.ok()) return absl::StrCat("sm_", major, minor, ": ", std::string(cubin.status().message()));
    bytes += cubin->size();
  }
  const std::string ptx = PtxOf(source);
  if (ptx.empty()) return "there is no PTX";
  if (absl::StrContains(ptx, ".local")) return "there is local memory";
  // Packs of the elements that there are in the place of each result are read and written 16 bytes at a time, but that
  // 8 of a byte each are all that a thread computes.
  static const std::regex wide_load(R"(ld\.global[.a-z]*\.(v4\.[a-z]32|v2\.[a-z]64))");
  static const std::regex wide_store(R"(st\.global[.a-z]*\.(v4\.[a-z]32|v2\.[a-z]64))");
  const bool loads = std::regex_search(source, std::regex(R"(auto x\d+ = Load<kLanes>\(in)"));
  if (loads && !std::regex_search(ptx, wide_load)) return "no load of 16 bytes";
  const bool of_bytes = std::regex_search(source, std::regex("Pack<(bool|uint8_t), kLanes> w0")) &&
                        !absl::StrContains(source, "kLanes> w1");
  if (!of_bytes && !std::regex_search(ptx, wide_store)) return "no store of 16 bytes";
  return "";
}

// Expects no error from check(source) for any of them.
void CheckAll(const std::vector<std::string>& sources, const std::function<std::string(const std::string&)>& check) {
  std::vector<std::string> errors(sources.size());
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < UsableCores(); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < sources.size(); i = next++) errors[i] = check(sources[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(errors[i], "") << sources[i].substr(sources[i].rfind("namespace belfry {"));
  }
}

TEST(GeneratedKernels, OfTrainingStepsCompileForAllCards) {
  for (const auto& [major, minor] : kKernelCapabilities) {
    if (const absl::Status nvrtc = CheckNvrtc(major, minor); !nvrtc.ok()) GTEST_SKIP() << nvrtc.message();
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> sources, KernelsOfModels());
  EXPECT_GT(sources.size(), 20u);
  std::atomic<size_t> bytes = 0;
  CheckAll(sources, [&](const std::string& source) { return Check(source, bytes); });
  RecordProperty("kernels", static_cast<int>(sources.size()));
  RecordProperty("bytes", static_cast<int>(bytes));
  std::cout << sources.size() << " kernels, " << bytes << " bytes of machine code\n";
}

// Each op whose kernel is generated, in every dtype. Its second operand is stretched if the op allows it.
std::vector<Output> EachOp(const Scope& scope, std::vector<FeedSpec>& feeds) {
  const Shape whole = {6, 5, 7};
  const auto feed = [&](DType dtype, const Shape& shape) {
    feeds.push_back({ops::Placeholder(scope, dtype, shape), shape});
    return feeds.back().output;
  };
  std::vector<Output> results;
  for (const auto& [name, op] : scope.graph().registry().ops()) {
    for (const KernelDef* kernel : op.KernelsFor("GPU")) {
      if (!IsGenerated(*kernel) || op.FindKernel("GPU", kernel->dtype) != kernel) continue;
      Attrs attrs;
      for (const AttrDef& attr : op.attrs) attrs.Set(attr.name, attr.required ? AttrValue(1.0) : attr.value);
      Shape second = whole;
      for (const Shape& shape : {Shape(), Shape({7}), Shape({6, 1, 7})}) {
        if (op.inputs.size() == 2 && op.shape({attrs, std::vector{whole, shape}, {}}).ok()) second = shape;
      }
      const bool converts = op.types.size() > 1;
      for (const DType other : converts ? op.types[1].allowed : absl::Span<const DType>(&kernel->dtype, 1)) {
        if (converts) attrs.Set(op.types[1].name, other);
        std::vector<Output> inputs;
        for (const ArgDef& arg : op.inputs) {
          const DType dtype = arg.type == op.types[0].name ? kernel->dtype : other;
          if (arg.list) continue;  // a condition
          if (arg.type == "int64" || arg.type == "float32") {
            inputs.push_back(feed(arg.type == "int64" ? DType::kInt64 : DType::kFloat32, {}));
          } else if (arg.ref) {
            inputs.push_back(GetVariable(scope, absl::StrCat(name, results.size(), arg.name), whole,
                                         ConstantInitializer(0), {.dtype = dtype}));
          } else {
            inputs.push_back(feed(arg.type == "bool" ? DType::kBool : dtype, inputs.empty() ? whole : second));
          }
        }
        results.push_back(scope.Add(name, inputs, attrs));
      }
    }
  }
  return results;
}

TEST(GeneratedKernels, OfEachOpCompile) {
  const auto [major, minor] = kKernelCapabilities[0];
  if (const absl::Status nvrtc = CheckNvrtc(major, minor); !nvrtc.ok()) GTEST_SKIP() << nvrtc.message();
  std::mutex mutex;
  std::set<std::string> sources;
  const DeviceSet devices = OpenFakeGpus(
      1, /*tagged=*/false, {}, [&](const std::string& source) -> absl::StatusOr<std::shared_ptr<const CompiledKernel>> {
        const std::lock_guard<std::mutex> lock(mutex);
        sources.insert(source);
        return std::make_shared<const NoKernel>();
      });
  Graph graph(BuiltinOps());
  std::vector<FeedSpec> feeds;
  const Scope scope = Scope(graph).Device("/gpu:0");
  std::vector<Output> results = EachOp(scope, feeds);
  // More than 2^31 elements.
  for (const Shape& shape : {Shape({1 << 16, 1 << 16}), Shape({1 << 16, 1})}) {
    feeds.push_back({ops::Placeholder(scope, DType::kUInt8, shape), shape});
  }
  results.push_back(ops::Less(scope, feeds.rbegin()[1].output, feeds.back().output));
  ASSERT_EQ(graph.status(), absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph, devices, {.fuse = false}));
  ASSERT_EQ(session->Explain(feeds, results).status(), absl::OkStatus());
  EXPECT_GT(sources.size(), 200u);
  const auto is_large = [](const std::string& source) { return absl::StrContains(source, "const int64_t e = "); };
  EXPECT_EQ(std::count_if(sources.begin(), sources.end(), is_large), 1);
  CheckAll({sources.begin(), sources.end()}, [&](const std::string& source) -> std::string {
    const absl::StatusOr<std::string> cubin = CompileCubin(source, major, minor);
    return cubin.ok() ? "" : std::string(cubin.status().message());
  });
}

// Two passes with kernels of their own, on a GPU with `compiler`.
absl::Status PlanTwoPasses(KernelCompiler compiler) {
  const DeviceSet devices = OpenFakeGpus(1, /*tagged=*/false, {}, std::move(compiler));
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/gpu:0");
  const Output x = ops::Placeholder(scope, DType::kFloat32, {100});
  const Output y = ops::Neg(scope, ops::Square(scope, x)), z = ops::Exp(scope, ops::Abs(scope, ops::Softmax(scope, y)));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  return session->Explain({{x, {100}}}, {z}).status();
}

TEST(GeneratedKernels, ErrorsNameTheNode) {
  const absl::Status status = PlanTwoPasses([](const std::string&) { return absl::InternalError("line 7 is wrong"); });
  EXPECT_TRUE(absl::StrContains(status.message(), "'Neg'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "line 7 is wrong")) << status;
}

// Each call returns when a second thread has come.
TEST(GeneratedKernels, SeveralAreCompiledAtATime) {
  if (UsableCores() < 2) GTEST_SKIP() << "there is one core";
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> callers;
  const auto compile = [&](const std::string&) -> absl::StatusOr<std::shared_ptr<const CompiledKernel>> {
    std::unique_lock<std::mutex> lock(mutex);
    callers.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return callers.size() > 1; });
    return std::make_shared<const NoKernel>();
  };
  EXPECT_EQ(PlanTwoPasses(compile), absl::OkStatus());
  EXPECT_GT(callers.size(), 1u);
}

}  // namespace
}  // namespace belfry
