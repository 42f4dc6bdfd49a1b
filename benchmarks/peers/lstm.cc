// Belfry's side of the comparison of an LSTM layer with PyTorch (lstm.py).
#include <cmath>
#include <cstdint>

#include "absl/flags/flag.h"
#include "benchmarks/peers/layer.h"
#include "ops/recurrent.h"

ABSL_FLAG(int64_t, batch_size, 32, "Sequences.");
ABSL_FLAG(int64_t, length, 64, "Steps of a sequence.");
ABSL_FLAG(int64_t, inputs, 256, "Width of the input.");
ABSL_FLAG(int64_t, units, 256, "Units of the layer.");
ABSL_FLAG(bool, gru, false, "Gated recurrent units instead of an LSTM.");

namespace belfry::benchmarks {
namespace {

absl::StatusOr<Layer> MakeRecurrent(const Scope& scope) {
  const int64_t n = absl::GetFlag(FLAGS_batch_size), t = absl::GetFlag(FLAGS_length);
  const int64_t inputs = absl::GetFlag(FLAGS_inputs), units = absl::GetFlag(FLAGS_units);
  const bool gru = absl::GetFlag(FLAGS_gru);
  const int64_t columns = (gru ? 3 : 4) * units;
  const float scale = 2 / std::sqrt(static_cast<float>(units));
  Layer layer{.name = gru ? "gru" : "lstm"};
  layer.dy = layer.Add(scope, {n, t, units});
  // x, weights, recurrent weights, biases and, for a GRU, recurrent biases.
  layer.xs = {layer.Add(scope, {n, t, inputs}), layer.Add(scope, {inputs, columns}, scale),
              layer.Add(scope, {units, columns}, scale), layer.Add(scope, {columns})};
  if (gru) layer.xs.push_back(layer.Add(scope, {columns}));
  const std::vector<Output>& in = layer.xs;
  layer.y = gru ? ops::Gru(scope, in[0], in[1], in[2], {.biases = in[3], .recurrent_biases = in[4]}).y
                : ops::Lstm(scope, in[0], in[1], in[2], {.biases = in[3]}).y;
  return layer;
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunLayer(argc, argv, "Times a recurrent layer.", belfry::benchmarks::MakeRecurrent);
}
