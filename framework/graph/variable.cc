#include "framework/graph/variable.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "framework/graph/scope.h"

namespace belfry {
namespace {

// Names the source line of a request that cannot be met.
std::string AskedAt(const Scope& scope) {
  return scope.location().known() ? absl::StrCat(" Requested at ", scope.location().ToString(), ".") : "";
}

std::string MadeAt(const Variable& variable) {
  const SourceLocation where = variable.node().location();
  return where.known() ? absl::StrCat(" It was created at ", where.ToString(), ".") : "";
}

Variable Found(const Scope& scope, const Variable& variable, const Shape& shape, DType dtype) {
  if (variable.shape() != shape || variable.dtype() != dtype) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("Trying to share variable ", variable.name(), ", but specified ",
                                                       DTypeName(dtype), " ", shape.ToString(), " and found ",
                                                       DTypeName(variable.dtype()), " ", variable.shape().ToString(),
                                                       ".", AskedAt(scope), MadeAt(variable))));
    return Variable();
  }
  return variable;
}

// The scope that the variable's own nodes are made in: the tower's name scope, no control inputs, the variable's
// device, and the forward pass, whoever asks for the variable.
Scope StorageScope(const Scope& scope, const VariableOptions& options) {
  Scope storage = scope.NoControlDependencies().InPhase(Phase::kForward);
  if (options.slot_of.valid()) return storage.ColocateWith(options.slot_of.node());
  const bool has_device = scope.variable_device() != DeviceName();
  return has_device ? storage.NoDevice().Device(scope.variable_device()) : storage;
}

}  // namespace

const std::string& Variable::name() const {
  static const std::string& invalid = *new std::string("(invalid)");
  return valid() ? def_->logical_name : invalid;
}

Variable GetVariable(OpScope scope, absl::string_view name, const Shape& shape, const Initializer& initializer,
                     const VariableOptions& options) {
  if (!scope.status().ok()) return Variable();
  if (name.empty()) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("A variable needs a name.", AskedAt(scope))));
    return Variable();
  }
  const std::string logical_name = absl::StrCat(scope.variable_path(), name);
  if (const Variable existing = scope.graph().FindVariable(logical_name, scope.replica()); existing.valid()) {
    const Variable slot =
        scope.read_slots().empty()
            ? Variable()
            : scope.graph().FindVariable(absl::StrCat(logical_name, "/", scope.read_slots()), scope.replica());
    const Variable& found = slot.valid() ? slot : existing;
    if (scope.reuse() != Reuse::kNever) return Found(scope, found, shape, options.dtype);
    scope.Fail(absl::AlreadyExistsError(
        absl::StrCat("Variable ", logical_name, " already exists, disallowed. Did you mean to reuse it with ",
                     "scope.ReuseVariables(Reuse::kAlways) or kIfPresent?", AskedAt(scope), MadeAt(existing))));
    return Variable();
  }
  if (scope.reuse() == Reuse::kAlways) {
    scope.Fail(absl::NotFoundError(absl::StrCat("Variable ", logical_name,
                                                " does not exist, and the scope only reuses variables. Did you mean ",
                                                "Reuse::kIfPresent?", AskedAt(scope))));
    return Variable();
  }
  if (!shape.known()) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("Variable ", logical_name, " needs a fully known shape, not ",
                                                       shape.ToString(), ".", AskedAt(scope))));
    return Variable();
  }
  if (initializer == nullptr && !options.transient) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("Variable ", logical_name, " needs an initializer, not null.", AskedAt(scope))));
    return Variable();
  }
  const std::string prefix = scope.replica() > 0 ? absl::StrCat("replica_", scope.replica(), "/") : "";
  const Scope storage = StorageScope(scope, options).NameScope("");
  auto def = std::make_unique<VariableDef>();
  def->logical_name = logical_name;
  def->replica = scope.replica();
  def->trainable = options.trainable;
  def->transient = options.transient;
  if (options.slot_of.valid()) def->slot_of = &options.slot_of.def();
  def->node = storage.Named(absl::StrCat(prefix, logical_name))
                  .AddNode(OpRole::kVariable, {}, {{"T", options.dtype}, {"shape", shape}, {"name", logical_name}});
  if (def->node == nullptr) return Variable();
  if (initializer == nullptr) return scope.graph().AddVariable(std::move(def));
  const Scope initial = storage.NameScope(absl::StrCat(def->node->name(), "/Initializer/")).ColocateWith(*def->node);
  def->initial_value = initializer(initial, logical_name, options.dtype, shape);
  if (!def->initial_value.valid()) return Variable();
  def->initializer = storage.NameScope(absl::StrCat(def->node->name(), "/"))
                         .ColocateWith(*def->node)
                         .AddNode(OpRole::kAssign, {def->node->output(0), def->initial_value});
  if (def->initializer == nullptr) return Variable();
  return scope.graph().AddVariable(std::move(def));
}

Variable SliceOfVariable(OpScope scope, const Variable& variable, int64_t begin, int64_t size) {
  if (!variable.valid()) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("A part of an invalid Variable (default-constructed, or not found).", AskedAt(scope))));
    return Variable();
  }
  if (variable.def().part_of != nullptr) {
    return SliceOfVariable(scope, variable.whole(), variable.def().begin + begin, size);
  }
  const Scope beside =
      scope.NoControlDependencies().InPhase(Phase::kForward).NameScope("").ColocateWith(variable.node());
  auto def = std::make_unique<VariableDef>();
  def->logical_name = variable.name();
  def->replica = variable.replica();
  def->trainable = variable.trainable();
  def->part_of = &variable.def();
  def->begin = begin;
  def->node = beside.Named(absl::StrCat(variable.node().name(), "/part"))
                  .AddNode(OpRole::kFlatSlice, {variable}, {{"begin", begin}, {"size", size}});
  return def->node == nullptr ? Variable() : scope.graph().AddPart(std::move(def));
}

void BeginAs(OpScope scope, const Variable& variable, const Variable& other) {
  const Scope beside = scope.NoControlDependencies().InPhase(Phase::kForward).NameScope("");
  const Node* const initializer = beside.NameScope(absl::StrCat(variable.node().name(), "/"))
                                      .ColocateWith(variable.node())
                                      .AddNode(OpRole::kAssign, {variable, other.def().initial_value});
  if (initializer != nullptr) scope.graph().SetBeginsAs(variable, other, initializer);
}

const Node* InitializeVariables(OpScope scope) {
  std::vector<const Node*> initializers;
  for (const Variable& variable : scope.graph().variables()) {
    if (variable.def().initializer != nullptr) initializers.push_back(variable.def().initializer);
  }
  return scope.ControlDependencies(initializers).Named("init").AddNode(OpRole::kNoOp, {});
}

}  // namespace belfry
