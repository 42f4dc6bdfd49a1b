#include <algorithm>
#include <map>

#include "framework/compiler/plan.h"

namespace belfry {
namespace {

// Some ranks of the collective are on other devices.
bool MeetsOthers(const Program& program, const ProgramNode& node) {
  return node.op->kind == OpKind::kAllReduce &&
         static_cast<int64_t>(node.ranks.size()) < program.collectives[node.collective].size;
}

// Feeds that other devices read, for which they have to wait. The host fills in those of CPUs before the step begins.
std::vector<bool> FeedsToWaitFor(const Program& program, const DeviceSet& devices) {
  std::vector<bool> feeds(program.nodes.size());
  for (const ProgramNode& node : program.nodes) {
    for (const Value& input : node.inputs) {
      const int root = Root(program, input).node;
      const ProgramNode& from = program.nodes[root];
      if (from.op != &FeedOp() || from.device == node.device) continue;
      feeds[root] = devices.device(from.device).asynchronous();
    }
  }
  return feeds;
}

}  // namespace

bool Runs(const ProgramNode& node) { return node.op->kind == OpKind::kKernel || node.op->kind == OpKind::kAllReduce; }

void AssignStreams(Plan& plan, const DeviceSet& devices) {
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  const std::vector<bool> feeds = FeedsToWaitFor(plan.program, devices);
  std::map<std::pair<StreamKind, int>, int> stream_of;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ProgramNode& node = nodes[i];
    if (!Runs(node) && !feeds[i]) continue;
    stream_of[{StreamKind::kCompute, node.device}] = 0;
    if (MeetsOthers(plan.program, node)) stream_of[{StreamKind::kCollective, node.device}] = 0;
  }
  for (auto& [key, index] : stream_of) {
    index = static_cast<int>(plan.streams.size());
    plan.streams.push_back({.device = key.second, .kind = key.first});
  }

  // needs[i][t]: the last node of stream t that must be done before node i is. Streams run their nodes in index order,
  // so one number stands for all before it.
  const size_t streams = plan.streams.size();
  std::vector<std::vector<int>> needs(nodes.size(), std::vector<int>(streams, -1));
  std::vector<std::vector<int>> waited(streams, std::vector<int>(streams, -1));
  std::vector<int> event_of(nodes.size(), -1);
  std::vector<std::vector<std::pair<int, int>>> waits(nodes.size());  // (event's node, stream)
  std::vector<int> own_stream(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<int>& need = needs[i];
    const auto depend = [&](int on) {
      if (own_stream[on] >= 0) {
        need[own_stream[on]] = std::max(need[own_stream[on]], on);
      } else {
        for (size_t t = 0; t < streams; ++t) need[t] = std::max(need[t], needs[on][t]);
      }
    };
    for (const Value& input : nodes[i].inputs) depend(input.node);
    for (int control : nodes[i].control_inputs) depend(control);
    if (!Runs(nodes[i]) && !feeds[i]) continue;
    const StreamKind kind = MeetsOthers(plan.program, nodes[i]) ? StreamKind::kCollective : StreamKind::kCompute;
    const int own = own_stream[i] = stream_of.at({kind, nodes[i].device});
    for (size_t t = 0; t < streams; ++t) {
      if (static_cast<int>(t) == own || need[t] <= waited[own][t]) continue;
      waited[own][t] = need[t];
      if (event_of[need[t]] < 0) event_of[need[t]] = plan.events++;
      waits[i].push_back({need[t], static_cast<int>(t)});
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (own_stream[i] < 0) continue;
    std::vector<Instruction>& instructions = plan.streams[own_stream[i]].instructions;
    for (const auto& [node, stream] : waits[i]) instructions.push_back({Instruction::Kind::kWait, event_of[node]});
    if (Runs(nodes[i])) {
      instructions.push_back(
          {MeetsOthers(plan.program, nodes[i]) ? Instruction::Kind::kCollective : Instruction::Kind::kRun,
           static_cast<int>(i)});
    }
    if (event_of[i] >= 0) instructions.push_back({Instruction::Kind::kRecord, event_of[i]});
  }
}

}  // namespace belfry
