#include "framework/graph/scope.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace belfry {
namespace {

absl::Status MalformedDevice(absl::string_view device, const absl::Status& why, SourceLocation location) {
  return absl::InvalidArgumentError(
      absl::StrCat("Malformed device specification '", device, "': ", why.message(), " (", location.ToString(), ")"));
}

// Adds the condition to the inputs of an op that updates a variable; other ops are left alone.
absl::Status AddCondition(const OpRegistry& registry, absl::string_view op, Output condition,
                          std::vector<Output>& inputs) {
  const OpDef* def = registry.Find(op);
  const auto updates = [](const ArgDef& input) { return input.ref; };
  if (def == nullptr || std::none_of(def->inputs.begin(), def->inputs.end(), updates)) return absl::OkStatus();
  if (def->inputs.back().name != kOnlyIf) {
    return absl::UnimplementedError(absl::StrCat(
        "updates in this scope are conditional (Scope::OnlyIf), but this op updates a variable and has no input '",
        kOnlyIf, "'"));
  }
  inputs.push_back(condition);
  return absl::OkStatus();
}

// True if a message has the location, or ends with another: "... (model.cc:17)".
bool HasLocation(absl::string_view message, const std::string& location) {
  const size_t found = message.find(location), after = found + location.size();
  if (found != message.npos && (after == message.size() || !absl::ascii_isdigit(message[after]))) return true;
  if (!absl::ConsumeSuffix(&message, ")")) return false;
  const size_t open = message.rfind('('), colon = message.rfind(':');
  int line;
  return open != message.npos && colon != message.npos && open < colon &&
         absl::SimpleAtoi(message.substr(colon + 1), &line);
}

}  // namespace

absl::Status Scope::WithOwnLine(const absl::Status& status) const {
  const std::string location = location_.known() ? location_.ToString() : "";
  if (location.empty() || HasLocation(status.message(), location)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " (", location, ")"));
}

Scope Scope::Beside(const Node& node) {
  Scope scope(*node.graph_);
  scope.name_ = node.name().substr(0, node.name().rfind('/') + 1);
  return scope.With([&](Facts& facts) { static_cast<NodeFacts&>(facts) = node.facts(); });
}

void Scope::Fail(const absl::Status& status) const { graph_->Fail(WithOwnLine(status)); }

Scope Scope::NameScope(absl::string_view name, SourceLocation location) const {
  if (facts_->tower < 0 && graph_->IsTowerScope(name)) {
    if (location_.known()) location = location_;
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "The scope of tower '", name, "' is entered from outside the tower, which would lose the tower's device, ",
        "variables, random numbers and statistics. Use the tower's own scope, and tower.Variables(\"path\") for ",
        "variables of another network (", location.ToString(), ")")));
  }
  Scope scope = *this;
  scope.wanted_name_.clear();
  if (name.empty()) {
    scope.name_.clear();
  } else if (absl::EndsWith(name, "/")) {
    scope.name_ = std::string(name);
  } else {
    scope.name_ = absl::StrCat(graph_->UniqueName(absl::StrCat(name_, name)), "/");
  }
  return scope;
}

template <class Change>
Scope Scope::With(const Change& change) const {
  Scope scope = *this;
  auto facts = std::make_shared<Facts>(*facts_);
  change(*facts);
  scope.facts_ = std::move(facts);
  return scope;
}

Scope Scope::VariableScope(absl::string_view name) const {
  return NameScope(name).With(
      [&](Facts& facts) { absl::StrAppend(&facts.variable_path, absl::StripSuffix(name, "/"), "/"); });
}

Scope Scope::Variables(absl::string_view path) const {
  return NameScope(absl::StripSuffix(path, "/")).With([&](Facts& facts) {
    facts.variable_path = absl::StrCat(absl::StripSuffix(path, "/"), "/");
  });
}

Scope Scope::Device(absl::string_view device, SourceLocation location) const {
  if (device.empty()) return *this;
  absl::StatusOr<DeviceName> parsed = DeviceName::Parse(device);
  if (!parsed.ok()) {
    Fail(MalformedDevice(device, parsed.status(), location));
    return *this;
  }
  const Scope scope = Device(*parsed);
  if (scope.device() != *parsed) return scope;
  return scope.With([&](Facts& facts) { facts.device_text = std::string(device); });
}

Scope Scope::Device(const DeviceName& device) const {
  return With([&](Facts& facts) {
    facts.device = MergeOverride(facts.device, device);
    facts.device_text = facts.device.ToString();
    facts.colocated_with.clear();
  });
}

Scope Scope::NoDevice() const {
  return With([&](Facts& facts) {
    facts.device = DeviceName();
    facts.device_text.clear();
  });
}

Scope Scope::VariableDevice(absl::string_view device, SourceLocation location) const {
  absl::StatusOr<DeviceName> parsed = DeviceName::Parse(device);
  if (!parsed.ok()) {
    Fail(MalformedDevice(device, parsed.status(), location));
    return *this;
  }
  return With([&](Facts& facts) { facts.variable_device = *std::move(parsed); });
}

Scope Scope::ControlDependencies(absl::Span<const Output> outputs, SourceLocation location) const {
  std::vector<const Node*> nodes;
  for (const Output& output : outputs) nodes.push_back(output.node);
  return ControlDependencies(nodes, location);
}

Scope Scope::ControlDependencies(absl::Span<const Node* const> nodes, SourceLocation location) const {
  if (location_.known()) location = location_;
  return With([&](Facts& facts) {
    for (const Node* node : nodes) {
      if (node == nullptr) {
        Fail(absl::InvalidArgumentError(absl::StrCat(
            "A control dependency in scope '", name_,
            "' is an invalid Output (default-constructed, or a gradient that does not exist) or a null node (",
            location.ToString(), ")")));
        continue;
      }
      auto& inputs = facts.control_inputs;
      if (std::find(inputs.begin(), inputs.end(), node) == inputs.end()) inputs.push_back(node);
    }
  });
}

Scope Scope::NoControlDependencies() const {
  return With([&](Facts& facts) {
    facts.control_inputs.clear();
    facts.only_if = Output();
  });
}

Scope Scope::OnlyIf(Output condition) const {
  const Output outer = facts_->only_if;
  if (outer.valid() && condition.valid()) condition = Add(OpRole::kLogicalAnd, {outer, condition});
  return With([&](Facts& facts) { facts.only_if = condition; });
}

Scope Scope::ColocateWith(const Node& node) const {
  return With([&](Facts& facts) {
    facts.device = DeviceName();
    facts.device_text.clear();
    facts.colocated_with = {&node};
  });
}

Scope Scope::ReuseVariables(Reuse reuse) const {
  return With([&](Facts& facts) { facts.reuse = reuse; });
}

Scope Scope::ReadSlots(absl::string_view name) const {
  return With([&](Facts& facts) {
    facts.reuse = Reuse::kAlways;
    facts.read_slots = std::string(name);
  });
}

Scope Scope::Replica(int replica) const {
  return With([&](Facts& facts) { facts.replica = replica; });
}

Scope Scope::WithLocation(SourceLocation location) const {
  Scope scope = *this;
  scope.location_ = location;
  return scope;
}

Scope Scope::InPhase(Phase phase, const Node* computed_for) const {
  return With([&](Facts& facts) {
    facts.phase = phase;
    facts.computed_for = computed_for;
  });
}

Scope Scope::InTower(int tower) const {
  return With([&](Facts& facts) {
    facts.tower = tower;
    facts.tower_scope = tower < 0 ? "" : name_;
  });
}

Scope Scope::InTrainStep(absl::string_view name) const {
  return With([&](Facts& facts) { facts.train_step = std::string(name); });
}

Scope Scope::RandomCounters(Output step, Output first_example) const {
  return With([&](Facts& facts) {
    facts.random_step = step;
    facts.random_offset = first_example;
    facts.random_root = name_;
  });
}

Scope Scope::ShareStatistics(TowerGroup group) const {
  return With([&](Facts& facts) { facts.statistics_group = std::move(group); });
}

Scope Scope::Named(absl::string_view name) const {
  Scope scope = *this;
  scope.wanted_name_ = std::string(name);
  return scope;
}

std::vector<Output> Scope::random_counters() const {
  const Output step = facts_->random_step, first_example = facts_->random_offset;
  std::vector<Output> counters;
  if (step.valid()) counters.push_back(step);
  if (step.valid() && first_example.valid()) counters.push_back(first_example);
  return counters;
}

std::string Scope::random_path() const { return std::string(absl::StripPrefix(name_, facts_->random_root)); }

void Scope::AddToCollection(absl::string_view collection, Output output, SourceLocation location) const {
  if (output.valid()) return graph_->AddToCollection(collection, {output.node->name(), output});
  if (location_.known()) location = location_;
  Fail(absl::InvalidArgumentError(absl::StrCat(
      "A member of the collection '", collection, "' in scope '", name_,
      "' is an invalid Output (default-constructed, or a gradient that does not exist) (", location.ToString(), ")")));
}

void Scope::AddToCollection(absl::string_view collection, Tower tower) const {
  std::string path = tower.scope;
  graph_->AddToCollection(collection, {std::move(path), std::move(tower)});
}

const Node* Scope::AddNode(absl::string_view op, std::vector<Output> inputs, Attrs attrs) const {
  if (!status().ok()) return nullptr;
  for (const Output& input : inputs) {
    if (input.valid()) continue;
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "Cannot add a node of op ", op, " in scope '", name_,
        "': one of its inputs is an invalid Output (default-constructed, or a gradient that does not exist)",
        location_.Suffix())));
    return nullptr;
  }
  if (facts_->only_if.valid()) {
    if (absl::Status status = AddCondition(graph_->registry(), op, facts_->only_if, inputs); !status.ok()) {
      Fail(absl::Status(status.code(), absl::StrCat("Cannot add a node of op ", op, " in scope '", name_,
                                                    "': ", status.message(), location_.Suffix())));
      return nullptr;
    }
  }
  NodeRequest request{.op = std::string(op),
                      .name = absl::StrCat(name_, wanted_name_.empty() ? op : absl::string_view(wanted_name_)),
                      .inputs = std::move(inputs),
                      .attrs = std::move(attrs),
                      .facts = facts_,
                      .location = location_};
  for (const Node* control : facts_->control_inputs) {
    const bool data = std::any_of(request.inputs.begin(), request.inputs.end(),
                                  [&](const Output& input) { return input.node == control; });
    if (!data) request.control_inputs.push_back(control);
  }
  absl::StatusOr<const Node*> node = graph_->AddNode(std::move(request));
  if (!node.ok()) {
    graph_->Fail(node.status());  // which names the line itself
    return nullptr;
  }
  return *node;
}

Output Scope::Add(absl::string_view op, std::vector<Output> inputs, Attrs attrs) const {
  const Node* node = AddNode(op, std::move(inputs), std::move(attrs));
  return node == nullptr ? Output() : node->output(0);
}

const Node* Scope::AddNode(OpRole role, std::vector<Output> inputs, Attrs attrs) const {
  if (!status().ok()) return nullptr;
  const OpDef* op = graph_->registry().ForRole(role);
  if (op != nullptr) return AddNode(op->name, std::move(inputs), std::move(attrs));
  Fail(absl::NotFoundError(absl::StrCat("Cannot add a node in scope '", name_,
                                        "': no op of the graph's registry has the role ", OpRoleName(role),
                                        " (OpDef::role)", location_.Suffix())));
  return nullptr;
}

Output Scope::Add(OpRole role, std::vector<Output> inputs, Attrs attrs) const {
  const Node* node = AddNode(role, std::move(inputs), std::move(attrs));
  return node == nullptr ? Output() : node->output(0);
}

std::vector<Output> Scope::AddAll(absl::string_view op, std::vector<Output> inputs, Attrs attrs) const {
  std::vector<Output> outputs;
  if (const Node* node = AddNode(op, std::move(inputs), std::move(attrs))) {
    for (size_t i = 0; i < node->outputs().size(); ++i) outputs.push_back(node->output(static_cast<int>(i)));
  }
  return outputs;
}

}  // namespace belfry
