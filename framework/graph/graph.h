// Graphs: a program as data, made of nodes, collections and variables.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/node.h"
#include "framework/graph/op_def.h"
#include "framework/graph/variable.h"

namespace belfry {

// A tower's endpoints, for the code that feeds and fetches it (kTrainModels and others).
struct Tower {
  int index = 0;
  std::string scope;  // its name scope, "tower_0/"
  std::vector<Output> inputs;
  Output loss;
  std::vector<Output> predictions;
};

// One entry of a collection, with its name-scope path.
struct CollectionItem {
  std::string path = {};  // the name of an output or variable, or the scope of a tower
  std::variant<Output, Variable, Tower> value = {};
};

// Names of common collections; any other name may be used.
inline constexpr char kLosses[] = "losses";         // summed by TotalLoss
inline constexpr char kUpdateOps[] = "update_ops";  // to run with every training step (moving averages)
inline constexpr char kSummaries[] = "summaries";
inline constexpr char kTrainModels[] = "train_model";

// True if `path` lies in the name scope `scope`, compared by whole components: "tower_1" or "tower_1/" contains
// "tower_1/x" and "tower_1", but not "tower_10/x". The empty scope contains everything.
bool InScope(absl::string_view path, absl::string_view scope);

// The arguments of AddNode, normally filled in by a Scope.
struct NodeRequest {
  std::string op = {};
  std::string name = {};  // the wanted name; made unique as TensorFlow 1 does ("MatMul_1")
  std::vector<Output> inputs = {};
  std::vector<const Node*> control_inputs = {};
  Attrs attrs = {};
  std::shared_ptr<const NodeFacts> facts = std::make_shared<const NodeFacts>();
  SourceLocation location = {};
};

// A program under construction. Owns its nodes, which are never removed; add them through a Scope. Not thread-safe
// while it is being built; a graph that no longer changes may be read by any thread.
class Graph {
 public:
  // `registry` says which ops the graph may use: BuiltinOps() of ops/builtin_ops.h, or one with ops of your own. It is
  // borrowed and must outlive the graph.
  explicit Graph(const OpRegistry& registry);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const OpRegistry& registry() const { return registry_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int id) const { return *nodes_[id]; }
  // The node of this name; null if there is none.
  const Node* FindNode(absl::string_view name) const;
  // True if `name` is the name scope of a tower that has nodes, "tower_0/".
  bool IsTowerScope(absl::string_view name) const;

  // The first error that a builder met. All builders after it return an invalid Output; Session::Create reports it.
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status);

  // The seed of all random ops in this graph; set it before adding them.
  uint64_t seed() const { return seed_; }
  void set_seed(uint64_t seed) { seed_ = seed; }

  // Checks the request against the op's definition, infers dtypes and shapes, and adds the node. Errors name the node
  // and the user's source line.
  absl::StatusOr<const Node*> AddNode(NodeRequest request);
  // Gives a placeholder the value of an output that is added later, for nodes that wait for what comes after them: the
  // updates of a model that depend on its gradients. A step that does not feed the placeholder computes that value; it
  // is an error of the step if the value waits for a node that reads the placeholder. Errors of this call, which stick:
  // `placeholder` is none, is bound already, or has another dtype or shape than `value`.
  void Bind(Output placeholder, Output value);
  // The value of a bound placeholder; an invalid Output for any other node.
  Output BoundValue(const Node& placeholder) const;
  // Reserves and returns `name`, or, if it is taken (ignoring case), `name` with the first free suffix of "_1", "_2"
  // ...
  std::string UniqueName(absl::string_view name);
  // Makes every later AddNode fail.
  void Finalize() { finalized_ = true; }

  // Collections keep the order in which items are added.
  void AddToCollection(absl::string_view collection, CollectionItem item);
  absl::Span<const CollectionItem> collection(absl::string_view name) const;
  // The outputs in a collection whose nodes lie in `scope` (see InScope).
  std::vector<Output> GetCollection(absl::string_view collection, absl::string_view scope = "") const;
  std::vector<Tower> GetTowers(absl::string_view collection, absl::string_view scope = "") const;

  // Variables in the order of creation. See variable.h.
  Variable AddVariable(std::unique_ptr<VariableDef> variable);
  // For BeginAs.
  void SetBeginsAs(const Variable& variable, const Variable& other, const Node* initializer);
  // A part of a variable, which is not among variables().
  Variable AddPart(std::unique_ptr<VariableDef> part);
  // The given replica of a logical name; an invalid Variable if there is none.
  Variable FindVariable(absl::string_view logical_name, int replica) const;
  std::vector<Variable> variables() const;
  // The variable behind a node of kind kVariable. REQUIRES: `node` is one.
  Variable VariableOf(const Node& node) const;

 private:
  absl::Status Build(NodeRequest& request, Node& node) const;
  absl::Status CheckReferences(const Node& node) const;
  absl::Status CheckFacts(const NodeFacts& facts) const;

  const OpRegistry& registry_;
  std::deque<std::unique_ptr<Node>> nodes_;
  std::shared_ptr<const NodeFacts> checked_;  // the facts of the last node
  std::map<std::string, const Node*, std::less<>> by_name_;
  std::map<const Node*, Output> bound_;    // by placeholder
  std::map<std::string, int> used_names_;  // lower-case name to the lowest suffix that may be free
  std::map<std::string, std::vector<CollectionItem>, std::less<>> collections_;
  std::vector<std::unique_ptr<VariableDef>> variables_, parts_;
  std::map<std::pair<std::string, int>, VariableDef*> variable_by_key_;
  std::map<const Node*, VariableDef*> variable_by_node_;
  absl::Status status_;
  uint64_t seed_ = 0x42454c46525921ULL;
  bool finalized_ = false;
};

// A readable listing of the graph: one Summary() per line, in id order.
std::string GraphToText(const Graph& graph);
// The graph for Graphviz: nodes clustered by name scope and coloured by requested device, control edges dashed.
std::string GraphToDot(const Graph& graph);

}  // namespace belfry
