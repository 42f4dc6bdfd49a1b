#include "framework/runtime/program.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"
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

absl::Status Normalize(Program& program) {
  const auto size = static_cast<int>(program.nodes.size());
  std::vector<char> needed(size, 0);
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

  std::vector<int> pending(size, 0);
  std::vector<std::vector<int>> users(size);
  using Entry = std::pair<int64_t, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  int total = 0;
  for (int i = 0; i < size; ++i) {
    if (!needed[i]) continue;
    ++total;
    ProgramNode& node = program.nodes[i];
    std::sort(node.control_inputs.begin(), node.control_inputs.end());
    node.control_inputs.erase(std::unique(node.control_inputs.begin(), node.control_inputs.end()),
                              node.control_inputs.end());
    for (const Value& input : node.inputs) users[input.node].push_back(i);
    for (int control : node.control_inputs) users[control].push_back(i);
    pending[i] = static_cast<int>(node.inputs.size() + node.control_inputs.size());
    if (pending[i] == 0) ready.push({node.rank, i});
  }
  std::vector<int> order, new_index(size, -1);
  while (!ready.empty()) {
    const int i = ready.top().second;
    ready.pop();
    new_index[i] = static_cast<int>(order.size());
    order.push_back(i);
    for (int user : users[i]) {
      if (--pending[user] == 0) ready.push({program.nodes[user].rank, user});
    }
  }
  if (static_cast<int>(order.size()) != total) {
    std::string names;
    for (int i = 0; i < size; ++i) {
      if (needed[i] && new_index[i] < 0) absl::StrAppend(&names, " '", program.nodes[i].name, "'");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "The order of reads and updates of variables that this step asks for is a cycle, through:", names));
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

std::string Describe(const ProgramNode& node) {
  std::string text = absl::StrCat("node '", node.name, "' (op ", node.op->name);
  if (node.source->location().known()) absl::StrAppend(&text, ", asked for at ", node.source->location().ToString());
  return absl::StrCat(text, ")");
}

}  // namespace belfry
