// Nodes of a graph, and their outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "framework/base/device_name.h"
#include "framework/base/source_location.h"
#include "framework/graph/attr.h"
#include "framework/graph/op_def.h"

namespace belfry {

class Graph;
class Node;

namespace formulas {
// The base of types that formulas are written with. It makes their operators and functions (ops/formula.h) be found for
// them, and only for them: `using namespace belfry` brings neither Sum nor Log.
struct Enabled {};
}  // namespace formulas

// One output of a node, the value that flows along an edge. A value type. An invalid Output (default-constructed) is
// what builders return after an error, and means "no gradient" in gradient lists. Outputs are equal if they are the
// same output; Equal(x, y) of ops/formula.h compares values.
struct Output : formulas::Enabled {
  const Node* node = nullptr;
  int index = 0;

  constexpr Output() = default;
  constexpr Output(const Node* of, int number) : node(of), index(number) {}

  bool valid() const { return node != nullptr; }
  // An invalid Output has dtype float32, an invalid shape, and the name "(invalid)".
  DType dtype() const;
  const Shape& shape() const;  // extents may be unknown until feeds are given
  std::string name() const;    // "tower_0/MatMul:0"
  bool operator==(const Output& other) const { return node == other.node && index == other.index; }
  bool operator!=(const Output& other) const { return !(*this == other); }
  template <class H>
  friend H AbslHashValue(H h, const Output& output) {
    return H::combine(std::move(h), output.node, output.index);
  }
};

// The part of a training step that a node belongs to.
enum class Phase : uint8_t {
  kForward,
  kBackward,  // added by Gradients()
  kUpdate,    // applies a gradient to a variable
};

// The attributes that a node takes from the scope that added it, shared by all nodes of that scope.
struct NodeFacts {
  DeviceName device = {};                        // requested
  std::string device_text = {};                  // as the user wrote it in the innermost scope, for messages
  std::vector<const Node*> colocated_with = {};  // nodes whose device this one shares, whichever it turns out to be
  Phase phase = Phase::kForward;                 // the part of a step that it belongs to
  const Node* computed_for = nullptr;            // the forward node whose gradient this computes, or the node of
                                                 // the variable that it updates; null if there is none
  int tower = -1;                                // -1: none
  std::string tower_scope = {};                  // the name scope of its tower, "tower_0/"; empty if there is none
};

// One use of an op in a graph. Owned by its Graph and immutable. Ids count up as nodes are added, and inputs have
// smaller ids than their consumers, so ids are a topological order.
class Node {
 public:
  int id() const { return id_; }
  const std::string& name() const { return name_; }  // includes name scopes: "tower_0/conv1/Conv2D"
  const OpDef& op() const { return *op_; }
  const Attrs& attrs() const { return attrs_; }  // complete, with defaults and type variables
  const Graph& graph() const { return *graph_; }

  absl::Span<const Output> inputs() const { return inputs_; }
  const Output& input(int i) const { return inputs_[i]; }
  absl::Span<const Node* const> control_inputs() const { return control_inputs_; }
  absl::Span<const TensorSpec> outputs() const { return outputs_; }
  Output output(int i) const { return {this, i}; }

  const NodeFacts& facts() const { return *facts_; }
  const DeviceName& requested_device() const { return facts_->device; }
  // The requested device as printed: "/gpu:2" if the user wrote that; empty if none was requested.
  const std::string& device_text() const { return facts_->device_text; }
  absl::Span<const Node* const> colocated_with() const { return facts_->colocated_with; }
  Phase phase() const { return facts_->phase; }
  const Node* computed_for() const { return facts_->computed_for; }
  int tower() const { return facts_->tower; }
  const std::string& tower_scope() const { return facts_->tower_scope; }
  // The name without that scope, so the same in every tower: "conv1/Conv2D".
  absl::string_view name_in_tower() const { return absl::StripPrefix(name_, tower_scope()); }
  // The line of the user's program that requested this node.
  SourceLocation location() const { return location_; }

  // A one-line description: "c = MatMul[T=DT_FLOAT, transpose_a=false, transpose_b=false, _device="/gpu:2"](a, b:1,
  // ^init)".
  std::string Summary() const;

 private:
  friend class Graph;
  friend class Scope;
  Node() = default;

  int id_ = 0;
  std::string name_;
  const OpDef* op_ = nullptr;
  Graph* graph_ = nullptr;
  Attrs attrs_;
  std::vector<Output> inputs_;
  std::vector<const Node*> control_inputs_;
  std::vector<TensorSpec> outputs_;
  std::shared_ptr<const NodeFacts> facts_;  // not null
  SourceLocation location_;
};

inline DType Output::dtype() const { return valid() ? node->outputs()[index].dtype : DType::kFloat32; }
inline std::string Output::name() const {
  return valid() ? node->name() + ":" + std::to_string(index) : std::string("(invalid)");
}

}  // namespace belfry
