#include "benchmarks/kernel_shares.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/machine.h"
#include "benchmarks/step_times.h"

namespace belfry::benchmarks {
namespace {

struct Kernels {
  int count = 0;
  double seconds = 0, flops = 0, bytes = 0;  // of all of them together
};

}  // namespace

Limits MeasureLimits(int threads, DType dtype) {
  const bool narrow = dtype == DType::kBFloat16;
  const double peak = narrow ? BFloat16Peak(threads) : FmaPeak(threads);
  return {narrow ? dtype : DType::kFloat32, peak, Triad(threads).Bandwidth()};
}

std::string Text(const Limits& limits) {
  return absl::StrCat("measured peak ", ShortNumber(limits.peak / 1e9), " GFLOP/s of ", DTypeName(limits.dtype),
                      ", measured triad ", ShortNumber(limits.triad / 1e9),
                      " GB/s. The limit is the larger share of the two");
}

void AddKernels(const std::string& model, const Plan& plan, absl::Span<const StepTrace> steps, const Limits& limits,
                double least, Report& report) {
  double all = 0, flops = 0;
  std::map<std::vector<std::string>, Kernels> kernels;  // equal kernels together, by op and shapes
  for (const NodeTime& time : NodeTimes(plan, steps)) {
    all += time.seconds;
    flops += time.flops;
    const ProgramNode& node = plan.program.nodes[time.node];
    std::vector<std::string> key = {node.op->name, node.outputs.empty() ? "" : node.outputs[0].ToString()};
    for (const Value& input : node.inputs) key.push_back(plan.program.spec(input).ToString());
    Kernels& alike = kernels[key];
    ++alike.count;
    alike.seconds += time.seconds;
    alike.flops += time.flops;
    alike.bytes += time.bytes;
  }
  std::vector<std::pair<std::vector<std::string>, Kernels>> rows(kernels.begin(), kernels.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [key, alike] : rows) {
    if (alike.seconds < least * all) break;
    const double of_peak = alike.flops / alike.seconds / limits.peak;
    const double of_triad = alike.bytes / alike.seconds / limits.triad;
    report.Add({{"model", model},
                {"op", key[0]},
                {"input", key.size() > 2 ? key[2] : ""},
                {"output", key[1]},
                {"count", alike.count},
                {"us", alike.seconds / alike.count * 1e6},
                {"share", alike.seconds / all},
                {"GFLOP/s", alike.flops / alike.seconds / 1e9},
                {"of_peak", of_peak},
                {"GB/s", alike.bytes / alike.seconds / 1e9},
                {"of_triad", of_triad},
                {"of_limit", std::max(of_peak, of_triad)}});
  }
  report.Summarize(absl::StrCat(model, ": kernels of a step at ", ShortNumber(flops / all / 1e9), " GFLOP/s, ",
                                ShortNumber(100 * flops / all / limits.peak), "% of the measured peak of ",
                                ShortNumber(limits.peak / 1e9)));
}

}  // namespace belfry::benchmarks
