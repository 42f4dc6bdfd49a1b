#include "trainers/prediction/gpu_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/runtime/trace_report.h"

namespace belfry {
namespace {

constexpr size_t kRows = 20;
constexpr double kHostCopy = 1e10;  // bytes a second that a thread copies

using Sums = std::map<std::string, StepDemand>;

void Add(const Demand& demand, double seconds, StepDemand& sum) {
  sum.launches += demand.launches;
  sum.bytes += demand.bytes;
  sum.flops += demand.flops;
  sum.seconds += seconds;
}

std::string Row(absl::string_view name, const StepDemand& sum, double all) {
  return absl::StrFormat("%-36s %8.0f %10.2f %10.3f %10.1f %6.1f%%\n", name, sum.launches, sum.bytes / 1e6,
                         sum.flops / 1e9, sum.seconds * 1e6, all > 0 ? 100 * sum.seconds / all : 0.0);
}

// Most time first.
std::string Table(absl::string_view title, const Sums& sums, double all) {
  std::vector<std::pair<std::string, StepDemand>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.seconds > b.second.seconds; });
  std::string text = absl::StrFormat("%-36s %8s %10s %10s %10s %7s\n", title, "launches", "MB", "GFLOP", "us", "share");
  StepDemand rest;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i < kRows) {
      absl::StrAppend(&text, Row(rows[i].first, rows[i].second, all));
      continue;
    }
    rest.launches += rows[i].second.launches;
    rest.bytes += rows[i].second.bytes;
    rest.flops += rows[i].second.flops;
    rest.seconds += rows[i].second.seconds;
  }
  if (rows.size() > kRows) absl::StrAppend(&text, Row(absl::StrCat(rows.size() - kRows, " others"), rest, all));
  return text;
}

std::string Comparison(const PredictedStep& step, const Plan& plan, const Plan& unfused, int device,
                       const GpuCard& card) {
  const std::pair<const char*, std::vector<Demand>> peers[] = {
      {"without fusion", FuseStep(unfused, device, kNoFusion)},
      {"by the rules of torch.compile", FuseStep(unfused, device, kTorchCompile)},
      {"with perfect fusion", FusePerfectly(plan, unfused, device)}};
  std::string text = absl::StrFormat("%-36s %8s %10s %10s %10s %7s\n", "Kernels", "launches", "MB", "GFLOP", "us", "");
  absl::StrAppend(&text, Row("of this plan", step.sum, step.sum.seconds));
  for (const auto& [name, demands] : peers) {
    absl::StrAppend(&text, Row(name, SumOf(demands, card), step.sum.seconds));
  }
  return text;
}

}  // namespace

absl::StatusOr<PredictedStep> PredictStep(const Plan& plan, int device, int cards, const GpuCard& card,
                                          const KernelTimes& measured) {
  PredictedStep step;
  for (const ProgramNode& node : plan.program.nodes) {
    Demand& demand = step.demands.emplace_back();
    if (node.device != device || !Runs(node) || node.op->kind == OpKind::kAllReduce) continue;
    demand = DemandOf(plan.program, node);
    const auto known = measured.find(node.name);
    const double seconds = known == measured.end() ? SecondsOf(demand, card) : known->second;
    step.kernels[node.name] = seconds;
    Add(demand, seconds, step.sum);
  }
  const double ring = cards > 1 ? 2 * (cards - 1.0) / cards / (card.link * card.link_share) : 0;
  ASSIGN_OR_RETURN(const StepModel model, MakeStepModel(plan, device, step.kernels));
  ASSIGN_OR_RETURN(const SimulatedStep simulated, SimulateStep(model, [&](double bytes) {
                     const double seconds = card.average + bytes * ring;
                     return CollectiveCost{.seconds = seconds, .beside = seconds};
                   }));
  double fed = 0;
  for (const Value& feed : plan.program.feeds) fed += static_cast<double>(plan.program.spec(feed).bytes());
  step.exposed = simulated.exposed;
  step.host = card.graph_launch + fed / kHostCopy;
  step.step = std::max({simulated.seconds, step.host, fed / (cards * card.host_link)});
  return step;
}

absl::StatusOr<std::string> PredictionText(const Plan& plan, const Plan& unfused, int device, int cards,
                                           const GpuCard& card, const KernelTimes& measured) {
  ASSIGN_OR_RETURN(const PredictedStep step, PredictStep(plan, device, cards, card, measured));
  const auto known = std::count_if(step.kernels.begin(), step.kernels.end(),
                                   [&](const auto& kernel) { return measured.count(kernel.first) > 0; });
  if (!measured.empty() && known == 0) {
    return absl::InvalidArgumentError("the trace names none of the step's kernels; is it of another model?");
  }
  Sums works, layers, ops;
  for (size_t i = 0; i < step.demands.size(); ++i) {
    const ProgramNode& node = plan.program.nodes[i];
    const auto time = step.kernels.find(node.name);
    if (step.demands[i].launches == 0 || time == step.kernels.end()) continue;
    Add(step.demands[i], time->second, works[std::string(WorkName(step.demands[i].work))]);
    Add(step.demands[i], time->second, layers[LayerOf(*node.source)]);
    Add(step.demands[i], time->second, ops[node.op->name]);
  }
  const double all = step.sum.seconds;
  return absl::StrCat(
      absl::StrFormat("Predicted for %d of %s, with measured times of %d in %d kernels: a step takes about %.3f ms\n"
                      "(%.3f ms of kernels, %.3f ms of averaging that nothing hides; the host is busy for %.3f ms)\n\n",
                      cards, card.model, known, step.kernels.size(), step.step * 1e3, all * 1e3, step.exposed * 1e3,
                      step.host * 1e3),
      Comparison(step, plan, unfused, device, card), "\n", Table("Work", works, all), "\n", Table("Layer", layers, all),
      "\n", Table("Op", ops, all));
}

}  // namespace belfry
