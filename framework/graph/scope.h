// Scopes: how new nodes are added, with their names, variables, devices and control inputs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/device_name.h"
#include "framework/base/source_location.h"
#include "framework/graph/graph.h"

namespace belfry {

// The rule of GetVariable for a variable that already exists.
enum class Reuse {
  kNever,      // an error, since two layers would share weights by accident
  kAlways,     // required: an error if it does not exist
  kIfPresent,  // created if it does not exist
};

// The name of the last input of an op that can update a variable conditionally (Scope::OnlyIf): {.name = kOnlyIf, .type
// = "bool", .list = true}. The list holds one scalar, or is empty, in which case the op always updates.
inline constexpr char kOnlyIf[] = "only_if";

// A group of towers whose data a layer may combine, with this tower's position in it and its weight.
struct TowerGroup {
  std::string name;  // the same in all towers and different from every other group's; collectives' names begin with it
  int rank = 0;
  int size = 1;
  Output examples;  // float32 scalar: the number of this tower's examples in the batch
};

// Describes how nodes are added to a Graph, and is the only way to add them. A cheap value type; copies and nodes share
// its record: each method returns a changed copy, so nothing leaks out of a loop over towers.
// The graph is borrowed. As thread-safe as its graph.
class Scope {
 public:
  explicit Scope(Graph& graph) : graph_(&graph) {}

  // A scope for nodes beside `node`: its name scope, device, phase and tower. It has no variables, control inputs or
  // random counters.
  static Scope Beside(const Node& node);
  // Places names below "name/", made unique as TensorFlow 1 does: the second "conv1" is "conv1_1/". With a trailing
  // slash, "name/" re-enters an existing scope; "" is the root. The scope of a tower is re-entered from scopes of the
  // tower only; elsewhere that is an error of the graph, with the caller's source line.
  Scope NameScope(absl::string_view name, SourceLocation location = SourceLocation::Current()) const;
  // Places variables below "name/", which is not made unique, and nodes below NameScope(name).
  Scope VariableScope(absl::string_view name) const;
  // The same with variables below "path/" of the whole graph, for a network besides the scope's own: the generator in a
  // tower of the discriminator's step. Everything else that the scope says holds there, too.
  Scope Variables(absl::string_view path) const;
  // Requests a device. Nested requests combine field by field, and the inner one wins: "/job:worker", then "/gpu:1".
  // The empty string changes nothing. A malformed name is an error of the graph, with the caller's source line.
  Scope Device(absl::string_view device, SourceLocation location = SourceLocation::Current()) const;
  Scope Device(const DeviceName& device) const;
  // Drops the device requests of outer scopes.
  Scope NoDevice() const;
  // Requests a device for variables, whichever device the ops that use them have: TensorFlow's device setter.
  Scope VariableDevice(absl::string_view device, SourceLocation location = SourceLocation::Current()) const;
  // New nodes run after these nodes, in addition to those of outer scopes. An invalid output or a null node is an error
  // of the graph, with the caller's source line.
  Scope ControlDependencies(absl::Span<const Output> outputs,
                            SourceLocation location = SourceLocation::Current()) const;
  Scope ControlDependencies(absl::Span<const Node* const> nodes,
                            SourceLocation location = SourceLocation::Current()) const;
  // Drops the effects of ControlDependencies and OnlyIf.
  Scope NoControlDependencies() const;
  // New nodes that update a variable do so only in steps in which `condition`, a bool scalar, is true, together with
  // the conditions of outer scopes; otherwise they leave the variable unchanged. Other nodes are unaffected. The op of
  // such a node must have an input kOnlyIf, otherwise it is an error.
  Scope OnlyIf(Output condition) const;
  // Places new nodes on the device of `node`; device requests of outer scopes are ignored.
  Scope ColocateWith(const Node& node) const;
  Scope ReuseVariables(Reuse reuse) const;
  // Finds variables, and makes none; of one that has a slot of this name, as moving averages are
  // (optim/moving_average.h), the slot. So a network that is built here computes with these.
  Scope ReadSlots(absl::string_view name) const;
  // Creates and finds variables for this replica. From replica 1 on, their nodes are named "replica_<i>/...".
  Scope Replica(int replica) const;
  // New nodes belong to this phase of a step. `computed_for`: the forward node whose gradient they compute, or the
  // node of the variable that they update.
  Scope InPhase(Phase phase, const Node* computed_for = nullptr) const;
  // New nodes belong to tower `tower`, or to none if it is -1. Called on the name scope of the tower itself: reports
  // and summaries show names without it.
  Scope InTower(int tower) const;
  // Builds for the training step of this name, which has a global step and a loss scale of its own: the variables
  // "<name>/global_step" (optim/global_step.h) and "<name>/loss_scale". Empty: the graph's.
  Scope InTrainStep(absl::string_view name) const;
  // Gives new nodes this source line instead of the line of the builder's caller.
  Scope WithLocation(SourceLocation location) const;
  // Sets the counters of random ops: `step`, an int64 scalar that changes every step, and `first_example`, the index of
  // this tower's first example in the global batch, which makes dropout independent of the number of towers. Either may
  // be invalid. Call it on the tower's own scope: random_path() is relative to it.
  Scope RandomCounters(Output step, Output first_example) const;
  // Makes layers compute batch statistics over all towers of the group: synchronised batch normalisation. Call it on
  // the tower's scope, after RandomCounters.
  Scope ShareStatistics(TowerGroup group) const;

  Graph& graph() const { return *graph_; }
  const absl::Status& status() const { return graph_->status(); }
  // Reports an error that sticks to the graph, as builders do. Its message gets the source line of location() at its
  // end unless it ends with one, so errors of op builders and layers name the line of their caller.
  void Fail(const absl::Status& status) const;
  // The error with that line.
  absl::Status WithOwnLine(const absl::Status& status) const;
  const std::string& name() const { return name_; }                           // "tower_0/conv1/", "" at the root
  const std::string& variable_path() const { return facts_->variable_path; }  // "conv1/"
  const DeviceName& device() const { return facts_->device; }
  const DeviceName& variable_device() const {
    return facts_->variable_device.has_value() ? *facts_->variable_device : facts_->device;
  }
  Phase phase() const { return facts_->phase; }
  int tower() const { return facts_->tower; }  // -1: none
  const std::string& train_step() const { return facts_->train_step; }
  SourceLocation location() const { return location_; }  // the source line of new nodes; may be unknown
  Reuse reuse() const { return facts_->reuse; }
  int replica() const { return facts_->replica; }
  const std::string& read_slots() const { return facts_->read_slots; }  // of ReadSlots; empty: none
  std::vector<Output> random_counters() const;                          // [step], [step, first_example] or []
  // name() relative to the scope on which RandomCounters was called, so the same in every tower. It keys random ops and
  // the collectives of layers.
  std::string random_path() const;
  // The group that ShareStatistics set; by default this tower alone.
  const TowerGroup& statistics_group() const { return facts_->statistics_group; }
  const std::string& wanted_name() const { return wanted_name_; }  // of Named; empty if not set

  // Adds the output to a collection of the graph. An invalid one is an error of the graph, with the caller's source
  // line.
  void AddToCollection(absl::string_view collection, Output output,
                       SourceLocation location = SourceLocation::Current()) const;
  void AddToCollection(absl::string_view collection, Tower tower) const;

  // Names the next nodes after this instead of their op: ops::MatMul(scope.Named("c"), a, b).
  Scope Named(absl::string_view name) const;

  // Adds a node; for op builders. Null after an error, which sticks to the graph: after the first error nothing more is
  // added. Missing attributes get their defaults.
  const Node* AddNode(absl::string_view op, std::vector<Output> inputs, Attrs attrs = {}) const;
  // Adds a node and returns its first output; invalid after an error.
  Output Add(absl::string_view op, std::vector<Output> inputs, Attrs attrs = {}) const;
  // The same with the op of a role. An error if the graph's registry has none.
  const Node* AddNode(OpRole role, std::vector<Output> inputs, Attrs attrs = {}) const;
  Output Add(OpRole role, std::vector<Output> inputs, Attrs attrs = {}) const;
  // Adds a node and returns all its outputs; empty after an error.
  std::vector<Output> AddAll(absl::string_view op, std::vector<Output> inputs, Attrs attrs = {}) const;

 private:
  friend class OpScope;

  // Everything except names that a scope passes on to scopes made from it. Immutable, so scopes and nodes share it.
  struct Facts : NodeFacts {
    std::string variable_path = {}, train_step = {}, read_slots = {};
    std::optional<DeviceName> variable_device = {};  // if nodes have another
    std::vector<const Node*> control_inputs = {};
    Output only_if = {};
    Reuse reuse = Reuse::kNever;
    int replica = 0;
    Output random_step = {}, random_offset = {};
    std::string random_root = {};
    TowerGroup statistics_group = {};
  };

  // A copy whose facts are changed by change(facts).
  template <class Change>
  Scope With(const Change& change) const;

  Graph* graph_;
  std::string name_, wanted_name_;
  SourceLocation location_;
  std::shared_ptr<const Facts> facts_ = std::make_shared<const Facts>();
};

// A Scope with the caller's source line. Op builders take it as their parameter, so that users pass a Scope and errors
// name the user's line:
// Output Relu(OpScope scope, Output x) { return scope.Add("Relu", {x}); }
class OpScope : public Scope {
 public:
  OpScope(const Scope& scope, SourceLocation location = SourceLocation::Current())  // NOLINT: converts on purpose
      : Scope(scope) {
    if (!location_.known()) location_ = location;
  }
};

}  // namespace belfry
