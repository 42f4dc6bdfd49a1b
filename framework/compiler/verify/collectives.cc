#include "framework/compiler/verify/collectives_impl.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/compiler/verify/places_impl.h"

namespace belfry::verify {
namespace {

// The inputs of a collective are, rank by rank, a weight and the values; the outputs are the values. The values of a
// rank are one range of memory, each aligned.
absl::Status CheckOperands(const Plan& plan, int node) {
  const ProgramNode& collective = plan.program.nodes[node];
  const size_t ranks = collective.ranks.size();
  if (ranks == 0 || collective.outputs.size() % ranks != 0 ||
      collective.inputs.size() != collective.outputs.size() + ranks) {
    return Flaw(collective, "has inputs and outputs that its ranks do not share");
  }
  const size_t values = collective.outputs.size() / ranks;
  for (size_t rank = 0; rank < ranks; ++rank) {
    Place last;
    for (size_t k = 0; k < values; ++k) {
      const int output = static_cast<int>(rank * values + k);
      const Place from = PlaceOf(plan, collective.inputs[rank * (values + 1) + 1 + k]),
                  to = PlaceOf(plan, {node, output});
      if (from.space != to.space || !(from.range == to.range)) {
        return Flaw(collective, absl::StrCat("does not leave output ", output, " where its input is"));
      }
      // Nothing of another tensor fits between two that are neighbours.
      if (k > 0 && (last.space != from.space || from.range.begin < last.range.end ||
                    from.range.begin - last.range.end >= kAlignment)) {
        return Flaw(collective, absl::StrCat("has values ", k - 1, " and ", k, " that do not lie side by side"));
      }
      last = from;
    }
  }
  return absl::OkStatus();
}

// The node does what the graph's nodes of its ranks do.
absl::Status CheckRanks(const Program& program, const ProgramNode& node, const GraphRanks& graph) {
  const int64_t size = program.collectives[node.collective].size;
  const size_t values = node.outputs.size() / node.ranks.size();
  for (size_t i = 0; i < node.ranks.size(); ++i) {
    const int64_t rank = node.ranks[i];
    if (rank < 0 || rank >= size) return Flaw(node, absl::StrCat("is rank ", rank, " of ", size));
    if (i > 0 && rank <= node.ranks[i - 1]) return Flaw(node, "has ranks that do not ascend");
    const auto found = graph.find(rank);
    if (found == graph.end()) return Flaw(node, absl::StrCat("is rank ", rank, ", which the graph does not have"));
    const Attrs& attrs = found->second->attrs();
    if (attrs.Int("size") != size) {
      return Flaw(node, absl::StrCat("is one of ", size, " ranks, and of ", attrs.Int("size"), " in the graph"));
    }
    if (attrs.String("reduction") != node.attrs.String("reduction")) {
      return Flaw(node, absl::StrCat("computes '", node.attrs.String("reduction"), "', and in the graph '",
                                     attrs.String("reduction"), "'"));
    }
    if (found->second->outputs().size() != values) {
      return Flaw(
          node, absl::StrCat("has ", values, " values a rank, and ", found->second->outputs().size(), " in the graph"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<GraphRanks> RanksOfGraph(const Program& program) {
  std::vector<GraphRanks> ranks(program.collectives.size());
  if (ranks.empty() || program.nodes.empty()) return ranks;
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < ranks.size(); ++i) by_name[program.collectives[i].name] = i;
  const Graph& graph = program.nodes[0].source->graph();
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op().kind != OpKind::kAllReduce) continue;
    const auto found = by_name.find(node.attrs().String("group"));
    if (found != by_name.end()) ranks[found->second][node.attrs().Int("rank")] = &node;
  }
  return ranks;
}

absl::StatusOr<CollectiveFacts> CheckCollectives(const Plan& plan, const std::vector<GraphRanks>& graph) {
  const Program& program = plan.program;
  CollectiveFacts facts;
  facts.nodes.assign(program.collectives.size(), 0);
  std::vector<std::set<int64_t>> ranks(program.collectives.size());
  for (int i = 0; i < static_cast<int>(program.nodes.size()); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (node.op->kind != OpKind::kAllReduce) continue;
    const int group = node.collective;
    if (group < 0 || group >= static_cast<int>(ranks.size())) return Flaw(node, "belongs to no collective");
    RETURN_IF_ERROR(CheckOperands(plan, i));
    RETURN_IF_ERROR(CheckRanks(program, node, graph[group]));
    for (const int64_t rank : node.ranks) {
      if (!ranks[group].insert(rank).second) {
        return Flaw(node, absl::StrCat("is rank ", rank, ", which is there twice"));
      }
    }
    facts.collectives += facts.nodes[group]++ == 0;
    facts.ranks += static_cast<int64_t>(node.ranks.size());
  }
  for (size_t group = 0; group < ranks.size(); ++group) {
    for (const auto& [rank, node] : graph[group]) {
      if (ranks[group].count(rank) > 0 || node->attrs().Int("size") == 1) continue;
      return Wrong(absl::StrCat("collective ", program.collectives[group].name, " leaves out rank ", rank,
                                ", which is '", node->name(), "' in the graph"));
    }
  }
  // Collectives of one size are of the same towers, so those of this process are the same.
  std::map<int64_t, size_t> first;  // by size
  for (size_t group = 0; group < ranks.size(); ++group) {
    if (ranks[group].empty()) continue;
    const size_t other = first.try_emplace(program.collectives[group].size, group).first->second;
    if (ranks[other] == ranks[group]) continue;
    return Wrong(absl::StrCat("collective ", program.collectives[group].name, " has ", ranks[group].size(),
                              " ranks here, and ", program.collectives[other].name, " has others"));
  }
  return facts;
}

}  // namespace belfry::verify
