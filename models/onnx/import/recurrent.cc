#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/recurrent.h"
#include "ops/sequence.h"

namespace belfry::onnx {
namespace {

constexpr int64_t kLstmGates[] = {0, 2, 3, 1};  // i, f, g, o of i, o, f, g
constexpr int64_t kGruGates[] = {1, 0, 2};      // r, z, n of z, r, n

// The properties that all directions share.
struct Recurrence {
  Output x;        // [N, T, I]
  Output lengths;  // int32 [N]; invalid: all have T steps
  bool lstm = false;
  absl::Span<const int64_t> gates;
  int64_t units = 0;
};

struct Direction {
  Output y, hidden, cell;
};

// Rows [begin, begin + gates * H) of direction d of [D, rows, ...], with the gates in our order.
Output GatesOf(const Scope& scope, Output all, int64_t d, int64_t begin, const Recurrence& recurrence) {
  const Output one = ops::Squeeze(scope, ops::StridedSlice(scope, all, {d}, {d + 1}), {0});
  std::vector<Output> parts;
  for (const int64_t gate : recurrence.gates) {
    const int64_t from = begin + gate * recurrence.units;
    parts.push_back(ops::StridedSlice(scope, one, {from}, {from + recurrence.units}));
  }
  return ops::Concat(scope, parts, 0);
}

Output StateOf(Importer& to, int i, int64_t d) {
  if (!to.Has(i)) return Output();
  return ops::Squeeze(to.scope(), ops::StridedSlice(to.scope(), to.In(i), {d}, {d + 1}), {0});
}

Output Reversed(const Scope& scope, const Recurrence& recurrence, Output x) {
  if (recurrence.lengths.valid()) return ops::ReverseSequence(scope, x, recurrence.lengths);
  return ops::StridedSlice(scope, x, {0, ops::kSliceEnd}, {ops::kSliceEnd, -ops::kSliceEnd}, {1, -1});
}

Direction RunDirection(Importer& to, const Recurrence& recurrence, int64_t d, bool reversed) {
  const Scope& scope = to.scope();
  const auto n = static_cast<int64_t>(recurrence.gates.size()) * recurrence.units;
  const Output x = reversed ? Reversed(scope, recurrence, recurrence.x) : recurrence.x;
  const Output weights = ops::Transpose(scope, GatesOf(scope, to.In(1), d, 0, recurrence), {1, 0});
  const Output recurrent = ops::Transpose(scope, GatesOf(scope, to.In(2), d, 0, recurrence), {1, 0});
  Output biases, state_biases;
  if (to.Has(3)) {
    biases = GatesOf(scope, to.In(3), d, 0, recurrence);
    state_biases = GatesOf(scope, to.In(3), d, n, recurrence);
  }
  Direction result;
  if (recurrence.lstm) {
    if (biases.valid()) biases = ops::Add(scope, biases, state_biases);
    ops::LstmOptions options{.biases = biases, .lengths = recurrence.lengths};
    options.initial_hidden = StateOf(to, 5, d);
    options.initial_cell = StateOf(to, 6, d);
    const ops::LstmOutputs lstm = ops::Lstm(scope, x, weights, recurrent, options);
    result = {lstm.y, lstm.hidden, lstm.cell};
  } else {
    const ops::GruOutputs gru = ops::Gru(scope, x, weights, recurrent,
                                         {.biases = biases,
                                          .recurrent_biases = state_biases,
                                          .initial_hidden = StateOf(to, 5, d),
                                          .lengths = recurrence.lengths});
    result = {gru.y, gru.hidden, Output()};
  }
  if (reversed && result.y.valid()) result.y = Reversed(scope, recurrence, result.y);
  return result;
}

absl::Status CheckRecurrence(Importer& to, bool lstm) {
  for (const char* const name : {"clip", "activation_alpha", "activation_beta"}) {
    if (to.Attribute(name) != nullptr) return absl::UnimplementedError(absl::StrCat(name, " is not covered"));
  }
  if (const AttributeProto* const activations = to.Attribute("activations")) {
    static constexpr absl::string_view kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
    const int period = lstm ? 3 : 2;
    for (int i = 0; i < activations->strings_size(); ++i) {
      if (activations->strings(i) != kDefaults[i % period]) {
        return absl::UnimplementedError(absl::StrCat("activation ", activations->strings(i), " is not covered"));
      }
    }
  }
  if (to.Int("input_forget", 0) != 0 || to.Has(7)) return absl::UnimplementedError("peepholes are not covered");
  if (!lstm && to.Int("linear_before_reset", 0) == 0) {
    return absl::UnimplementedError("linear_before_reset = 0 is not covered: the reset gate comes after the product");
  }
  if (lstm && to.Has(5) != to.Has(6)) return absl::UnimplementedError("it has one initial state only");
  return absl::OkStatus();
}

absl::Status Recurrent(Importer& to) {
  const Scope& scope = to.scope();
  const bool lstm = to.rule().op == "LSTM", batch_first = to.Int("layout", 0) != 0;
  RETURN_IF_ERROR(CheckRecurrence(to, lstm));
  if (batch_first) return absl::UnimplementedError("layout = 1 is not covered");
  const std::string direction = to.String("direction", "forward");
  const Shape x = to.ShapeOf(0), recurrent = to.ShapeOf(2);
  if (x.rank() != 3 || recurrent.rank() != 3 || recurrent[2] == Shape::kUnknown) {
    return absl::InvalidArgumentError("its input is not [T, N, C], or its recurrent weights not [D, gates H, H]");
  }
  Recurrence recurrence{.x = ops::Transpose(scope, to.In(0), {1, 0, 2}), .lstm = lstm};
  recurrence.gates = lstm ? absl::MakeConstSpan(kLstmGates) : absl::MakeConstSpan(kGruGates);
  recurrence.units = recurrent[2];
  if (to.Has(4)) recurrence.lengths = ops::Cast(scope, to.In(4), DType::kInt32);
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  std::vector<Output> y, hidden, cells;
  for (int64_t d = 0; d < directions; ++d) {
    const Direction one = RunDirection(to, recurrence, d, direction == "reverse" || d == 1);
    if (!one.y.valid()) return absl::OkStatus();
    y.push_back(ops::Transpose(scope, one.y, {1, 0, 2}));
    hidden.push_back(one.hidden);
    if (lstm) cells.push_back(one.cell);
  }
  const auto joined = [&](const std::vector<Output>& parts, int64_t axis) {
    return parts.size() == 1 ? ops::ExpandDims(scope, parts[0], axis) : ops::Stack(scope, parts, axis);
  };
  to.Out(joined(y, 1));
  to.Out(joined(hidden, 0), Order::kOnnx, 1);
  if (lstm) to.Out(joined(cells, 0), Order::kOnnx, 2);
  return absl::OkStatus();
}

constexpr ImportRule kRecurrent[] = {{"LSTM", Recurrent}, {"GRU", Recurrent}};

}  // namespace

absl::Span<const ImportRule> RecurrentImports() { return kRecurrent; }

}  // namespace belfry::onnx
