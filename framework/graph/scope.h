// Where new nodes go: names, variables, devices, control inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/device_name.h"
#include "framework/base/source_location.h"
#include "framework/graph/graph.h"

namespace belfry {

// What GetVariable does about a variable that is there already.
enum class Reuse {
  kNever,      // an error: two layers would share weights by accident
  kAlways,     // required: an error if it is not there
  kIfPresent,  // made if it is not there
};

// The last input of an op that updates a variable, and can leave it alone (Scope::OnlyIf): {.name = kOnlyIf, .type =
// "bool", .list = true}, a list of one scalar, or empty: then it always updates.
inline constexpr char kOnlyIf[] = "only_if";

// The towers that a layer may look at beyond its own: this one's place among them, and how much it counts.
struct TowerGroup {
  std::string name;  // the same in all towers, and no other group's: what names of collectives begin with
  int rank = 0;
  int size = 1;
  Output examples;  // float32 scalar: this tower's part of the batch
};

// A cheap value that says how nodes are added to a Graph; the only way to add them. Each method returns a changed copy,
// so nothing leaks out of a loop over towers. The graph is borrowed. As thread-safe as its graph.
class Scope {
 public:
  explicit Scope(Graph& graph) : graph_(&graph) {}

  // Names below "name/", made unique as TensorFlow 1 does: the second "conv1" is "conv1_1/". "name/" with a slash
  // enters again what exists; "" is the root.
  Scope NameScope(absl::string_view name) const;
  // Variables below "name/", which is not made unique, and nodes below NameScope(name).
  Scope VariableScope(absl::string_view name) const;
  // Nested devices combine field by field, the inner ones winning: "/job:worker" then "/gpu:1". Empty changes nothing.
  // A malformed name is an error of the graph that names the caller's line.
  Scope Device(absl::string_view device, SourceLocation location = SourceLocation::Current()) const;
  Scope Device(const DeviceName& device) const;
  // No device from outside.
  Scope NoDevice() const;
  // Where variables are made, whatever the device of the ops that use them: TensorFlow's device setter.
  Scope VariableDevice(absl::string_view device) const;
  // New nodes run after these, besides those of outer scopes.
  Scope ControlDependencies(absl::Span<const Output> outputs) const;
  Scope ControlDependencies(absl::Span<const Node* const> nodes) const;
  // Without what ControlDependencies and OnlyIf said.
  Scope NoControlDependencies() const;
  // New nodes that update a variable do so only in steps in which `condition`, a bool scalar, is true; else they leave
  // it as it is; and what outer scopes asked for must be true, too. Other nodes run as ever. Their op must have an
  // input kOnlyIf (see there); an error if it has not.
  Scope OnlyIf(Output condition) const;
  // New nodes go wherever `node` goes; devices of outer scopes do not count.
  Scope ColocateWith(const Node& node) const;
  Scope ReuseVariables(Reuse reuse) const;
  // Variables are made for (and found in) this replica, and named "<tower scope>/...".
  Scope Replica(int replica) const;
  // New nodes belong to this phase of a step. `computed_for`: the forward node whose gradient they compute, or that of
  // the variable that they update.
  Scope InPhase(Phase phase, const Node* computed_for = nullptr) const;
  // New nodes belong to tower `tower`. Called on the name scope of the tower itself: reports and summaries show names
  // without it.
  Scope InTower(int tower) const;
  // New nodes carry this line, not that of the builder's caller.
  Scope WithLocation(SourceLocation location) const;
  // What random ops count on: an int64 scalar that changes every step, and one that is the index of this tower's first
  // example in the global batch, so that dropout is the same for any number of towers. Either may be invalid. Called on
  // the scope of a tower itself: random_path() is counted from there.
  Scope RandomCounters(Output step, Output first_example) const;
  // Layers take their statistics of a batch over all towers of the group: synchronised batch normalisation. Called on
  // the scope of a tower, after RandomCounters.
  Scope ShareStatistics(TowerGroup group) const;

  Graph& graph() const { return *graph_; }
  const absl::Status& status() const { return graph_->status(); }
  void Fail(absl::Status status) const { graph_->Fail(std::move(status)); }
  const std::string& name() const { return name_; }                    // "tower_0/conv1/", "" at the root
  const std::string& variable_path() const { return variable_path_; }  // "conv1/"
  const DeviceName& device() const { return device_; }
  const DeviceName& variable_device() const { return has_variable_device_ ? variable_device_ : device_; }
  Phase phase() const { return phase_; }
  int tower() const { return tower_; }                   // -1: none
  SourceLocation location() const { return location_; }  // what new nodes carry; may be unknown
  Reuse reuse() const { return reuse_; }
  int replica() const { return replica_; }
  std::vector<Output> random_counters() const;  // [step], [step, first_example] or []
  // name() without the prefix that RandomCounters was called under, so the same in every tower: what keys random ops
  // and collectives of layers.
  std::string random_path() const;
  const TowerGroup& statistics_group() const { return statistics_group_; }  // of ShareStatistics; else this tower alone
  const std::string& wanted_name() const { return wanted_name_; }           // of Named; empty if there is none

  // Adds the output to a collection of the graph; ignored if invalid.
  void AddToCollection(absl::string_view collection, Output output) const;
  void AddToCollection(absl::string_view collection, Tower tower) const;

  // The next nodes want this name instead of their op's: ops::MatMul(scope.Named("c"), a, b).
  Scope Named(absl::string_view name) const;

  // Adds a node, for op builders. Null after an error, which sticks to the graph: once it has failed, nothing is added
  // any more. Attributes that are not given have their defaults.
  const Node* AddNode(absl::string_view op, std::vector<Output> inputs, Attrs attrs = {}) const;
  // The first output of the new node; invalid after an error.
  Output Add(absl::string_view op, std::vector<Output> inputs, Attrs attrs = {}) const;
  // The same with the op of a role. An error if the graph's registry has none.
  const Node* AddNode(OpRole role, std::vector<Output> inputs, Attrs attrs = {}) const;
  Output Add(OpRole role, std::vector<Output> inputs, Attrs attrs = {}) const;
  // All outputs of the new node; empty after an error.
  std::vector<Output> AddAll(absl::string_view op, std::vector<Output> inputs, Attrs attrs = {}) const;

 private:
  friend class OpScope;

  Graph* graph_;
  std::string name_, variable_path_;
  DeviceName device_, variable_device_;
  std::string device_text_;
  bool has_variable_device_ = false;
  std::vector<const Node*> control_inputs_;
  Output only_if_;
  const Node* colocated_with_ = nullptr;
  Reuse reuse_ = Reuse::kNever;
  int replica_ = 0;
  Phase phase_ = Phase::kForward;
  const Node* computed_for_ = nullptr;
  int tower_ = -1;
  std::string tower_scope_;
  SourceLocation location_;
  std::string wanted_name_;
  Output random_step_, random_offset_;
  std::string random_root_;
  TowerGroup statistics_group_;
};

// A Scope with the caller's source line: what op builders take, so that a user passes a Scope and errors name his line.
//   Output Relu(OpScope scope, Output x) { return scope.Add("Relu", {x}); }
class OpScope : public Scope {
 public:
  OpScope(const Scope& scope, SourceLocation location = SourceLocation::Current())  // NOLINT: converts on purpose
      : Scope(scope) {
    if (!location_.known()) location_ = location;
  }
};

}  // namespace belfry
