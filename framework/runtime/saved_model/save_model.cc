#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/saved_model/format_impl.h"
#include "framework/runtime/saved_model/saved_model.h"

namespace belfry {
namespace {

using Json = nlohmann::json;

absl::Status Refuse(const Node& node, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("A saved model cannot contain '", node.name(), "' (op ",
                                                 node.op().name, "), which ", why, node.location().Suffix()));
}

bool Updates(const OpDef& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [](const ArgDef& input) { return input.ref; });
}

Json ToJson(double number) {
  if (std::isfinite(number)) return number;
  for (const auto& [text, value] : kNotInJson) {
    if (number == value) return text;
  }
  return "nan";
}

Json ToJson(const Shape& shape) {
  if (!shape.valid()) return nullptr;
  Json extents = Json::array();
  for (int i = 0; i < shape.rank(); ++i) {
    extents.push_back(shape[i] == Shape::kUnknown ? Json(nullptr) : Json(shape[i]));
  }
  return extents;
}

// The nodes of a model in an order in which inputs come before their readers.
class ModelNodes {
 public:
  ModelNodes(const Graph& graph, absl::Span<const NamedOutput> inputs) : graph_(graph) {
    for (const NamedOutput& input : inputs) {
      inputs_.insert(input.value.node);
      if (index_.try_emplace(input.value.node, size()).second) nodes_.push_back(input.value.node);
    }
  }

  absl::Status Add(const NamedOutput& output) {
    std::vector<std::pair<const Node*, size_t>> path = {{Resolve(output.value).node, 0}};
    while (!path.empty()) {
      auto& [node, next] = path.back();
      const absl::Span<const Output> inputs = InputsOf(*node);
      if (index_.contains(node)) {
        path.pop_back();
      } else if (next < inputs.size()) {
        path.emplace_back(Resolve(inputs[next++]).node, 0);
      } else {
        RETURN_IF_ERROR(Check(*node, output.name));
        index_.emplace(node, size());
        nodes_.push_back(node);
        path.pop_back();
      }
    }
    return absl::OkStatus();
  }

  const std::vector<const Node*>& nodes() const { return nodes_; }
  absl::Span<const Output> InputsOf(const Node& node) const {
    return node.op().kind == OpKind::kVariable ? absl::Span<const Output>() : node.inputs();
  }
  Json Reference(const Output& output) const {
    const Output resolved = Resolve(output);
    return {index_.at(resolved.node), resolved.index};
  }

 private:
  int size() const { return static_cast<int>(nodes_.size()); }

  // The value that a bound placeholder stands for.
  Output Resolve(Output output) const {
    while (!inputs_.contains(output.node) && output.node->op().kind == OpKind::kPlaceholder &&
           graph_.BoundValue(*output.node).valid()) {
      output = graph_.BoundValue(*output.node);
    }
    return output;
  }

  absl::Status Check(const Node& node, absl::string_view output) const {
    switch (node.op().kind) {
      case OpKind::kPlaceholder:
        return Refuse(node, absl::StrCat("output '", output, "' needs: a placeholder that is not among the inputs"));
      case OpKind::kAllReduce: return Refuse(node, "exchanges values between towers");
      default: return Updates(node.op()) ? Refuse(node, "updates a variable") : absl::OkStatus();
    }
  }

  const Graph& graph_;
  std::set<const Node*> inputs_;
  std::map<const Node*, int> index_;
  std::vector<const Node*> nodes_;
};

// The description of the nodes, with their tensors beside it.
class ModelDescription {
 public:
  ModelDescription(const ModelNodes& nodes, const Graph& graph) : nodes_(nodes), graph_(graph) {}

  Json Nodes() {
    Json list = Json::array();
    for (const Node* node : nodes_.nodes()) list.push_back(Describe(*node));
    return list;
  }
  std::vector<io::NamedTensor> TakeTensors() { return std::move(tensors_); }
  // The nodes that were floating-point variables, and whether each was trainable.
  const Json& Variables() const { return described_; }
  // The variables whose values the tensors of the same indices become.
  const std::vector<std::pair<size_t, Variable>>& variables() const { return variables_; }

 private:
  Json Describe(const Node& node) {
    if (node.op().kind == OpKind::kVariable) {
      const Variable variable = graph_.VariableOf(node);
      variables_.emplace_back(tensors_.size(), variable);
      // An average takes the place of its variable (Scope::ReadSlots).
      const VariableDef* const slot_of = variable.def().slot_of;
      const Variable of = slot_of == nullptr ? variable : Variable(slot_of);
      if (IsFloating(variable.dtype())) {
        described_.push_back({{"node", nodes_.Reference(node.output(0))[0]}, {"trainable", of.trainable()}});
      }
      const Json value = Keep(of.name(), Tensor());
      return {{"op", graph_.registry().ForRole(OpRole::kConst)->name},
              {"name", of.node().name()},
              {"inputs", Json::array()},
              {"attrs", {{"dtype", DTypeName(variable.dtype())}, {"value", value}}}};
    }
    Json inputs = Json::array(), attrs = Json::object();
    for (const Output& input : nodes_.InputsOf(node)) inputs.push_back(nodes_.Reference(input));
    for (const auto& [name, value] : node.attrs().values()) {
      attrs[name] = std::visit([&](const auto& held) { return Attribute(node, held); }, value);
    }
    return {{"op", node.op().name}, {"name", node.name()}, {"inputs", inputs}, {"attrs", attrs}};
  }

  template <class T>
  static Json Attribute(const Node&, const T& value) {
    return value;
  }
  static Json Attribute(const Node&, double value) { return ToJson(value); }
  static Json Attribute(const Node&, const Shape& value) { return ToJson(value); }
  static Json Attribute(const Node&, DType value) { return DTypeName(value); }
  Json Attribute(const Node& node, const Tensor& value) { return Keep(node.name(), value); }

  // The name under which the file has the tensor: `name`, with a suffix if that is taken.
  std::string Keep(const std::string& name, const Tensor& value) {
    std::string unique = name;
    for (int i = 1; !names_.insert(unique).second; ++i) unique = absl::StrCat(name, "_", i);
    tensors_.push_back({unique, value});
    return unique;
  }

  const ModelNodes& nodes_;
  const Graph& graph_;
  std::set<std::string> names_;
  std::vector<io::NamedTensor> tensors_;
  std::vector<std::pair<size_t, Variable>> variables_;
  Json described_ = Json::array();
};

absl::Status CheckNames(const Graph& graph, absl::Span<const NamedOutput> values, absl::string_view what) {
  std::set<std::string> names;
  for (const auto& [name, value] : values) {
    if (name.empty()) return absl::InvalidArgumentError(absl::StrCat("An ", what, " of a saved model has no name"));
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("Two ", what, "s of a saved model have the name '", name, "'"));
    }
    if (!value.valid() || &value.node->graph() != &graph) {
      return absl::InvalidArgumentError(
          absl::StrCat("The ", what, " '", name, "' of a saved model is invalid, or belongs to another graph"));
    }
  }
  return absl::OkStatus();
}

Json References(const ModelNodes& nodes, absl::Span<const NamedOutput> values) {
  Json list = Json::array();
  for (const auto& [name, value] : values) list.push_back({{"name", name}, {"value", nodes.Reference(value)}});
  return list;
}

}  // namespace

absl::Status SaveModel(Session& session, absl::Span<const NamedOutput> inputs, absl::Span<const NamedOutput> outputs,
                       const std::string& path) {
  const Graph& graph = session.graph();
  RETURN_IF_ERROR(graph.status());
  RETURN_IF_ERROR(CheckNames(graph, inputs, "input"));
  RETURN_IF_ERROR(CheckNames(graph, outputs, "output"));
  if (outputs.empty()) return absl::InvalidArgumentError("A saved model needs an output");
  for (const auto& [name, value] : inputs) {
    if (value.node->op().kind != OpKind::kPlaceholder) {
      return Refuse(*value.node, absl::StrCat("was given as input '", name, "' and is no placeholder"));
    }
  }
  ModelNodes nodes(graph, inputs);
  for (const NamedOutput& output : outputs) RETURN_IF_ERROR(nodes.Add(output));
  ModelDescription description(nodes, graph);
  Json list = description.Nodes();
  const Json model = {{"version", kSavedModelVersion},
                      {"nodes", std::move(list)},
                      {"inputs", References(nodes, inputs)},
                      {"outputs", References(nodes, outputs)},
                      {"variables", description.Variables()}};
  std::vector<Variable> variables;
  for (const auto& [index, variable] : description.variables()) variables.push_back(variable);
  std::vector<Tensor> values(variables.size());
  RETURN_IF_ERROR(session.ReadVariables(variables, absl::MakeSpan(values)));
  std::vector<io::NamedTensor> tensors = description.TakeTensors();
  for (size_t i = 0; i < values.size(); ++i) tensors[description.variables()[i].first].value = values[i];
  const std::string text = model.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  if (Json::parse(text, nullptr, /*allow_exceptions=*/false) != model) {
    return absl::InvalidArgumentError("A name or a text attribute of a saved model is not valid UTF-8");
  }
  return io::WriteSafetensors(path, tensors, {{kSavedModelKey, text}});
}

}  // namespace belfry
