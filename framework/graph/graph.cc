#include "framework/graph/graph.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

bool ValidName(absl::string_view name) {
  if (name.empty()) return false;
  const auto plain = [](char c) { return absl::ascii_isalnum(c) || c == '.'; };
  if (!plain(name.front()) || name.back() == '/') return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return plain(c) || c == '_' || c == '-' || c == '/' || c == '\\'; });
}

}  // namespace

bool InScope(absl::string_view path, absl::string_view scope) {
  scope = absl::StripSuffix(scope, "/");
  path = absl::StripSuffix(path, "/");
  if (scope.empty()) return true;
  if (!absl::StartsWith(path, scope)) return false;
  return path.size() == scope.size() || path[scope.size()] == '/';
}

Graph::Graph(const OpRegistry& registry) : registry_(registry) {}
Graph::~Graph() = default;

const Node* Graph::FindNode(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

// Names are in order, so the first below the scope shows whose it is.
bool Graph::IsTowerScope(absl::string_view name) const {
  if (!absl::EndsWith(name, "/")) return false;
  const auto found = by_name_.lower_bound(name);
  return found != by_name_.end() && found->second->tower_scope() == name;
}

void Graph::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

std::string Graph::UniqueName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  const auto [entry, free] = used_names_.try_emplace(lower, 1);
  if (free) return std::string(name);
  int suffix = entry->second;
  while (!used_names_.try_emplace(absl::StrCat(lower, "_", suffix), 1).second) ++suffix;
  used_names_[lower] = suffix + 1;
  return absl::StrCat(name, "_", suffix);
}

absl::StatusOr<const Node*> Graph::AddNode(NodeRequest request) {
  if (finalized_) return absl::FailedPreconditionError("Graph is finalized and cannot be modified.");
  auto node = std::unique_ptr<Node>(new Node());
  node->graph_ = this;
  if (absl::Status status = Build(request, *node); !status.ok()) {
    std::string text = absl::StrCat("Cannot add node '", request.name, "' (op ", request.op, "): ", status.message());
    if (request.location.known()) absl::StrAppend(&text, " (", request.location.ToString(), ")");
    return absl::Status(status.code(), text);
  }
  node->id_ = size();
  node->name_ = UniqueName(request.name);
  checked_ = node->facts_;
  by_name_[node->name_] = node.get();
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Graph::Bind(Output placeholder, Output value) {
  if (!status_.ok()) return;
  const bool fits = placeholder.valid() && placeholder.node->op().kind == OpKind::kPlaceholder && value.valid() &&
                    value.node->op().kind != OpKind::kPlaceholder && placeholder.dtype() == value.dtype() &&
                    placeholder.shape() == value.shape();
  if (fits && bound_.try_emplace(placeholder.node, value).second) return;
  Fail(absl::InvalidArgumentError(
      absl::StrCat("Cannot bind ", placeholder.name(), " to ", value.name(),
                   fits ? ": it is bound already" : "; expected a placeholder, and a value of its dtype and shape")));
}

Output Graph::BoundValue(const Node& placeholder) const {
  const auto found = bound_.find(&placeholder);
  return found == bound_.end() ? Output() : found->second;
}

void Graph::AddToCollection(absl::string_view collection, CollectionItem item) {
  collections_[std::string(collection)].push_back(std::move(item));
}

absl::Span<const CollectionItem> Graph::collection(absl::string_view name) const {
  const auto found = collections_.find(name);
  return found == collections_.end() ? absl::Span<const CollectionItem>() : absl::MakeConstSpan(found->second);
}

std::vector<Output> Graph::GetCollection(absl::string_view collection_name, absl::string_view scope) const {
  std::vector<Output> outputs;
  for (const CollectionItem& item : collection(collection_name)) {
    if (const auto* output = std::get_if<Output>(&item.value); output && InScope(item.path, scope)) {
      outputs.push_back(*output);
    }
  }
  return outputs;
}

std::vector<Tower> Graph::GetTowers(absl::string_view collection_name, absl::string_view scope) const {
  std::vector<Tower> towers;
  for (const CollectionItem& item : collection(collection_name)) {
    if (const auto* tower = std::get_if<Tower>(&item.value); tower && InScope(item.path, scope)) {
      towers.push_back(*tower);
    }
  }
  return towers;
}

Variable Graph::AddVariable(std::unique_ptr<VariableDef> variable) {
  VariableDef* def = variable.get();
  variable_by_key_[{def->logical_name, def->replica}] = def;
  variable_by_node_[def->node] = def;
  variables_.push_back(std::move(variable));
  return Variable(def);
}

void Graph::SetBeginsAs(const Variable& variable, const Variable& other, const Node* initializer) {
  VariableDef* const def = variable_by_node_.at(&variable.node());
  def->begins_as = &other.def();
  def->initial_value = other.def().initial_value;
  def->initializer = initializer;
}

Variable Graph::AddPart(std::unique_ptr<VariableDef> part) {
  parts_.push_back(std::move(part));
  return Variable(parts_.back().get());
}

Variable Graph::FindVariable(absl::string_view logical_name, int replica) const {
  const auto found = variable_by_key_.find(std::make_pair(std::string(logical_name), replica));
  return found == variable_by_key_.end() ? Variable() : Variable(found->second);
}

std::vector<Variable> Graph::variables() const {
  std::vector<Variable> variables;
  variables.reserve(variables_.size());
  for (const auto& variable : variables_) variables.push_back(Variable(variable.get()));
  return variables;
}

Variable Graph::VariableOf(const Node& node) const {
  const auto found = variable_by_node_.find(&node);
  BELFRY_CHECK(found != variable_by_node_.end());
  return Variable(found->second);
}

absl::Status Graph::Build(NodeRequest& request, Node& node) const {
  if (!ValidName(request.name)) {
    return absl::InvalidArgumentError(
        "a name must begin with a letter, a digit or '.', continue with these or '_', '-', '/', '\\', and not end with "
        "'/'");
  }
  const OpDef* op = registry_.Find(request.op);
  if (op == nullptr) return absl::NotFoundError("the graph's registry has no op of this name");
  node.op_ = op;
  node.inputs_ = std::move(request.inputs);
  node.control_inputs_ = std::move(request.control_inputs);
  if (request.facts == nullptr) return absl::InvalidArgumentError("it has no facts");
  node.facts_ = std::move(request.facts);
  node.location_ = request.location;
  RETURN_IF_ERROR(CheckReferences(node));
  if (node.facts_ != checked_) RETURN_IF_ERROR(CheckFacts(*node.facts_));
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (const Output& input : node.inputs_) {
    shapes.push_back(input.shape());
    dtypes.push_back(input.dtype());
  }
  ASSIGN_OR_RETURN(node.attrs_, CompleteAttrs(*op, dtypes, request.attrs));
  for (size_t i = 0; i < node.inputs_.size(); ++i) {
    const Node* source = node.inputs_[i].node;
    while (source->op().kind == OpKind::kView) source = source->input(0).node;
    if (op->input_arg(static_cast<int>(i)).ref && source->op().kind != OpKind::kVariable) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " ('", op->input_arg(static_cast<int>(i)).name,
                                                     "') must be a variable, but is ", node.inputs_[i].name()));
    }
  }
  ASSIGN_OR_RETURN(node.outputs_, InferOutputs(*op, node.attrs_, shapes, dtypes));
  return absl::OkStatus();
}

// Every pointer and index of a request, which the rest of the library follows without asking, is checked here and in
// CheckFacts.
absl::Status Graph::CheckReferences(const Node& node) const {
  for (const Output& input : node.inputs_) {
    if (!input.valid()) {
      return absl::InvalidArgumentError(
          "an input is an invalid Output (default-constructed, or a gradient that does not exist)");
    }
    if (input.node->graph_ != this) return absl::InvalidArgumentError("an input belongs to another graph");
    const auto outputs = static_cast<int>(input.node->outputs().size());
    if (input.index >= 0 && input.index < outputs) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", input.name(), " does not exist: its node has ", outputs,
                                                   outputs == 1 ? " output" : " outputs"));
  }
  for (const Node* control : node.control_inputs_) {
    if (control == nullptr) return absl::InvalidArgumentError("a control input is null");
    if (control->graph_ != this) return absl::InvalidArgumentError("a control input belongs to another graph");
  }
  return absl::OkStatus();
}

absl::Status Graph::CheckFacts(const NodeFacts& facts) const {
  for (const Node* other : facts.colocated_with) {
    if (other == nullptr) return absl::InvalidArgumentError("a node to be colocated with is null");
    if (other->graph_ != this)
      return absl::InvalidArgumentError("a node to be colocated with belongs to another graph");
  }
  if (facts.computed_for != nullptr && facts.computed_for->graph_ != this) {
    return absl::InvalidArgumentError("the node that it is computed for belongs to another graph");
  }
  if (facts.phase > Phase::kUpdate) {
    return absl::InvalidArgumentError(absl::StrCat("there is no phase ", static_cast<int>(facts.phase)));
  }
  if (facts.tower < -1) {
    return absl::InvalidArgumentError(absl::StrCat("there is no tower ", facts.tower, "; -1 means none"));
  }
  // A name that does not print as it reads would be another device in reports and in TensorBoard.
  const absl::StatusOr<DeviceName> device = DeviceName::Parse(facts.device.ToString());
  if (!device.ok())
    return absl::InvalidArgumentError(absl::StrCat("its device is malformed: ", device.status().message()));
  return absl::OkStatus();
}

}  // namespace belfry
