// The program as data: nodes, collections and variables.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/node.h"
#include "framework/graph/op_def.h"
#include "framework/graph/variable.h"

namespace belfry {

// What a tower leaves behind for whoever feeds and fetches it (kTrainModels and the like).
struct Tower {
  int index = 0;
  std::string scope;  // its name scope, "tower_0/"
  std::vector<Output> inputs;
  Output loss;
  std::vector<Output> predictions;
};

// One entry of a collection, with the name-scope path under which it stands.
struct CollectionItem {
  std::string path;  // an output's or variable's name, a tower's scope
  std::variant<Output, Variable, Tower> value;
};

// Names of common collections; any other name may be used.
inline constexpr char kLosses[] = "losses";         // what TotalLoss adds up
inline constexpr char kUpdateOps[] = "update_ops";  // to be run with every training step (moving averages)
inline constexpr char kSummaries[] = "summaries";
inline constexpr char kTrainModels[] = "train_model";
inline constexpr char kPredictions[] = "predict";

// True if `path` lies in the name scope `scope`, by whole components: "tower_1" or "tower_1/" holds "tower_1/x" and
// "tower_1", not "tower_10/x". An empty scope holds everything.
bool InScope(absl::string_view path, absl::string_view scope);

// Everything AddNode needs. Normally filled in by a Scope.
struct NodeRequest {
  std::string op;
  std::string name;  // wanted; made unique as TensorFlow 1 does ("MatMul_1")
  std::vector<Output> inputs;
  std::vector<const Node*> control_inputs;
  Attrs attrs;
  DeviceName device;
  std::string device_text;
  std::vector<const Node*> colocated_with;
  Phase phase = Phase::kForward;
  const Node* computed_for = nullptr;
  int tower = -1;
  std::string tower_scope;
  SourceLocation location;
};

// Owns nodes, which only ever get more. Nodes are added through a Scope. Not thread-safe while it is being built;
// reading a graph that nobody changes is.
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
  // Null if there is none of this name.
  const Node* FindNode(absl::string_view name) const;

  // The first error that a builder met; every later builder returned an invalid Output. Session::Create reports it.
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status);

  // Seed of everything random in this graph; set before random nodes are added.
  uint64_t seed() const { return seed_; }
  void set_seed(uint64_t seed) { seed_ = seed; }

  // Checks the request against the op's definition, infers dtypes and shapes, and adds the node. An error names the
  // node and the user's line.
  absl::StatusOr<const Node*> AddNode(NodeRequest request);
  // `name` if it is free, else with the first free "_1", "_2" ... appended, ignoring case; the result is taken from now
  // on.
  std::string UniqueName(absl::string_view name);
  // From now on AddNode fails.
  void Finalize() { finalized_ = true; }

  // Collections keep the order of adding.
  void AddToCollection(absl::string_view collection, CollectionItem item);
  absl::Span<const CollectionItem> collection(absl::string_view name) const;
  // The outputs of a collection whose nodes lie in `scope` (InScope).
  std::vector<Output> GetCollection(absl::string_view collection, absl::string_view scope = "") const;
  std::vector<Tower> GetTowers(absl::string_view collection, absl::string_view scope = "") const;

  // Variables, in the order of their making. See variable.h.
  Variable AddVariable(std::unique_ptr<VariableDef> variable);
  // The replica of a logical name, or an invalid Variable.
  Variable FindVariable(absl::string_view logical_name, int replica) const;
  std::vector<Variable> variables() const;
  // The variable that a node of kind kVariable stands for. REQUIRES: it is one.
  Variable VariableOf(const Node& node) const;

 private:
  absl::Status Build(NodeRequest& request, Node& node) const;

  const OpRegistry& registry_;
  std::deque<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, const Node*> by_name_;
  absl::flat_hash_map<std::string, int> used_names_;  // in lower case, and the lowest suffix that may be free
  absl::flat_hash_map<std::string, std::vector<CollectionItem>> collections_;
  std::vector<std::unique_ptr<VariableDef>> variables_;
  absl::flat_hash_map<std::pair<std::string, int>, VariableDef*> variable_by_key_;
  absl::flat_hash_map<const Node*, VariableDef*> variable_by_node_;
  absl::Status status_;
  uint64_t seed_ = 0x42454c46525921ULL;
  bool finalized_ = false;
};

// A readable listing of a graph: one Summary() a line, in id order.
std::string GraphToText(const Graph& graph);
// Graphviz: nodes clustered by name scope, coloured by requested device, control edges dashed.
std::string GraphToDot(const Graph& graph);

}  // namespace belfry
