// Belfry's side of the comparison of self-attention with PyTorch (attention.py): one layer, causal.
#include <cstdint>
#include <string>

#include "absl/flags/flag.h"
#include "benchmarks/peers/layer.h"
#include "framework/base/status.h"
#include "ops/attention.h"

ABSL_FLAG(int64_t, batch_size, 8, "Sequences.");
ABSL_FLAG(int64_t, length, 256, "Positions of a sequence.");
ABSL_FLAG(int64_t, heads, 6, "Heads of queries.");
ABSL_FLAG(int64_t, kv_heads, 6, "Heads of keys and values.");
ABSL_FLAG(int64_t, width, 64, "Elements of a head.");
ABSL_FLAG(bool, causal, true, "Hide later positions.");
ABSL_FLAG(std::string, dtype, "float32", "float32 or bfloat16.");

namespace belfry::benchmarks {
namespace {

absl::StatusOr<Layer> MakeAttention(const Scope& scope) {
  ASSIGN_OR_RETURN(const DType dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  const int64_t heads = absl::GetFlag(FLAGS_heads), kv_heads = absl::GetFlag(FLAGS_kv_heads);
  const Shape y = {absl::GetFlag(FLAGS_batch_size), absl::GetFlag(FLAGS_length), heads, absl::GetFlag(FLAGS_width)};
  Shape qkv = y;
  qkv.set_dim(2, heads + 2 * kv_heads);
  Layer layer{.name = "attention"};
  layer.dy = layer.Add(scope, y, 1, dtype);
  layer.xs = {layer.Add(scope, qkv, 1, dtype)};
  layer.y = ops::SelfAttention(scope, layer.xs[0], kv_heads, {.causal = absl::GetFlag(FLAGS_causal)});
  return layer;
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunLayer(argc, argv, "Times causal self-attention.", belfry::benchmarks::MakeAttention);
}
