// Benchmark of algorithms and memory layouts for convolutions. Times every convolution of a training step, and its
// gradients, as the plan runs it, in NHWC throughout, which may be as a product of matrices or one for each tap; then
// by Winograd's algorithm, where there is one, and oneDNN's own in NHWC, which shows whether the plan has the faster of
// the two; then oneDNN's in the blocked layouts that it prefers, without the cost of converting anything to them. Last,
// the cost of converting the weights, which a framework saves if it keeps them in that layout between steps.
// Convolutions of groups of channels are left out.
#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "benchmarks/step_times.h"
#include "benchmarks/training_run.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/engines_impl.h"
#include "ops/onednn/versions.h"
#include "ops/winograd/winograd_impl.h"

ABSL_FLAG(std::string, models, "cifar_net,resnet20",
          "Models whose convolutions are measured; see --model of `training`.");
ABSL_FLAG(int64_t, batch_size, 0, "Examples per step; 0: the model's default.");
ABSL_FLAG(int, threads, 1, "Number of threads.");
ABSL_FLAG(int, steps, 20, "Number of steps to trace.");
ABSL_FLAG(int, rounds, 7, "Measurements of each primitive, taken in turn.");
ABSL_FLAG(double, seconds, 0.02, "Length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using tag = memory::format_tag;

using ops::winograd::Pass;

const char* PassName(Pass pass) {
  return pass == Pass::kForward ? "forward" : pass == Pass::kBackwardData ? "input gradient" : "filter gradient";
}

// The engine that a step takes.
absl::string_view EngineOf(const ops::ConvolutionGeometry& shape, Pass pass) {
  const Attrs attrs;
  const KernelSpec spec{"", attrs, {}, {}};
  return ops::FirstEngine(pass, {spec, shape})->name;
}

// A kind of convolution in a step, and how often it occurs.
struct Convolution {
  ops::ConvolutionGeometry shape;
  Pass pass = Pass::kForward;
  int count = 0;
  double seconds = 0;  // all of them together, as the plan runs them
};

// Describes a node that is a convolution; returns false for other nodes. Work fused into a convolution is timed with
// it.
bool Describe(const Program& program, const ProgramNode& node, Convolution& convolution) {
  const auto input = [&](int i) { return program.spec(node.inputs[i]); };
  if (absl::StrContains(node.op->name, "Conv2DBackpropFilter")) {
    // Only the filter's shape counts, and it is that of the output.
    convolution.pass = Pass::kBackwardWeights;
    convolution.shape = ops::Conv2DGeometry(node.attrs, input(0), node.outputs[0].shape);
    return true;
  }
  if (absl::StrContains(node.op->name, "Conv2DBackpropInput")) {
    convolution.pass = Pass::kBackwardData;
    convolution.shape = ops::Conv2DGeometry(node.attrs, node.outputs[0], input(1).shape);
    return true;
  }
  if (!absl::StrContains(node.op->name, "Conv2D")) return false;
  convolution.shape = ops::Conv2DGeometry(node.attrs, input(0), input(1).shape);
  return true;
}

// One oneDNN primitive with its own memory.
class Bare {
 public:
  Bare(const Convolution& of, tag images) : stream_(engine_) {
    const ops::ConvolutionGeometry& s = of.shape;
    const auto type = memory::data_type::f32;
    const memory::desc x({s.n, s.c, s.h, s.w}, type, images), y({s.n, s.k, s.out_h(), s.out_w()}, type, images);
    const memory::desc weights({s.k, s.c, s.r, s.s}, type, tag::any);
    const memory::dims strides = {s.stride_h, s.stride_w}, low = {s.pad_top, s.pad_left};
    const memory::dims high = {s.pad_bottom, s.pad_right};
    const ops::onednn::Target target{.engine = engine_};
    const auto direct = algorithm::convolution_direct;
    const auto forward = ops::onednn::Describe<dnnl::convolution_forward>(target, dnnl::prop_kind::forward_training,
                                                                          direct, x, weights, y, strides, low, high);
    if (of.pass == Pass::kForward) {
      weights_ = forward.weights_desc();
      Make(forward,
           {{DNNL_ARG_SRC, forward.src_desc()}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, forward.dst_desc()}});
    } else if (of.pass == Pass::kBackwardData) {
      const auto desc = ops::onednn::DescribeBackward<dnnl::convolution_backward_data>(target, forward, direct, x,
                                                                                       weights, y, strides, low, high);
      weights_ = desc.weights_desc();
      Make(desc, {{DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                  {DNNL_ARG_WEIGHTS, weights_},
                  {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()}});
    } else {
      const auto desc = ops::onednn::DescribeBackward<dnnl::convolution_backward_weights>(
          target, forward, direct, x, weights, y, strides, low, high);
      weights_ = desc.diff_weights_desc();
      Make(desc, {{DNNL_ARG_SRC, desc.src_desc()},
                  {DNNL_ARG_DIFF_WEIGHTS, weights_},
                  {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()}});
    }
  }
  // Converts weights from the layout of variables to that of a primitive.
  Bare(const Convolution& of, const memory::desc& weights) : stream_(engine_) {
    const memory::desc plain({of.shape.k, of.shape.c, of.shape.r, of.shape.s}, memory::data_type::f32, tag::hwio);
    Make(dnnl::reorder::primitive_desc(engine_, plain, engine_, weights),
         {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, weights}});
  }

  void Run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }
  memory::desc weights() const { return weights_; }

 private:
  void Make(const dnnl::primitive_desc_base& desc, const std::map<int, memory::desc>& arguments) {
    primitive_ = dnnl::primitive(desc.get());
    for (const auto& [argument, of] : arguments) {
      memory& data = arguments_.emplace(argument, memory(of, engine_)).first->second;
      auto* const floats = static_cast<float*>(data.get_data_handle());
      for (size_t i = 0; i < of.get_size() / sizeof(float); ++i) floats[i] = static_cast<float>(i % 7) - 3;
    }
  }

  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
  memory::desc weights_;
};

// One of ours by Winograd's algorithm, with its own memory.
class ByWinograd {
 public:
  explicit ByWinograd(const Convolution& of) : pass_(of.pass), convolution_(of.shape, of.pass) {
    const ops::ConvolutionGeometry& s = of.shape;
    const int64_t sizes[] = {s.n * s.h * s.w * s.c, s.r * s.s * s.c * s.k, s.n * s.out_h() * s.out_w() * s.k};
    for (int i = 0; i < 3; ++i) {
      tensors_[i] = Tensor(DType::kFloat32, {sizes[i]});
      for (int64_t at = 0; at < sizes[i]; ++at) tensors_[i].data<float>()[at] = static_cast<float>(at % 7) - 3;
    }
    workspace_ = Tensor(DType::kUInt8, {static_cast<int64_t>(convolution_.workspace_bytes())});
  }

  void Run() {
    float *const x = tensors_[0].data<float>(), *const w = tensors_[1].data<float>(), *y = tensors_[2].data<float>();
    void* const workspace = workspace_.data<uint8_t>();
    switch (pass_) {
      case Pass::kForward: return convolution_.Forward(x, w, nullptr, false, y, workspace);
      case Pass::kBackwardData: return convolution_.BackwardData(y, w, nullptr, nullptr, x, workspace);
      case Pass::kBackwardWeights: return convolution_.BackwardWeights(x, y, w, nullptr, workspace);
    }
  }

 private:
  const Pass pass_;
  const ops::winograd::Convolution<float> convolution_;
  Tensor tensors_[3], workspace_;  // x, weights and y
};

absl::Status MeasureModel(const std::string& model, Report& report) {
  const int threads = absl::GetFlag(FLAGS_threads);
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run,
                   TrainingRun::Create(
                       {.model = model, .device = {.cpu_threads = threads}, .batch = absl::GetFlag(FLAGS_batch_size)}));
  ASSIGN_OR_RETURN(const std::vector<StepTrace> traces, run->TracedSteps(absl::GetFlag(FLAGS_steps)));
  const Program& program = run->prepared().plan().program;
  double step = 0;
  std::map<std::string, Convolution> convolutions;  // one entry per kind
  for (const NodeTime& time : NodeTimes(run->prepared().plan(), traces)) {
    step += time.seconds;
    Convolution one;
    if (!Describe(program, program.nodes[time.node], one) || one.shape.groups > 1) continue;
    Convolution& alike =
        convolutions.try_emplace(absl::StrCat(one.shape.DebugString(), ", ", PassName(one.pass)), one).first->second;
    ++alike.count;
    alike.seconds += time.seconds;
  }
  const ScopedParallelThreads bare_threads(threads);
  double plan = 0, nhwc = 0, asked = 0, saved = 0, weights = 0, chosen = 0, best = 0;
  for (const auto& [what, of] : convolutions) {
    Bare in_nhwc(of, tag::nhwc), as_asked(of, tag::any);
    Bare reorder(of, as_asked.weights());
    std::vector<Side> sides;
    const auto add = [&](const char* name, auto& primitive) {
      sides.push_back({.name = name, .step = [&primitive] {
                         primitive.Run();
                         return absl::OkStatus();
                       }});
    };
    add("nhwc", in_nhwc);
    add("asked", as_asked);
    add("weights", reorder);
    std::optional<ByWinograd> ours;
    if (ops::winograd::Computes(of.shape, of.pass)) add("winograd", ours.emplace(of));
    RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
    const auto seconds = [&](int side) { return of.count / Median(sides[side].rates); };
    const std::string engine(EngineOf(of.shape, of.pass));
    // Products and direct convolutions have no measurement of their own.
    const bool only_in_plan = engine == "product" || engine == "direct";
    const double ours_seconds = only_in_plan ? of.seconds : seconds(ours ? 3 : 0);
    chosen += only_in_plan || engine == "Winograd" ? ours_seconds : seconds(0);
    best += std::min(seconds(0), ours_seconds);
    plan += of.seconds;
    nhwc += seconds(0);
    asked += seconds(1);
    saved += std::max(0.0, of.seconds - seconds(1));
    weights += seconds(2);
    nlohmann::ordered_json row = {
        {"model", model}, {"convolution", what}, {"count", of.count}, {"plan", engine}, {"plan_ms", of.seconds * 1e3}};
    if (ours) row["winograd_ms"] = seconds(3) * 1e3;
    row.update({{"nhwc_ms", seconds(0) * 1e3}, {"blocked_ms", seconds(1) * 1e3}, {"weights_us", seconds(2) * 1e6}});
    report.Add(std::move(row));
  }
  report.Summarize(absl::StrCat(model, ": the algorithms of the plan take ", ShortNumber(chosen * 1e3),
                                " ms by themselves, the faster of the two for each ", ShortNumber(best * 1e3)));
  report.Summarize(absl::StrCat(
      model, ": convolutions ", ShortNumber(plan * 1e3), " ms of a step of ", ShortNumber(step * 1e3),
      "; oneDNN's in nhwc ", ShortNumber(nhwc * 1e3), ", in its own layouts ", ShortNumber(asked * 1e3),
      "; the faster of plan and own layout for each, reorders of images free: ", ShortNumber(100 * saved / step),
      "% of the step less; reorders of weights: ", ShortNumber(100 * weights / step), "%"));
  return absl::OkStatus();
}

absl::Status Run() {
  const int threads = absl::GetFlag(FLAGS_threads);
  if (threads < 1 || absl::GetFlag(FLAGS_steps) < 1 || absl::GetFlag(FLAGS_rounds) < 1) {
    return absl::InvalidArgumentError("--threads, --steps and --rounds must be at least 1");
  }
  Report report("layouts", absl::StrCat("Convolutions of a training step by algorithm and memory layout, ", threads,
                                        " thread(s), float32; medians"));
  for (const std::string& model : std::vector<std::string>(absl::StrSplit(absl::GetFlag(FLAGS_models), ','))) {
    RETURN_IF_ERROR(MeasureModel(model, report));
  }
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(
      argc, argv, "Compares convolutions by different algorithms and in different memory layouts.",
      belfry::benchmarks::Run);
}
