#include "framework/compiler/passes/repeating_row.h"

namespace belfry {
namespace {

// Broadcasting `from` to `to` repeats it as a whole, rather than stretching axes within it.
bool IsTail(const Shape& from, const Shape& to) {
  int first = 0;
  while (first < from.rank() && from[first] == 1) ++first;
  for (int axis = first; axis < from.rank(); ++axis) {
    const int at = axis + to.rank() - from.rank();
    if (at < 0 || from[axis] != to[at]) return false;
  }
  return true;
}

}  // namespace

int64_t RepeatingRow(const Program& program, const ProgramNode& node) {
  const Shape& to = node.outputs[0].shape;
  int64_t row = 1;
  for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
    const ArgDef& arg = node.op->input_arg(k);
    const Shape& from = program.spec(node.inputs[k]).shape;
    if (arg.ref || arg.shape_only || from.elements() == to.elements() || from.elements() == 1) continue;
    const bool repeats = IsTail(from, to) && (row == 1 || row == from.elements());
    if (!repeats) return 0;
    row = from.elements();
  }
  return row;
}

}  // namespace belfry
