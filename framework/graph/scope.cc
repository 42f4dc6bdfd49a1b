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

void Scope::Fail(const absl::Status& status) const { graph_->Fail(WithOwnLine(status)); }

Scope Scope::NameScope(absl::string_view name) const {
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

Scope Scope::VariableScope(absl::string_view name) const {
  Scope scope = NameScope(name);
  scope.variable_path_ = absl::StrCat(variable_path_, absl::StripSuffix(name, "/"), "/");
  return scope;
}

Scope Scope::Device(absl::string_view device, SourceLocation location) const {
  if (device.empty()) return *this;
  absl::StatusOr<DeviceName> parsed = DeviceName::Parse(device);
  if (!parsed.ok()) {
    Fail(MalformedDevice(device, parsed.status(), location));
    return *this;
  }
  Scope scope = Device(*parsed);
  if (scope.device_ == *parsed) scope.device_text_ = std::string(device);
  return scope;
}

Scope Scope::Device(const DeviceName& device) const {
  Scope scope = *this;
  scope.device_ = MergeOverride(device_, device);
  scope.device_text_ = scope.device_.ToString();
  scope.colocated_with_ = nullptr;
  return scope;
}

Scope Scope::NoDevice() const {
  Scope scope = *this;
  scope.device_ = DeviceName();
  scope.device_text_.clear();
  return scope;
}

Scope Scope::VariableDevice(absl::string_view device, SourceLocation location) const {
  Scope scope = *this;
  absl::StatusOr<DeviceName> parsed = DeviceName::Parse(device);
  if (!parsed.ok()) {
    Fail(MalformedDevice(device, parsed.status(), location));
    return scope;
  }
  scope.variable_device_ = *parsed;
  scope.has_variable_device_ = true;
  return scope;
}

Scope Scope::ControlDependencies(absl::Span<const Output> outputs, SourceLocation location) const {
  std::vector<const Node*> nodes;
  for (const Output& output : outputs) nodes.push_back(output.node);
  return ControlDependencies(nodes, location);
}

Scope Scope::ControlDependencies(absl::Span<const Node* const> nodes, SourceLocation location) const {
  Scope scope = *this;
  if (location_.known()) location = location_;
  for (const Node* node : nodes) {
    if (node == nullptr) {
      Fail(absl::InvalidArgumentError(absl::StrCat(
          "A control dependency in scope '", name_,
          "' is an invalid Output (default-constructed, or a gradient that does not exist) or a null node (",
          location.ToString(), ")")));
      continue;
    }
    auto& inputs = scope.control_inputs_;
    if (std::find(inputs.begin(), inputs.end(), node) == inputs.end()) inputs.push_back(node);
  }
  return scope;
}

Scope Scope::NoControlDependencies() const {
  Scope scope = *this;
  scope.control_inputs_.clear();
  scope.only_if_ = Output();
  return scope;
}

Scope Scope::OnlyIf(Output condition) const {
  Scope scope = *this;
  const bool both = only_if_.valid() && condition.valid();
  scope.only_if_ = both ? Add(OpRole::kLogicalAnd, {only_if_, condition}) : condition;
  return scope;
}

Scope Scope::ColocateWith(const Node& node) const {
  Scope scope = NoDevice();
  scope.colocated_with_ = &node;
  return scope;
}

Scope Scope::ReuseVariables(Reuse reuse) const {
  Scope scope = *this;
  scope.reuse_ = reuse;
  return scope;
}

Scope Scope::Replica(int replica) const {
  Scope scope = *this;
  scope.replica_ = replica;
  return scope;
}

Scope Scope::WithLocation(SourceLocation location) const {
  Scope scope = *this;
  scope.location_ = location;
  return scope;
}

Scope Scope::InPhase(Phase phase, const Node* computed_for) const {
  Scope scope = *this;
  scope.phase_ = phase;
  scope.computed_for_ = computed_for;
  return scope;
}

Scope Scope::InTower(int tower) const {
  Scope scope = *this;
  scope.tower_ = tower;
  scope.tower_scope_ = name_;
  return scope;
}

Scope Scope::RandomCounters(Output step, Output first_example) const {
  Scope scope = *this;
  scope.random_step_ = step;
  scope.random_offset_ = first_example;
  scope.random_root_ = name_;
  return scope;
}

Scope Scope::ShareStatistics(TowerGroup group) const {
  Scope scope = *this;
  scope.statistics_group_ = std::move(group);
  return scope;
}

Scope Scope::Named(absl::string_view name) const {
  Scope scope = *this;
  scope.wanted_name_ = std::string(name);
  return scope;
}

std::vector<Output> Scope::random_counters() const {
  std::vector<Output> counters;
  if (random_step_.valid()) counters.push_back(random_step_);
  if (random_step_.valid() && random_offset_.valid()) counters.push_back(random_offset_);
  return counters;
}

std::string Scope::random_path() const { return std::string(absl::StripPrefix(name_, random_root_)); }

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
        location_.known() ? absl::StrCat(" (", location_.ToString(), ")") : "")));
    return nullptr;
  }
  if (only_if_.valid()) {
    if (absl::Status status = AddCondition(graph_->registry(), op, only_if_, inputs); !status.ok()) {
      Fail(absl::Status(status.code(),
                        absl::StrCat("Cannot add a node of op ", op, " in scope '", name_, "': ", status.message(),
                                     location_.known() ? absl::StrCat(" (", location_.ToString(), ")") : "")));
      return nullptr;
    }
  }
  NodeRequest request{.op = std::string(op),
                      .name = absl::StrCat(name_, wanted_name_.empty() ? op : absl::string_view(wanted_name_)),
                      .inputs = std::move(inputs),
                      .attrs = std::move(attrs),
                      .device = device_,
                      .device_text = device_text_,
                      .phase = phase_,
                      .computed_for = computed_for_,
                      .tower = tower_,
                      .tower_scope = tower_scope_,
                      .location = location_};
  for (const Node* control : control_inputs_) {
    const bool data = std::any_of(request.inputs.begin(), request.inputs.end(),
                                  [&](const Output& input) { return input.node == control; });
    if (!data) request.control_inputs.push_back(control);
  }
  if (colocated_with_ != nullptr) request.colocated_with.push_back(colocated_with_);
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
  Fail(absl::NotFoundError(absl::StrCat(
      "Cannot add a node in scope '", name_, "': no op of the graph's registry has the role ", OpRoleName(role),
      " (OpDef::role)", location_.known() ? absl::StrCat(" (", location_.ToString(), ")") : "")));
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
