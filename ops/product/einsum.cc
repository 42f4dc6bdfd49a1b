#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

// A tensor whose axes have these labels, one letter each.
struct Labelled {
  Output x;
  std::string labels;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// The labels of `from` that are (not) in `in`, in their order.
std::string Only(const std::string& from, const std::string& in, bool present = true) {
  std::string kept;
  for (const char label : from) {
    if (Has(in, label) == present) kept += label;
  }
  return kept;
}

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

absl::Status CheckLabels(const std::string& labels, absl::string_view what) {
  for (const char label : labels) {
    if (!absl::ascii_isalpha(static_cast<unsigned char>(label))) {
      return absl::InvalidArgumentError(absl::StrCat("'", std::string(1, label), "' in the ", what, " '", labels,
                                                     "' is not a letter (an ellipsis is not supported)"));
    }
    if (std::count(labels.begin(), labels.end(), label) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(1, label), "' occurs twice in the ", what, " '", labels, "'"));
    }
  }
  return absl::OkStatus();
}

// Without an arrow the result has the labels that occur once, in alphabetical order.
std::string ImpliedOutput(const std::vector<std::string>& inputs) {
  std::string all, once;
  for (const std::string& labels : inputs) all += labels;
  std::sort(all.begin(), all.end());
  for (const char label : all) {
    if (std::count(all.begin(), all.end(), label) == 1) once += label;
  }
  return once;
}

absl::StatusOr<Equation> ParseEquation(absl::string_view text) {
  const std::string plain = absl::StrReplaceAll(text, {{" ", ""}});
  const std::vector<std::string> sides = absl::StrSplit(plain, "->");
  if (sides.size() > 2) return absl::InvalidArgumentError("there is more than one '->'");
  Equation equation{absl::StrSplit(sides[0], ','), ""};
  for (const std::string& labels : equation.inputs) RETURN_IF_ERROR(CheckLabels(labels, "operand"));
  equation.output = sides.size() == 2 ? sides[1] : ImpliedOutput(equation.inputs);
  RETURN_IF_ERROR(CheckLabels(equation.output, "result"));
  for (const char label : equation.output) {
    const auto has = [&](const std::string& labels) { return Has(labels, label); };
    if (std::none_of(equation.inputs.begin(), equation.inputs.end(), has)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", std::string(1, label), "' of the result occurs in no operand"));
    }
  }
  return equation;
}

absl::Status CheckOperands(const Equation& equation, absl::Span<const Output> operands) {
  if (equation.inputs.size() != operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", operands.size(), " operands for ", equation.inputs.size()));
  }
  std::string seen;
  std::vector<std::pair<int64_t, size_t>> extents;  // of a label, and the operand
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape& shape = operands[i].shape();
    const std::string& labels = equation.inputs[i];
    if (shape.rank() != static_cast<int>(labels.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("operand ", i, " is ", shape.ToString(), ", which '", labels, "' does not describe"));
    }
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const char label = labels[static_cast<size_t>(axis)];
      if (shape[axis] == Shape::kUnknown) continue;
      if (const size_t at = seen.find(label); at == std::string::npos) {
        seen += label;
        extents.emplace_back(shape[axis], i);
      } else if (extents[at].first != shape[axis]) {
        return absl::InvalidArgumentError(absl::StrCat("'", std::string(1, label), "' is ", extents[at].first,
                                                       " in operand ", extents[at].second, " and ", shape[axis],
                                                       " in operand ", i));
      }
    }
  }
  return absl::OkStatus();
}

Labelled Transposed(const Scope& scope, const Labelled& from, const std::string& to) {
  if (from.labels == to) return from;
  std::vector<int64_t> perm;
  for (const char label : to) perm.push_back(static_cast<int64_t>(from.labels.find(label)));
  return {Transpose(scope, from.x, perm), to};
}

// `from` summed over the labels that are not in `kept`.
Labelled Summed(const Scope& scope, const Labelled& from, const std::string& kept) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.labels.size(); ++i) {
    if (!Has(kept, from.labels[i])) axes.push_back(static_cast<int64_t>(i));
  }
  return axes.empty() ? from : Labelled{Sum(scope, from.x, axes), Only(from.labels, kept)};
}

// x with `count` axes from `first` on as one axis: a new one if there are none.
Output AsOneAxis(const Scope& scope, Output x, size_t first, size_t count) {
  if (count == 1) return x;
  const auto at = static_cast<int64_t>(first);
  return count == 0 ? ExpandDims(scope, x, at) : MergeAxes(scope, x, at, at + static_cast<int64_t>(count) - 1);
}

// The product without a sum: both operands get axes of extent 1 for the labels that they lack.
Labelled Multiplied(const Scope& scope, const Labelled& a, const Labelled& b, const std::string& labels) {
  const auto spread = [&](const Labelled& from) {
    Output x = Transposed(scope, from, Only(labels, from.labels)).x;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!Has(from.labels, labels[i])) x = ExpandDims(scope, x, static_cast<int64_t>(i));
    }
    return x;
  };
  return {Mul(scope, spread(a), spread(b)), labels};
}

// A factor of a matrix product: [batch..., rows, columns], or with `transposed` [batch..., columns, rows], whichever
// takes no transposition of the tensor.
struct Factor {
  Output x;
  bool transposed;
};
Factor AsFactor(const Scope& scope, const Labelled& from, const std::string& batch, std::string rows,
                std::string columns) {
  const bool transposed = from.labels == batch + columns + rows && from.labels != batch + rows + columns;
  if (transposed) std::swap(rows, columns);
  const Output x = Transposed(scope, from, batch + rows + columns).x;
  const Output merged = AsOneAxis(scope, x, batch.size() + rows.size(), columns.size());
  return {AsOneAxis(scope, merged, batch.size(), rows.size()), transposed};
}

// Multiplies a and b, and sums over the labels that are not in `kept`.
Labelled Contract(const Scope& scope, const Labelled& first, const Labelled& second, const std::string& kept) {
  const Labelled a = Summed(scope, first, kept + second.labels), b = Summed(scope, second, kept + first.labels);
  const std::string common = Only(a.labels, b.labels), batch = Only(kept, common);
  const std::string sums = Only(common, kept, false);
  const std::string rows = Only(a.labels, b.labels, false), columns = Only(b.labels, a.labels, false);
  const std::string labels = batch + rows + columns;
  if (sums.empty()) return Multiplied(scope, a, b, Only(kept, labels));
  const Factor x = AsFactor(scope, a, batch, rows, sums), y = AsFactor(scope, b, batch, sums, columns);
  const Output product = MatMul(scope, x.x, y.x, {.transpose_a = x.transposed, .transpose_b = y.transposed});
  if (rows.size() == 1 && columns.size() == 1) return {product, labels};
  std::vector<Extent> extents;
  for (const char label : labels) {
    const Labelled& from = Has(a.labels, label) ? a : b;
    extents.push_back(Extent::Of(from.x, static_cast<int64_t>(from.labels.find(label))));
  }
  return {Reshape(scope, product, extents), labels};
}

}  // namespace

Output Einsum(OpScope scope, absl::string_view equation, absl::Span<const Output> operands) {
  if (std::any_of(operands.begin(), operands.end(), [](const Output& x) { return !x.valid(); })) return Output();
  const absl::StatusOr<Equation> parsed = ParseEquation(equation);
  absl::Status status = parsed.ok() ? CheckOperands(*parsed, operands) : parsed.status();
  if (!status.ok()) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("Einsum '", equation, "': ", status.message())));
    return Output();
  }
  Labelled result{operands[0], parsed->inputs[0]};
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string kept = parsed->output;
    for (size_t later = i + 1; later < operands.size(); ++later) {
      kept += Only(parsed->inputs[later], kept, false);
    }
    result = Contract(scope, result, {operands[i], parsed->inputs[i]}, kept);
  }
  return Transposed(scope, Summed(scope, result, parsed->output), parsed->output).x;
}

}  // namespace belfry::ops
