// The part of a graph that one plan computes. The passes of compile.cc change it step by step.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/prepared_constants.h"

namespace belfry {

// Output `index` of node `node` of a Program.
struct Value {
  int node = -1;
  int index = 0;
  bool operator==(const Value&) const = default;
  template <class H>
  friend H AbslHashValue(H h, const Value& value) {
    return H::combine(std::move(h), value.node, value.index);
  }
};

// One node, copied from the graph or added by a pass.
struct ProgramNode {
  std::string name;
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<Value> inputs;
  std::vector<int> control_inputs;
  std::vector<TensorSpec> outputs;
  const Node* source = nullptr;  // the graph's node that it comes from, for messages and its phase; never null
  int device = -1;               // index into the DeviceSet, once placed
  int64_t rank = 0;              // of the ready nodes, the one with the smallest rank runs first
  // The nodes that an ElementwiseOp(), UpdatesOp() or JoinedOp() was made from, in order. Each input of such a member
  // is an earlier member, {index, 0}, or input i of this node, {-1, i}, or {-1, -1} if the member only needs its shape.
  // The last member of an ElementwiseOp() may update variables, and some members may be reductions, which no other
  // member reads.
  std::vector<ProgramNode> body;
  std::vector<int> results;  // of an ElementwiseOp(), by output: which of `body` computes it
  // For nodes of kind kAllReduce, after FindCollectives: an index into Program::collectives, and the ranks that the
  // node stands for, ascending. Its inputs are, rank by rank, a weight and the values.
  int collective = -1;
  std::vector<int64_t> ranks;
};

// One collective operation: the all-reduce nodes that meet, of all devices.
struct CollectiveGroup {
  std::string name;
  int64_t size = 0;  // ranks, of all processes
};

// Nodes in a topological order: inputs and control inputs have smaller indices. A value; passes are functions on it.
struct Program {
  std::vector<ProgramNode> nodes;
  std::vector<Value> feeds;    // in the caller's order; each is output 0 of a node of kind kPlaceholder
  std::vector<Value> fetches;  // in the caller's order
  std::vector<int> targets;
  std::vector<CollectiveGroup> collectives;     // by name; DropLoneCollectives leaves groups of one rank without nodes
  std::shared_ptr<PreparedConstants> prepared;  // by node, once kernels are made; null before

  const TensorSpec& spec(Value value) const { return nodes[value.node].outputs[value.index]; }
};

// A request for a plan. Outputs and nodes of one graph.
struct ProgramRequest {
  std::vector<Output> feeds = {};
  std::vector<Shape> feed_shapes = {};  // one per feed, fully known
  std::vector<Output> fetches = {};
  std::vector<const Node*> targets = {};
};

// Ops that only passes add, and that no registry has. Their nodes carry the attribute "T".
const OpDef& FeedOp();      // kind kPlaceholder
const OpDef& ConstantOp();  // kind kConst, attribute "value"
const OpDef& CopyOp();      // a copy on the same device
const OpDef& TransferOp();  // a copy from another device
const OpDef& OrderOp();     // kind kNoOp, and no attribute
// Several element-wise nodes that go through memory once: ProgramNode::body. Any number of inputs and outputs; no
// output if it ends in an update.
const OpDef& ElementwiseOp();
// Several nodes of one op that update variables. Its inputs are theirs, one node after the other. No output.
const OpDef& UpdatesOp();
// Several ElementwiseOp() nodes that compute the same of other tensors, in one launch: ProgramNode::body. Its inputs
// and outputs are theirs, one node after the other.
const OpDef& JoinedOp();
inline constexpr int kMaxJoined = 256;
// The nodes of a JoinedOp(), with the inputs that they had.
std::vector<ProgramNode> JoinedNodes(const ProgramNode& node);
// Flags, one for each input of a JoinedOp()'s nodes: true if all of them read the same tensor.
std::vector<bool> SharedInputs(const ProgramNode& node);
// `node` as an ElementwiseOp() of one member. REQUIRES: it has one output.
ProgramNode AsElementwise(const ProgramNode& node);

// The ArgDef of input `index` of a node. For an input of an UpdatesOp(), and for a variable that an ElementwiseOp()
// updates, the member's.
const ArgDef& InputArg(const ProgramNode& node, int index);
// True if the node updates a variable.
bool Updates(const ProgramNode& node);

// The specs of the inputs of a node, and of body[member] of a node; a shape-only input of the latter is left empty.
std::vector<TensorSpec> InputSpecs(const Program& program, const ProgramNode& node);
std::vector<TensorSpec> InputSpecs(const Program& program, const ProgramNode& node, const ProgramNode& member);

// The pairs (input, output) of a node that may share memory when shapes and dtypes agree.
std::vector<std::pair<int, int>> InPlace(const ProgramNode& node);

// The output that `value` is a view of, or the variable whose storage it is: follows views and ref outputs to the node
// that owns the bytes.
Value Root(const Program& program, Value value);

// Equal keys: equal attributes, to the last bit of every number and tensor.
std::string AttrsKey(const Attrs& attrs);

// By node: how many inputs, control inputs, fetches and targets name it.
std::vector<int> CountUses(const Program& program);

// Removes control inputs from constants, which are there before anything runs.
void DropControlsOnConstants(const Program& program, ProgramNode& node);

// Drops nodes that neither fetches nor targets need, and orders the rest topologically, ready nodes by (rank, index)
// and the nodes of one collective together. InvalidArgument if there is a cycle, naming its nodes.
absl::Status Normalize(Program& program);

// Appends a node that copies `value`, on `device`, by CopyOp or TransferOp; returns its output. The caller normalizes.
Value AddCopy(Program& program, const OpDef& op, Value value, int device, int64_t rank);

// For a node of kind kAllReduce: the bytes of one rank's bucket. Its values lie side by side, each aligned, and with a
// reduction of slices it is long enough for equal ones.
size_t BucketBytes(const Program& program, const ProgramNode& node);

// "node 'tower_0/MatMul' (op MatMul, defined at model.cc:12)"; with those that it was made of.
std::string Describe(const ProgramNode& node);

}  // namespace belfry
