#include "framework/compiler/verify/versions_impl.h"

#include <algorithm>

#include "framework/graph/infer.h"

namespace belfry::verify {

Source SourceOf(const Program& program, Value value) {
  size_t begin = 0;
  while (true) {
    const ProgramNode& node = program.nodes[value.node];
    switch (node.op->kind) {
      case OpKind::kView:
        begin += static_cast<size_t>(ViewBegin(*node.op, node.attrs)) * SizeOf(node.outputs[0].dtype);
        value = node.inputs[0];
        continue;
      case OpKind::kKernel:
        if (node.body.empty() && node.op->output_arg(value.index).ref) {
          value = node.inputs[value.index];
          continue;
        }
        return {value, begin};
      case OpKind::kVariable: return {value, begin, /*variable=*/true};
      default: return {value, begin};
    }
  }
}

// Writers of one variable depend on one another, so the last one that a node depends on stands for all of them.
Versions::Versions(const Program& program) {
  const auto& nodes = program.nodes;
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    if (nodes[i].op->kind == OpKind::kView) continue;
    for (int k = 0; k < static_cast<int>(nodes[i].inputs.size()); ++k) {
      if (!InputArg(nodes[i], k).ref) continue;
      const Source source = SourceOf(program, nodes[i].inputs[k]);
      const size_t bytes = program.spec(nodes[i].inputs[k]).bytes();
      writes_[source.value.node].push_back({i, {source.begin, source.begin + bytes}});
    }
  }
  for (const auto& [variable, writes] : writes_) column_[variable] = static_cast<int>(columns_++);
  before_.assign(nodes.size() * columns_, -1);
  after_ = before_;
  for (size_t i = 0; i < nodes.size(); ++i) {
    int* const before = before_.data() + i * columns_;
    const auto depend = [&](int on) {
      const int* const of = after_.data() + static_cast<size_t>(on) * columns_;
      for (size_t c = 0; c < columns_; ++c) before[c] = std::max(before[c], of[c]);
    };
    for (const Value& input : nodes[i].inputs) depend(input.node);
    for (const int control : nodes[i].control_inputs) depend(control);
    std::copy_n(before, columns_, after_.data() + i * columns_);
    if (nodes[i].op->kind == OpKind::kView) continue;
    for (int k = 0; k < static_cast<int>(nodes[i].inputs.size()); ++k) {
      if (!InputArg(nodes[i], k).ref) continue;
      const int variable = SourceOf(program, nodes[i].inputs[k]).value.node;
      after_[i * columns_ + static_cast<size_t>(column_[variable])] = static_cast<int>(i);
    }
  }
}

int Versions::Latest(int last, int variable, Range part) const {
  int latest = -1;
  for (const VariableWrite& write : WritesOf(variable)) {
    if (write.node <= last && write.range.Meets(part)) latest = std::max(latest, write.node);
  }
  return latest;
}

int Versions::Expected(int reader, int variable, Range part) const {
  const auto column = column_.find(variable);
  if (column == column_.end()) return -1;
  return Latest(before_[static_cast<size_t>(reader) * columns_ + static_cast<size_t>(column->second)], variable, part);
}

int Versions::ExpectedAfter(int node, int variable, Range part) const {
  const auto column = column_.find(variable);
  if (column == column_.end()) return -1;
  return Latest(after_[static_cast<size_t>(node) * columns_ + static_cast<size_t>(column->second)], variable, part);
}

const std::vector<VariableWrite>& Versions::WritesOf(int variable) const {
  static const auto* const none = new std::vector<VariableWrite>;
  const auto found = writes_.find(variable);
  return found == writes_.end() ? *none : found->second;
}

}  // namespace belfry::verify
