#include "trainers/prediction/fused_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "framework/base/memory/hash_table.h"

namespace belfry {
namespace {

bool IsExtern(Work work) { return work == Work::kProduct || work == Work::kConvolution || work == Work::kAttention; }

// One kernel. It runs at the place of its first node.
struct Group {
  Work work = Work::kElementwise;  // the heaviest of its nodes'
  std::vector<int> nodes;
};

class StepFuser {
 public:
  StepFuser(const Plan& plan, int device, const FusionRules& rules)
      : program_(plan.program), device_(device), rules_(rules), group_of_(program_.nodes.size(), -1) {}

  std::vector<Demand> Run() {
    FindReaders();
    for (int i = 0; i < static_cast<int>(program_.nodes.size()); ++i) {
      const ProgramNode& node = program_.nodes[i];
      if (node.device != device_ || !belfry::Runs(node) || node.op->kind == OpKind::kAllReduce) continue;
      const Work work = WorkOf(*node.op);
      const int last = LastOperand(i);
      if (last >= 0 && MayJoin(work, groups_[last].work)) {
        group_of_[i] = last;
        Group& group = groups_[last];
        if (group.work == Work::kElementwise) group.work = work;
        group.nodes.push_back(i);
      } else {
        group_of_[i] = static_cast<int>(groups_.size());
        groups_.push_back({work, {i}});
      }
    }
    std::vector<Demand> demands;
    for (int group = 0; group < static_cast<int>(groups_.size()); ++group) demands.push_back(DemandOfGroup(group));
    ShareLaunches(demands);
    return demands;
  }

 private:
  void FindReaders() {
    readers_.resize(program_.nodes.size());
    for (int i = 0; i < static_cast<int>(program_.nodes.size()); ++i) {
      for (size_t k = 0; k < program_.nodes[i].inputs.size(); ++k) {
        if (InputArg(program_.nodes[i], static_cast<int>(k)).shape_only) continue;
        readers_[Root(program_, program_.nodes[i].inputs[k]).node].push_back(i);
      }
    }
    for (const Value& fetch : program_.fetches) fetched_.insert(Root(program_, fetch).node);
  }

  // The group that makes the last operand of node i, or -1. Groups are numbered in the order in which they run.
  int LastOperand(int i) const {
    int last = -1;
    for (const Value& input : program_.nodes[i].inputs) last = std::max(last, group_of_[Root(program_, input).node]);
    return last;
  }

  bool MayJoin(Work work, Work other) const {
    if (!rules_.elementwise) return false;
    const auto allows = [&](Work one) {
      return IsExtern(one) ? rules_.products : one == Work::kReduction ? rules_.reductions : true;
    };
    const bool light = work == Work::kElementwise || work == Work::kUpdate;
    const bool other_light = other == Work::kElementwise;
    return other != Work::kUpdate && (light ? allows(other) : other_light && allows(work));
  }

  bool IsSeenOutside(int i, int group) const {
    return fetched_.contains(i) ||
           std::any_of(readers_[i].begin(), readers_[i].end(), [&](int reader) { return group_of_[reader] != group; });
  }

  // The number of times that each node of a group is computed, since a reduction that reads it several times stores it
  // nowhere.
  std::map<int, double> TimesComputed(int index) const {
    std::map<int, double> times;
    const std::vector<int>& nodes = groups_[index].nodes;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const double own = std::max(times[*node], 1.0);
      times[*node] = own;
      const std::vector<Value>& inputs = program_.nodes[*node].inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const int root = Root(program_, inputs[k]).node;
        if (group_of_[root] != index) continue;
        times[root] = std::max(times[root], own * ReadsOf(*program_.nodes[*node].op, static_cast<int>(k)));
      }
    }
    return times;
  }

  Demand DemandOfGroup(int index) const {
    const Group& group = groups_[index];
    Demand sum{.work = group.work};
    std::map<std::pair<int, int>, double> reads;  // by value outside of the group: bytes
    const std::map<int, double> times = TimesComputed(index);
    for (const int i : group.nodes) {
      const ProgramNode& node = program_.nodes[i];
      const Demand of = DemandOf(program_, node);
      // Libraries take the layouts that others keep filters in.
      sum.launches = std::max(sum.launches, IsExtern(of.work) && of.m > 0 ? 1.0 : of.launches);
      sum.flops += of.flops;
      if (of.m > 0 || IsExtern(of.work)) {
        sum.m = of.m, sum.n = of.n, sum.k = of.k, sum.batch = of.batch, sum.dtype = of.dtype;
      }
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ArgDef& arg = InputArg(node, static_cast<int>(k));
        const Value root = Root(program_, node.inputs[k]);
        if (arg.shape_only || group_of_[root.node] == index) continue;
        const auto size = static_cast<double>(program_.spec(node.inputs[k]).bytes());
        double& read = reads[{root.node, root.index}];
        const double often = arg.overwrites ? 0 : times.at(i) * ReadsOf(*node.op, static_cast<int>(k));
        read = std::max(read, size * often);
        if (arg.ref) sum.bytes += size;
      }
      if (WorkOf(*node.op) == Work::kUpdate || !IsSeenOutside(i, index)) continue;
      for (const TensorSpec& output : node.outputs) sum.bytes += static_cast<double>(output.bytes());
      if (node.op->name == "Gather") sum.bytes += static_cast<double>(node.outputs[0].bytes());
    }
    for (const auto& [value, bytes] : reads) sum.bytes += bytes;
    return sum;
  }

  // Updates by one op go together.
  void ShareLaunches(std::vector<Demand>& demands) const {
    std::map<std::string, double> updates;
    for (const Group& group : groups_) {
      if (group.work == Work::kUpdate) ++updates[program_.nodes[group.nodes.back()].op->name];
    }
    for (size_t i = 0; i < demands.size(); ++i) {
      if (groups_[i].work != Work::kUpdate) continue;
      const double all = updates[program_.nodes[groups_[i].nodes.back()].op->name];
      demands[i].launches *= std::ceil(all / kUpdatesAtOnce) / all;
    }
  }

  const Program& program_;
  const int device_;
  const FusionRules rules_;
  std::vector<int> group_of_;  // by node
  std::vector<std::vector<int>> readers_;
  HashSet<int> fetched_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<Demand> FuseStep(const Plan& plan, int device, const FusionRules& rules) {
  return StepFuser(plan, device, rules).Run();
}

std::vector<Demand> FusePerfectly(const Plan& plan, const Plan& unfused, int device) {
  const auto bytes = [](const std::vector<Demand>& demands) {
    double sum = 0;
    for (const Demand& demand : demands) sum += demand.bytes;
    return sum;
  };
  std::vector<Demand> best = FuseStep(plan, device, kNoFusion);
  for (const Plan* of : {&plan, &unfused}) {
    std::vector<Demand> fused = FuseStep(*of, device, kPerfectFusion);
    if (bytes(fused) < bytes(best)) best = std::move(fused);
  }
  return best;
}

StepDemand SumOf(const std::vector<Demand>& demands, const GpuCard& card) {
  StepDemand sum;
  for (const Demand& demand : demands) {
    sum.launches += demand.launches;
    sum.bytes += demand.bytes;
    sum.flops += demand.flops;
    sum.seconds += SecondsOf(demand, card);
  }
  return sum;
}

}  // namespace belfry
