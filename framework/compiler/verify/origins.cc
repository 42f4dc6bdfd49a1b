#include "framework/compiler/verify/origins_impl.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/compiler/verify/places_impl.h"

namespace belfry::verify {
namespace {

struct Origin {
  enum class Kind { kFeed, kVariables, kResult };
  Kind kind;
  int64_t of;        // the tower of a feed, or -1; the replica of variables; the collective
  int64_t which{0};  // the node of a feed of no tower; the rank
  bool operator<(const Origin& other) const {
    return std::tie(kind, of, which) < std::tie(other.kind, other.of, other.which);
  }
};

// Sets of origins, by number.
class OriginSets {
 public:
  // Adds an origin. REQUIRES: there is no set yet.
  void Define(const Origin& origin) {
    if (numbers_.try_emplace(origin, static_cast<int>(origins_.size())).second) origins_.push_back(origin);
  }
  void Freeze() {
    words_ = origins_.size() / 64 + 1;
    flows_.assign(words_, 0);
    for (size_t i = 0; i < origins_.size(); ++i) {
      if (origins_[i].kind != Origin::Kind::kVariables) flows_[i / 64] |= uint64_t{1} << (i % 64);
    }
  }
  int NewSet() {
    bits_.resize(bits_.size() + words_, 0);
    return static_cast<int>(bits_.size() / words_) - 1;
  }
  void Add(int set, const Origin& origin) {
    const int number = numbers_.at(origin);
    Words(set)[number / 64] |= uint64_t{1} << (number % 64);
  }
  void AddAll(int set, int other) {
    for (size_t w = 0; w < words_; ++w) Words(set)[w] |= Words(other)[w];
  }
  // An origin that `set` has and `other` lacks. `all`: variables, too.
  std::optional<Origin> Beyond(int set, int other, bool all) const {
    for (size_t w = 0; w < words_; ++w) {
      const uint64_t beyond = Words(set)[w] & ~Words(other)[w] & (all ? ~uint64_t{0} : flows_[w]);
      if (beyond != 0) return origins_[w * 64 + static_cast<size_t>(__builtin_ctzll(beyond))];
    }
    return std::nullopt;
  }
  // The collectives among the origins.
  std::set<int64_t> Collectives(int set) const {
    std::set<int64_t> collectives;
    for (size_t i = 0; i < origins_.size(); ++i) {
      const bool has = (Words(set)[i / 64] >> (i % 64) & 1) != 0;
      if (has && origins_[i].kind == Origin::Kind::kResult) collectives.insert(origins_[i].of);
    }
    return collectives;
  }

 private:
  uint64_t* Words(int set) { return bits_.data() + static_cast<size_t>(set) * words_; }
  const uint64_t* Words(int set) const { return bits_.data() + static_cast<size_t>(set) * words_; }

  std::map<Origin, int> numbers_;
  std::vector<Origin> origins_;
  size_t words_ = 1;
  std::vector<uint64_t> flows_;  // feeds and results
  std::vector<uint64_t> bits_;
};

// The origins of the graph's outputs, in a step that is given some of them.
class GraphOrigins {
 public:
  GraphOrigins(const Graph& graph, OriginSets& sets) : graph_(graph), sets_(sets), of_(graph.size(), -1) {}

  void Feed(const Node& node, const Origin& origin) { feeds_.emplace(&node, origin); }
  void Collective(const Node& node, const Origin& origin) { collectives_.emplace(&node, origin); }

  int Of(const Output& output) { return Of(*Source(output).node); }
  // Bound placeholders stand for nodes of larger ids, so ids are not the order.
  int Of(const Node& node) {
    std::vector<const Node*> stack = {&node};
    while (!stack.empty()) {
      const Node& top = *stack.back();
      if (of_[top.id()] >= 0 || Visit(top, stack)) stack.pop_back();
    }
    return of_[node.id()];
  }

 private:
  // The origin of `output`: the value of a bound placeholder, or the operand of a collective of one rank.
  Output Source(Output output) const {
    while (feeds_.count(output.node) == 0) {
      const Node& node = *output.node;
      if (node.op().kind == OpKind::kPlaceholder && graph_.BoundValue(node).valid()) {
        output = graph_.BoundValue(node);
      } else if (node.op().kind == OpKind::kAllReduce && node.attrs().Int("size") == 1) {
        output = node.input(output.index + 1);
      } else {
        break;
      }
    }
    return output;
  }
  // Finds the set of a node, or else pushes what it needs for that.
  bool Visit(const Node& node, std::vector<const Node*>& stack) {
    const size_t before = stack.size();
    std::optional<Origin> origin;
    std::vector<int> inputs;
    if (const auto fed = feeds_.find(&node); fed != feeds_.end()) {
      origin = fed->second;
    } else if (const auto meets = collectives_.find(&node); meets != collectives_.end()) {
      origin = meets->second;
    } else if (node.op().kind == OpKind::kVariable) {
      origin = Origin{Origin::Kind::kVariables, graph_.VariableOf(node).replica()};
    } else {
      for (int k = 0; k < static_cast<int>(node.inputs().size()); ++k) {
        if (node.op().input_arg(k).shape_only) continue;
        const Node& source = *Source(node.input(k)).node;
        if (of_[source.id()] < 0) stack.push_back(&source);
        inputs.push_back(of_[source.id()]);
      }
      if (stack.size() > before) return false;
    }
    const int set = of_[node.id()] = sets_.NewSet();
    if (origin.has_value()) sets_.Add(set, *origin);
    for (const int input : inputs) sets_.AddAll(set, input);
    return true;
  }

  const Graph& graph_;
  OriginSets& sets_;
  std::map<const Node*, Origin> feeds_, collectives_;
  std::vector<int> of_;  // by id; -1: not known yet
};

// The variable that a node of the graph updates; null if it updates none.
const Node* UpdatedBy(const Node& node) {
  for (int k = 0; k < static_cast<int>(node.inputs().size()); ++k) {
    if (!node.op().input_arg(k).ref) continue;
    const Node* variable = node.input(k).node;
    while (variable->op().kind == OpKind::kView) variable = variable->input(0).node;
    return variable->op().kind == OpKind::kVariable ? variable : nullptr;
  }
  return nullptr;
}

class Checker {
 public:
  Checker(const Program& program, const std::vector<GraphRanks>& ranks)
      : program_(program),
        ranks_(ranks),
        graph_(program.nodes[0].source->graph()),
        of_graph_(program.nodes[0].source->graph(), sets_) {}

  absl::StatusOr<int64_t> Run() {
    Define();
    for (int i = 0; i < static_cast<int>(program_.nodes.size()); ++i) RETURN_IF_ERROR(Visit(i));
    return CheckCopies();
  }

 private:
  Origin OriginOfFeed(Value feed) const {
    const int tower = program_.nodes[feed.node].source->tower();
    return {Origin::Kind::kFeed, tower, tower >= 0 ? 0 : feed.node};
  }
  void Define() {
    for (const Value& feed : program_.feeds) sets_.Define(OriginOfFeed(feed));
    for (const Variable& variable : graph_.variables()) {
      sets_.Define({Origin::Kind::kVariables, variable.replica()});
    }
    for (size_t c = 0; c < ranks_.size(); ++c) {
      for (const auto& [rank, node] : ranks_[c]) {
        const Origin origin{Origin::Kind::kResult, static_cast<int64_t>(c), rank};
        sets_.Define(origin);
        if (program_.collectives[c].size > 1) of_graph_.Collective(*node, origin);
      }
    }
    sets_.Freeze();
    for (const Value& feed : program_.feeds) {
      of_graph_.Feed(*program_.nodes[feed.node].source, OriginOfFeed(feed));
    }
    none_ = sets_.NewSet();
    of_.resize(program_.nodes.size());
  }

  std::string Describe(const Origin& origin) const {
    switch (origin.kind) {
      case Origin::Kind::kFeed:
        return origin.of >= 0 ? absl::StrCat("feeds of tower ", origin.of)
                              : absl::StrCat("feed '", program_.nodes[origin.which].name, "'");
      case Origin::Kind::kVariables: return absl::StrCat("variables of replica ", origin.of);
      case Origin::Kind::kResult:
        return absl::StrCat("rank ", origin.which, " of collective ", program_.collectives[origin.of].name);
    }
    return "";
  }

  absl::Status Visit(int index) {
    const ProgramNode& node = program_.nodes[index];
    std::vector<int>& outputs = of_[index];
    outputs.assign(node.outputs.size(), none_);
    switch (node.op->kind) {
      case OpKind::kPlaceholder: return SetAll(outputs, OriginOfFeed({index, 0}));
      case OpKind::kVariable:
        Add(*node.source, used_);
        return SetAll(outputs, {Origin::Kind::kVariables, graph_.VariableOf(*node.source).replica()});
      case OpKind::kConst:
      case OpKind::kNoOp: return absl::OkStatus();
      case OpKind::kAllReduce: return VisitCollective(node, outputs);
      case OpKind::kKernel:
      case OpKind::kView: break;
    }
    std::vector<int> inputs;
    for (const Value& input : node.inputs) inputs.push_back(of_[input.node][input.index]);
    if (node.op == &JoinedOp() || node.op == &UpdatesOp()) {
      auto input = inputs.begin();
      size_t output = 0;
      for (const ProgramNode& member : node.body) {
        const std::vector<int> own(input, input + static_cast<ptrdiff_t>(member.inputs.size()));
        ASSIGN_OR_RETURN(const std::vector<int> results, VisitKernel(member, own));
        // An UpdatesOp() has no outputs, though its members do.
        for (const int result : results) {
          if (output < outputs.size()) outputs[output++] = result;
        }
        input += static_cast<ptrdiff_t>(member.inputs.size());
      }
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(outputs, VisitKernel(node, inputs));
    return absl::OkStatus();
  }
  void Add(const Node& variable, std::map<std::string, std::set<int>>& replicas) const {
    const Variable added = graph_.VariableOf(variable);
    if (added.trainable()) replicas[added.name()].insert(added.replica());
  }
  absl::Status SetAll(std::vector<int>& outputs, const Origin& origin) {
    const int set = sets_.NewSet();
    sets_.Add(set, origin);
    outputs.assign(outputs.size(), set);
    return absl::OkStatus();
  }

  // Returns the sets of the outputs. An element-wise node's depend on what their members read.
  absl::StatusOr<std::vector<int>> VisitKernel(const ProgramNode& node, const std::vector<int>& inputs) {
    if (node.op != &ElementwiseOp()) {
      const int set = sets_.NewSet();
      for (int k = 0; k < static_cast<int>(inputs.size()); ++k) {
        if (!node.op->input_arg(k).shape_only) sets_.AddAll(set, inputs[k]);
      }
      RETURN_IF_ERROR(CheckOp(node, set));
      return std::vector<int>(node.outputs.size(), set);
    }
    std::vector<int> members, results;
    for (const ProgramNode& member : node.body) {
      const int set = sets_.NewSet();
      for (const Value& input : member.inputs) {
        if (input.node >= 0) {
          sets_.AddAll(set, members[input.node]);
        } else if (input.index >= 0) {
          sets_.AddAll(set, inputs[input.index]);
        }
      }
      RETURN_IF_ERROR(CheckOp(member, set));
      members.push_back(set);
    }
    for (const int result : node.results) results.push_back(members[result]);
    return results;
  }

  // Passes keep an op's meaning if they keep the op and its name: what it depends on in the graph. One that stands for
  // a part of another has a name of its own.
  absl::Status CheckOp(const ProgramNode& node, int set) {
    const Node& source = *node.source;
    const Node* const variable = UpdatedBy(source);
    if (variable != nullptr) Add(*variable, updated_);
    if (node.op != &source.op() || node.name != source.name()) return absl::OkStatus();
    const int expected = of_graph_.Of(source);
    if (const auto missing = sets_.Beyond(expected, set, /*all=*/false)) {
      return Flaw(node, absl::StrCat("does not depend on ", Describe(*missing), ", as it does in the graph"));
    }
    if (variable == nullptr) return absl::OkStatus();
    if (const auto more = sets_.Beyond(set, expected, /*all=*/false)) {
      return Flaw(node, absl::StrCat("depends on ", Describe(*more), ", which it does not in the graph"));
    }
    const Variable updated = graph_.VariableOf(*variable);
    if (updated.trainable() && source.phase() == Phase::kUpdate) {
      std::set<int64_t>& by = copies_[updated.name()][updated.replica()];
      for (const int64_t collective : sets_.Collectives(expected)) by.insert(collective);
    }
    return absl::OkStatus();
  }

  absl::Status VisitCollective(const ProgramNode& node, std::vector<int>& outputs) {
    const size_t values = node.outputs.size() / node.ranks.size();
    for (size_t i = 0; i < node.ranks.size(); ++i) {
      const Node& source = *ranks_[node.collective].at(node.ranks[i]);
      for (size_t k = 0; k <= values; ++k) {
        RETURN_IF_ERROR(
            CheckOperand(node, node.ranks[i], node.inputs[i * (values + 1) + k], source.input(static_cast<int>(k))));
      }
      const int set = sets_.NewSet();
      sets_.Add(set, {Origin::Kind::kResult, node.collective, node.ranks[i]});
      for (size_t k = 0; k < values; ++k) outputs[i * values + k] = set;
    }
    return absl::OkStatus();
  }
  absl::Status CheckOperand(const ProgramNode& node, int64_t rank, Value value, const Output& source) {
    const int set = of_[value.node][value.index], expected = of_graph_.Of(source);
    const std::string what = absl::StrCat("reads '", program_.nodes[value.node].name, "' for rank ", rank);
    if (const auto more = sets_.Beyond(set, expected, /*all=*/true)) {
      return Flaw(node, absl::StrCat(what, ", which depends on ", Describe(*more), ", and '", source.name(),
                                     "' in the graph does not"));
    }
    if (const auto missing = sets_.Beyond(expected, set, /*all=*/false)) {
      return Flaw(node, absl::StrCat(what, ", which does not depend on ", Describe(*missing), ", and '", source.name(),
                                     "' in the graph does"));
    }
    while (program_.nodes[value.node].op == &CopyOp()) value = program_.nodes[value.node].inputs[0];
    const ProgramNode& from = program_.nodes[value.node];
    const int tower = from.source->tower(), own = source.node->tower();
    // Equal nodes of towers that share a device have been merged, so that one may stand for the other.
    const bool shared = from.device != node.device || absl::c_any_of(node.ranks, [&](int64_t other) {
                          return other != rank && ranks_[node.collective].at(other)->tower() == tower;
                        });
    if (tower >= 0 && own >= 0 && tower != own && !shared) {
      return Flaw(node, absl::StrCat(what, ", which belongs to tower ", tower, " and not ", own));
    }
    return absl::OkStatus();
  }

  const std::string& Reduction(int64_t collective) const {
    return ranks_[collective].begin()->second->attrs().String("reduction");
  }
  // A copy that the step reads and leaves as it is, while averages update another.
  absl::Status CheckAllUpdated(const std::string& name, int64_t collective) const {
    for (const int replica : used_.at(name)) {
      if (updated_.at(name).count(replica) > 0) continue;
      return Wrong(absl::StrCat("a copy of variable '", name, "' is updated by collective ",
                                program_.collectives[collective].name, ", and that of replica ", replica,
                                ", which the step reads, by nothing"));
    }
    return absl::OkStatus();
  }
  // Copies that are sent from one to the others differ in how they are made.
  absl::StatusOr<int64_t> CheckCopies() const {
    int64_t averaged = 0;
    for (const auto& [name, copies] : copies_) {
      const auto& [first, by] = *copies.begin();
      for (const auto& [replica, also] : copies) {
        averaged += also.empty() ? 0 : 1;
        const auto sent = [&](int64_t collective) { return Reduction(collective) == "broadcast"; };
        if (absl::c_any_of(by, sent) || absl::c_any_of(also, sent)) continue;
        for (const bool lacks : {true, false}) {
          for (const int64_t collective : lacks ? by : also) {
            if ((lacks ? also : by).count(collective) > 0) continue;
            return Wrong(absl::StrCat("the update of variable '", name, "' depends on collective ",
                                      program_.collectives[collective].name, " in replica ", lacks ? first : replica,
                                      ", and not in replica ", lacks ? replica : first));
          }
        }
      }
      if (!by.empty()) RETURN_IF_ERROR(CheckAllUpdated(name, *by.begin()));
      for (const int64_t collective : by) {
        if (ranks_[collective].size() >= copies.size() || Reduction(collective) == "broadcast") continue;
        return Wrong(absl::StrCat("the ", copies.size(), " copies of variable '", name, "' depend on collective ",
                                  program_.collectives[collective].name, ", which has ", ranks_[collective].size(),
                                  " of their towers"));
      }
    }
    return averaged;
  }

  const Program& program_;
  const std::vector<GraphRanks>& ranks_;
  const Graph& graph_;
  OriginSets sets_;
  GraphOrigins of_graph_;
  int none_ = 0;
  std::vector<std::vector<int>> of_;  // by node, by output
  // The replicas of each trained variable that the step uses, and those that it updates in any way.
  std::map<std::string, std::set<int>> used_, updated_;
  // The collectives that the updates of each trained variable and replica depend on.
  std::map<std::string, std::map<int, std::set<int64_t>>> copies_;
};

}  // namespace

absl::StatusOr<int64_t> CheckOrigins(const Program& program, const std::vector<GraphRanks>& ranks) {
  if (program.nodes.empty()) return 0;
  for (const Value& feed : program.feeds) {
    // Nodes do not tell which of several outputs is fed.
    if (program.nodes[feed.node].source->outputs().size() > 1) return -1;
  }
  return Checker(program, ranks).Run();
}

}  // namespace belfry::verify
