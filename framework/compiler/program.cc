#include "framework/compiler/program.h"

#include <algorithm>
#include <queue>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

absl::StatusOr<std::vector<Shape>> FirstInputShape(const ShapeArgs& args) { return std::vector<Shape>{args.inputs[0]}; }

absl::StatusOr<std::vector<Shape>> ValueShape(const ShapeArgs& args) {
  return std::vector<Shape>{args.attrs.Get<Tensor>("value").shape()};
}

absl::StatusOr<std::vector<Shape>> ShapeAttr(const ShapeArgs& args) {
  return std::vector<Shape>{args.attrs.Get<Shape>("shape")};
}

OpDef MakeCopyOp(std::string name) {
  return {.name = std::move(name),
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "y"}},
          .types = {{"T", kAnyType}},
          .shape = FirstInputShape,
          .not_differentiable = true,
          .stateful = true};
}

}  // namespace

const OpDef& FeedOp() {
  static const auto* const op = new OpDef{.name = "_Feed",
                                          .outputs = {{.name = "value"}},
                                          .types = {{"T", kAnyType}},
                                          .attrs = {{"shape", Shape(), true}},
                                          .shape = ShapeAttr,
                                          .stateful = true,
                                          .kind = OpKind::kPlaceholder};
  return *op;
}

const OpDef& ConstantOp() {
  static const auto* const op = new OpDef{.name = "_Constant",
                                          .outputs = {{.name = "value"}},
                                          .types = {{"T", kAnyType}},
                                          .attrs = {{"value", Tensor(), true}},
                                          .shape = ValueShape,
                                          .kind = OpKind::kConst};
  return *op;
}

const OpDef& CopyOp() {
  static const auto* const op = new OpDef(MakeCopyOp("_Copy"));
  return *op;
}

const OpDef& TransferOp() {
  static const auto* const op = new OpDef(MakeCopyOp("_Transfer"));
  return *op;
}

const OpDef& OrderOp() {
  static const auto* const op =
      new OpDef{.name = "_Order", .not_differentiable = true, .stateful = true, .kind = OpKind::kNoOp};
  return *op;
}

const OpDef& ElementwiseOp() {
  static const auto* const op =
      new OpDef{.name = "_Elementwise",
                .inputs = {{.name = "inputs", .list = true}},
                .outputs = {{.name = "outputs", .list = true}},
                .types = {{"T", kAnyType}},
                .shape = [](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> {
                  return absl::InternalError("element-wise nodes are fused only after shapes are known");
                },
                .not_differentiable = true};
  return *op;
}

const OpDef& UpdatesOp() {
  static const auto* const op = new OpDef{.name = "_Updates",
                                          .inputs = {{.name = "inputs", .list = true}},
                                          .types = {{"T", kAnyType}},
                                          .not_differentiable = true,
                                          .stateful = true};
  return *op;
}

const OpDef& JoinedOp() {
  static const auto* const op = new OpDef{.name = "_Joined",
                                          .inputs = {{.name = "inputs", .list = true}},
                                          .outputs = {{.name = "outputs", .list = true}},
                                          .types = {{"T", kAnyType}},
                                          .not_differentiable = true,
                                          .stateful = true};
  return *op;
}

std::vector<ProgramNode> JoinedNodes(const ProgramNode& node) {
  std::vector<ProgramNode> nodes = node.body;
  for (ProgramNode& each : nodes) {
    for (Value& input : each.inputs) input = node.inputs[input.index];
  }
  return nodes;
}

std::vector<bool> SharedInputs(const ProgramNode& node) {
  const size_t inputs = node.body[0].inputs.size();
  std::vector<bool> shared(inputs, true);
  for (size_t m = 1; m < node.body.size(); ++m) {
    for (size_t k = 0; k < inputs; ++k) {
      shared[k] = shared[k] && node.inputs[m * inputs + k] == node.inputs[k];
    }
  }
  return shared;
}

ProgramNode AsElementwise(const ProgramNode& node) {
  if (node.op == &ElementwiseOp()) return node;
  ProgramNode one = node;
  one.op = &ElementwiseOp();
  one.attrs = {{"T", node.outputs[0].dtype}};
  one.inputs.clear();
  one.body = {node};
  ProgramNode& member = one.body[0];
  member.control_inputs.clear();
  for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
    if (node.op->input_arg(k).shape_only) {
      member.inputs[k] = {-1, -1};
      continue;
    }
    const auto same = absl::c_find(one.inputs, node.inputs[k]);
    member.inputs[k] = {-1, static_cast<int>(same - one.inputs.begin())};
    if (same == one.inputs.end()) one.inputs.push_back(node.inputs[k]);
  }
  if (Updates(node)) {
    one.outputs.clear();
  } else {
    one.results = {0};
  }
  return one;
}

const ArgDef& InputArg(const ProgramNode& node, int index) {
  if (node.op == &ElementwiseOp()) {
    const ProgramNode& last = node.body.back();
    for (int k = 0; k < static_cast<int>(last.inputs.size()); ++k) {
      if (last.inputs[k] == Value{-1, index} && last.op->input_arg(k).ref) return last.op->input_arg(k);
    }
  }
  if (node.op != &UpdatesOp() && node.op != &JoinedOp()) return node.op->input_arg(index);
  auto member = node.body.begin();
  for (; index >= static_cast<int>(member->inputs.size()); ++member) index -= static_cast<int>(member->inputs.size());
  return InputArg(*member, index);
}

bool Updates(const ProgramNode& node) {
  for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
    if (InputArg(node, k).ref) return true;
  }
  return false;
}

std::vector<TensorSpec> InputSpecs(const Program& program, const ProgramNode& node) {
  std::vector<TensorSpec> specs;
  for (const Value& input : node.inputs) specs.push_back(program.spec(input));
  return specs;
}

std::vector<TensorSpec> InputSpecs(const Program& program, const ProgramNode& node, const ProgramNode& member) {
  std::vector<TensorSpec> specs;
  for (const Value& input : member.inputs) {
    specs.push_back(input.node >= 0    ? node.body[input.node].outputs[0]
                    : input.index >= 0 ? program.spec(node.inputs[input.index])
                                       : TensorSpec());
  }
  return specs;
}

// A block of an output is written when its member runs; until then members may read the same place as an input. The
// result of a reduction has no blocks.
std::vector<std::pair<int, int>> InPlace(const ProgramNode& node) {
  if (node.op != &ElementwiseOp()) return node.op->in_place;
  std::vector<std::pair<int, int>> pairs;
  for (int output = 0; output < static_cast<int>(node.results.size()); ++output) {
    if (!node.body[node.results[output]].op->elementwise) continue;
    std::vector<int> readers(node.inputs.size(), 0);
    for (int m = 0; m < static_cast<int>(node.body.size()); ++m) {
      const ProgramNode& member = node.body[m];
      const bool moves = !member.op->elementwise && member.op->element_code != nullptr;  // reads other places
      if (m < node.results[output] && !moves) continue;
      for (int k = 0; k < static_cast<int>(member.inputs.size()); ++k) {
        const Value input = member.inputs[k];
        if (input.node >= 0 || input.index < 0) continue;
        const bool over = m == node.results[output] && absl::c_linear_search(member.op->in_place, std::pair(k, 0));
        readers[input.index] += over ? 1 : 2;
      }
    }
    for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
      if (readers[input] < 2) pairs.emplace_back(input, output);
    }
  }
  return pairs;
}

Value Root(const Program& program, Value value) {
  while (true) {
    const ProgramNode& node = program.nodes[value.node];
    if (node.op->kind == OpKind::kView) {
      value = node.inputs[0];
    } else if (node.op->kind == OpKind::kAllReduce) {
      return value;
    } else if (!node.op->outputs.empty() && node.op->output_arg(value.index).ref) {
      value = node.inputs[value.index];
    } else {
      return value;
    }
  }
}

namespace {

// By node: whether the fetches, targets or feeds of a program need it.
std::vector<char> Needed(const Program& program) {
  std::vector<char> needed(program.nodes.size(), 0);
  std::vector<int> stack;
  const auto need = [&](int node) {
    if (!needed[node]) stack.push_back(node);
    needed[node] = 1;
  };
  for (const Value& fetch : program.fetches) need(fetch.node);
  for (int target : program.targets) need(target);
  for (const Value& feed : program.feeds) need(feed.node);
  while (!stack.empty()) {
    const ProgramNode& node = program.nodes[stack.back()];
    stack.pop_back();
    for (const Value& input : node.inputs) need(input.node);
    for (int control : node.control_inputs) need(control);
  }
  return needed;
}

// Emits needed nodes in a topological order: of those that are ready, the smallest (rank, index) first. The nodes of
// one collective are emitted together, once all are ready, so that every device meets its collectives in the same
// order.
class Sorter {
 public:
  Sorter(const Program& program, std::vector<char> needed)
      : program_(program),
        needed_(std::move(needed)),
        pending_(needed_.size(), 0),
        users_(needed_.size()),
        groups_(program.collectives.size()) {}

  std::vector<int> Run() {
    const auto size = static_cast<int>(needed_.size());
    for (int i = 0; i < size; ++i) {
      if (!needed_[i]) continue;
      const ProgramNode& node = program_.nodes[i];
      for (const Value& input : node.inputs) users_[input.node].push_back(i);
      for (int control : node.control_inputs) users_[control].push_back(i);
      pending_[i] = static_cast<int>(node.inputs.size() + node.control_inputs.size());
      if (node.op->kind == OpKind::kAllReduce) ++groups_[node.collective].missing;
    }
    for (int i = 0; i < size; ++i) {
      if (needed_[i] && pending_[i] == 0) Arrive(i);
    }
    while (!ready_.empty()) {
      const int i = ready_.top().second;
      ready_.pop();
      if (program_.nodes[i].op->kind != OpKind::kAllReduce) {
        Emit(i);
        continue;
      }
      for (int member : groups_[program_.nodes[i].collective].members) Emit(member);
    }
    return std::move(order_);
  }

 private:
  struct Group {
    int missing = 0;  // nodes that are not ready
    std::vector<int> members;
  };

  void Arrive(int i) {
    const ProgramNode& node = program_.nodes[i];
    if (node.op->kind == OpKind::kAllReduce) {
      Group& group = groups_[node.collective];
      group.members.push_back(i);
      if (--group.missing > 0) return;
    }
    ready_.push({node.rank, i});
  }

  void Emit(int i) {
    order_.push_back(i);
    for (int user : users_[i]) {
      if (--pending_[user] == 0) Arrive(user);
    }
  }

  using Entry = std::pair<int64_t, int>;
  const Program& program_;
  const std::vector<char> needed_;
  std::vector<int> pending_;             // by node: inputs that were not emitted yet
  std::vector<std::vector<int>> users_;  // by node
  std::vector<Group> groups_;            // by collective
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;
  std::vector<int> order_;
};

absl::Status Cycle(const Program& program, const std::vector<char>& needed, const std::vector<int>& new_index) {
  std::string names;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] && new_index[i] < 0) absl::StrAppend(&names, " '", program.nodes[i].name, "'");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "The step has a cycle: reads and updates of variables, or collectives, wait for each other through:", names));
}

}  // namespace

std::string AttrsKey(const Attrs& attrs) {
  std::string key;
  for (const auto& [name, value] : attrs.values()) {
    absl::StrAppend(&key, name, "=");
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      absl::StrAppend(&key, DTypeName(tensor->dtype()), tensor->shape().ToString(), ":",
                      absl::string_view(static_cast<const char*>(tensor->raw()), tensor->bytes()), ";");
    } else if (const auto* number = std::get_if<double>(&value)) {
      absl::StrAppend(&key, absl::string_view(reinterpret_cast<const char*>(number), sizeof(*number)), ";");
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      absl::StrAppend(&key, text->size(), ":", *text, ";");
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      absl::StrAppend(&key, absl::StrJoin(*list, ","), ";");
    } else {
      absl::StrAppend(&key, AttrToString(value), ";");
    }
  }
  return key;
}

std::vector<int> CountUses(const Program& program) {
  std::vector<int> uses(program.nodes.size(), 0);
  for (const ProgramNode& node : program.nodes) {
    for (const Value& input : node.inputs) ++uses[input.node];
    for (int control : node.control_inputs) ++uses[control];
  }
  for (const Value& fetch : program.fetches) ++uses[fetch.node];
  for (int target : program.targets) ++uses[target];
  return uses;
}

void DropControlsOnConstants(const Program& program, ProgramNode& node) {
  std::vector<int>& controls = node.control_inputs;
  const auto constant = [&](int control) {
    const ProgramNode& before = program.nodes[control];
    return before.op->kind == OpKind::kConst && before.control_inputs.empty();
  };
  controls.erase(std::remove_if(controls.begin(), controls.end(), constant), controls.end());
}

absl::Status Normalize(Program& program) {
  for (ProgramNode& node : program.nodes) DropControlsOnConstants(program, node);
  const std::vector<char> needed = Needed(program);
  for (ProgramNode& node : program.nodes) {
    std::vector<int>& controls = node.control_inputs;
    std::sort(controls.begin(), controls.end());
    controls.erase(std::unique(controls.begin(), controls.end()), controls.end());
  }
  const std::vector<int> order = Sorter(program, needed).Run();
  std::vector<int> new_index(program.nodes.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) new_index[order[i]] = static_cast<int>(i);
  if (static_cast<int64_t>(order.size()) != std::count(needed.begin(), needed.end(), 1)) {
    return Cycle(program, needed, new_index);
  }
  std::vector<ProgramNode> nodes;
  nodes.reserve(order.size());
  for (int i : order) {
    nodes.push_back(std::move(program.nodes[i]));
    for (Value& input : nodes.back().inputs) input.node = new_index[input.node];
    for (int& control : nodes.back().control_inputs) control = new_index[control];
  }
  program.nodes = std::move(nodes);
  for (Value& value : program.feeds) value.node = new_index[value.node];
  for (Value& value : program.fetches) value.node = new_index[value.node];
  for (int& target : program.targets) target = new_index[target];
  return absl::OkStatus();
}

Value AddCopy(Program& program, const OpDef& op, Value value, int device, int64_t rank) {
  const ProgramNode& from = program.nodes[value.node];
  ProgramNode copy{.name = absl::StrCat(from.name, &op == &TransferOp() ? "/_transfer_to_" : "/_copy_on_", device),
                   .op = &op,
                   .attrs = {{"T", from.outputs[value.index].dtype}},
                   .inputs = {value},
                   .outputs = {from.outputs[value.index]},
                   .source = from.source,
                   .device = device,
                   .rank = rank};
  program.nodes.push_back(std::move(copy));
  return {static_cast<int>(program.nodes.size()) - 1, 0};
}

size_t BucketBytes(const Program& program, const ProgramNode& node) {
  size_t bytes = 0;
  for (size_t k = 0; k < node.outputs.size() / node.ranks.size(); ++k) bytes += AlignUp(node.outputs[k].bytes());
  const std::string& reduction = node.attrs.String("reduction");
  if (reduction != "reduce_scatter" && reduction != "all_gather") return bytes;
  const auto ranks = static_cast<size_t>(program.collectives[node.collective].size);
  return SliceBytes(bytes, ranks) * ranks;
}

std::string Describe(const ProgramNode& node) {
  std::string text = absl::StrCat("node '", node.name, "' (op ", node.op->name);
  if (!node.body.empty()) {
    const bool updates = node.op == &UpdatesOp();  // all of one op
    const auto name = [&](std::string* out, const ProgramNode& member) {
      out->append(updates ? member.name : member.op->name);
    };
    absl::StrAppend(&text, " of ", updates ? absl::StrCat(node.body[0].op->name, ": ") : "",
                    absl::StrJoin(node.body, ", ", name));
  }
  if (node.source->location().known()) absl::StrAppend(&text, ", defined at ", node.source->location().ToString());
  return absl::StrCat(text, ")");
}

}  // namespace belfry
