#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

absl::Status CheckRequest(const ProgramRequest& request) {
  if (request.fetches.empty() && request.targets.empty()) {
    return absl::InvalidArgumentError("Must specify at least one target to fetch or execute.");
  }
  const auto check = [&](const Output& output, absl::string_view what) -> absl::Status {
    const auto outputs = static_cast<int>(output.node->outputs().size());
    if (outputs == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Tried to ", what, " data for '", output.node->name(),
                       "', which produces no output. To run a node without its data, pass it as a target."));
    }
    if (output.index < 0 || output.index >= outputs) {
      return absl::InvalidArgumentError(
          absl::StrCat("The ", what, " ", output.name(), ": output index too large, must be < ", outputs));
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < request.feeds.size(); ++i) {
    const Output& feed = request.feeds[i];
    RETURN_IF_ERROR(check(feed, "feed"));
    if (std::count(request.feeds.begin(), request.feeds.end(), feed) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("Endpoint \"", feed.name(), "\" fed more than once."));
    }
    const Node* source = feed.node;
    while (source->op().role == OpRole::kFlatSlice) source = source->input(0).node;
    if (source->op().kind == OpKind::kVariable) {
      return absl::InvalidArgumentError(
          absl::StrCat("Variable '", feed.node->name(), "' cannot be fed; assign to it instead"));
    }
    if (!feed.shape().CompatibleWith(request.feed_shapes[i]) || !request.feed_shapes[i].known()) {
      return absl::InvalidArgumentError(absl::StrCat("Cannot feed value of shape ", request.feed_shapes[i].ToString(),
                                                     " for Tensor '", feed.name(), "', which has shape ",
                                                     feed.shape().ToString(), feed.node->location().Suffix()));
    }
  }
  for (const Output& fetch : request.fetches) RETURN_IF_ERROR(check(fetch, "fetch"));
  return absl::OkStatus();
}

class Pruner {
 public:
  Pruner(const Graph& graph, const ProgramRequest& request)
      : graph_(graph), request_(request), index_(graph.size(), -1) {}

  absl::StatusOr<Program> Run() {
    for (size_t i = 0; i < request_.feeds.size(); ++i) AddFeed(request_.feeds[i], request_.feed_shapes[i]);
    // But for peers and values of placeholders, graph ids are a topological order, so marking downwards needs no stack.
    std::vector<char> needed(graph_.size(), 0);
    const auto need = [&](const Node& node) { needed[node.id()] = 1; };
    for (const Output& fetch : request_.fetches) {
      if (!fed_.contains(fetch)) need(*Source(fetch).node);
    }
    for (const Node* target : request_.targets) {
      if (!FedPlaceholder(*target)) need(*Source({target, 0}).node);
    }
    // A collective is met by all towers or by none, so one of its nodes needs the others.
    HashMap<std::string, std::vector<const Node*>> groups;
    for (int id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op().kind == OpKind::kAllReduce) groups[node.attrs().String("group")].push_back(&node);
    }
    std::vector<const Node*> collectives;
    for (int id = static_cast<int>(needed.size()) - 1; id >= 0; --id) {
      if (!needed[id]) continue;
      const Node& node = graph_.node(id);
      const auto need_before = [&](const Node& other) {
        if (needed[other.id()]) return;
        need(other);
        id = std::max(id, other.id() + 1);
      };
      if (node.op().kind == OpKind::kAllReduce) {
        for (const Node* peer : groups[node.attrs().String("group")]) need_before(*peer);
        collectives.push_back(&node);
      }
      ForEachSource(node, need_before);
    }
    RETURN_IF_ERROR(AddNodes(needed));
    for (const Node* node : collectives) program_.targets.push_back(index_[node->id()]);
    for (const Output& fetch : request_.fetches) program_.fetches.push_back(Find(fetch));
    for (const Node* target : request_.targets) program_.targets.push_back(IndexOf(*target));
    KeepOrderOfUpdates();
    return std::move(program_);
  }

 private:
  void AddFeed(const Output& feed, const Shape& shape) {
    const Value value{static_cast<int>(program_.nodes.size()), 0};
    program_.nodes.push_back({.name = feed.node->name(),
                              .op = &FeedOp(),
                              .attrs = {{"T", feed.dtype()}, {"shape", shape}},
                              .outputs = {{feed.dtype(), shape}},
                              .source = feed.node,
                              .rank = feed.node->id()});
    program_.feeds.push_back(value);
    fed_[feed] = value;
  }

  // The feed replaces the placeholder as a whole, so nodes that run after it run after the feed.
  bool FedPlaceholder(const Node& node) const {
    return node.op().kind == OpKind::kPlaceholder && fed_.contains(node.output(0));
  }

  // A bound placeholder stands for its value.
  Output Source(const Output& output) const {
    const bool placeholder = output.node->op().kind == OpKind::kPlaceholder;
    const Output value = placeholder ? graph_.BoundValue(*output.node) : Output();
    return value.valid() ? value : output;
  }

  // Calls visit(source) for the nodes that a node waits for, but for feeds.
  template <class Visit>
  void ForEachSource(const Node& node, const Visit& visit) const {
    for (const Output& input : node.inputs()) {
      if (!fed_.contains(input)) visit(*Source(input).node);
    }
    for (const Node* control : node.control_inputs()) {
      if (!FedPlaceholder(*control)) visit(*Source({control, 0}).node);
    }
  }

  // A node that this one waits for and that was not added; null if there is none.
  const Node* MissingSource(const Node& node) const {
    const Node* missing = nullptr;
    ForEachSource(node, [&](const Node& source) {
      if (index_[source.id()] < 0) missing = &source;
    });
    return missing;
  }

  int IndexOf(const Node& node) const {
    return FedPlaceholder(node) ? fed_.at(node.output(0)).node : index_[Source({&node, 0}).node->id()];
  }

  Value Find(const Output& output) const {
    const auto fed = fed_.find(output);
    const Output source = Source(output);
    return fed != fed_.end() ? fed->second : Value{index_[source.node->id()], source.index};
  }

  // In the order of ids, but for nodes that wait for the value of a placeholder: these come when it is there.
  absl::Status AddNodes(const std::vector<char>& needed) {
    std::vector<const Node*> waiting;
    for (size_t id = 0; id < needed.size(); ++id) {
      if (needed[id]) waiting.push_back(&graph_.node(static_cast<int>(id)));
    }
    while (!waiting.empty()) {
      std::vector<const Node*> left;
      for (const Node* node : waiting) {
        if (MissingSource(*node) == nullptr) {
          AddNode(*node);
        } else {
          left.push_back(node);
        }
      }
      if (left.size() == waiting.size()) return Cycle(*left.front());
      waiting = std::move(left);
    }
    return absl::OkStatus();
  }

  // `node` waits for a value that is never there. A source above a node is the value of a placeholder, so the second
  // such step of a walk from source to source leaves a node on which the first value depends.
  absl::Status Cycle(const Node& node) const {
    const Node* on = &node;
    for (int values = 0; true;) {
      const Node* source = MissingSource(*on);
      if (source->id() >= on->id() && ++values == 2) break;
      on = source;
    }
    const std::string line = on->location().known() ? absl::StrCat(", defined at ", on->location().ToString()) : "";
    return absl::InvalidArgumentError(
        absl::StrCat("The step has a cycle: node '", on->name(), "' (op ", on->op().name, line,
                     ") waits for a value that is computed from it. If it is an update of a variable that the loss ",
                     "reads, it cannot wait for the gradients: make it in a scope of NoControlDependencies()"));
  }

  void AddNode(const Node& node) {
    ProgramNode copy{.name = node.name(),
                     .op = &node.op(),
                     .attrs = node.attrs(),
                     .outputs = {node.outputs().begin(), node.outputs().end()},
                     .source = &node,
                     .rank = node.id()};
    for (const Output& input : node.inputs()) copy.inputs.push_back(Find(input));
    for (const Node* control : node.control_inputs()) copy.control_inputs.push_back(IndexOf(*control));
    index_[node.id()] = static_cast<int>(program_.nodes.size());
    program_.nodes.push_back(std::move(copy));
  }

  // Makes each update of a variable wait for the one that was added to the graph before it, because passes move nodes
  // and keep to dependencies only.
  void KeepOrderOfUpdates() {
    HashMap<int, int> last;  // by variable
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      ProgramNode& node = program_.nodes[i];
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (!node.op->input_arg(static_cast<int>(k)).ref) continue;
        const auto [former, first] = last.try_emplace(Root(program_, node.inputs[k]).node, i);
        if (!first && former->second != static_cast<int>(i)) node.control_inputs.push_back(former->second);
        former->second = static_cast<int>(i);
      }
    }
  }

  const Graph& graph_;
  const ProgramRequest& request_;
  Program program_;
  HashMap<Output, Value> fed_;
  std::vector<int> index_;  // by id: in program_; -1: not there
};

}  // namespace

absl::StatusOr<Program> Prune(const Graph& graph, const ProgramRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  return Pruner(graph, request).Run();
}

}  // namespace belfry
