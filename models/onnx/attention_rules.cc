#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "models/onnx/exporter_impl.h"

namespace belfry::onnx {
namespace {

using std::string;

constexpr int64_t kHeadsFirst[] = {0, 2, 1, 3};  // [N, T, H, D] to [N, H, T, D], and back
constexpr int64_t kKeys[] = {0, 2, 3, 1};        // [N, S, G, D] to [N, G, D, S]

string Key(const Dim& dim) { return dim.name.empty() ? absl::StrCat(dim.size) : dim.name; }

// A scalar.
string ScalarOf(Exporter& to, const Dim& dim) { return to.Add("Squeeze", {to.NameOf(dim), to.Ints({0})}); }

// 0, 1 ... as int64 [dim].
string Positions(Exporter& to, const Dim& dim) {
  string& shared = to.Shared(absl::StrCat("positions ", Key(dim)));
  if (shared.empty()) {
    const string zero = to.builder().Number(0, DType::kInt64), one = to.builder().Number(1, DType::kInt64);
    shared = to.Add("Range", {zero, ScalarOf(to, dim), one});
  }
  return shared;
}

// bool [T, S]: the keys that a causal query does not see.
string Hidden(Exporter& to, const Dim& queries, const Dim& keys) {
  string& shared = to.Shared(absl::StrCat("hidden ", Key(queries), " ", Key(keys)));
  if (!shared.empty()) return shared;
  string last = Positions(to, queries);
  if (Key(queries) != Key(keys)) {
    last = to.Add("Add", {last, to.Add("Sub", {to.NameOf(keys), to.NameOf(queries)})});
  }
  return shared = to.Add("Greater", {to.Add("Unsqueeze", {Positions(to, keys), to.Ints({0})}),
                                     to.Add("Unsqueeze", {last, to.Ints({1})})});
}

// The sizes of one attention, and its operands.
struct Problem {
  string q, k, v, mask;  // [N, T, H, D], [N, S, G, D] twice, and perhaps a mask
  int64_t heads = 0, kv_heads = 0, width = 0;
  Dim queries, keys;
};

absl::Status WriteAttention(Exporter& to, const Problem& p) {
  const double infinity = std::numeric_limits<double>::infinity();
  double scale = to.attrs().Float("scale");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(p.width));
  string k = to.Transpose(p.k, kKeys), v = to.Transpose(p.v, kHeadsFirst);
  if (p.kv_heads != 1 && p.kv_heads != p.heads) {  // one head of keys is broadcast
    std::vector<int64_t> group;
    for (int64_t head = 0; head < p.heads; ++head) group.push_back(head * p.kv_heads / p.heads);
    k = to.Add("Gather", {k, to.Ints(group)}, {{"axis", int64_t{1}}});
    v = to.Add("Gather", {v, to.Ints(group)}, {{"axis", int64_t{1}}});
  }
  const string q = to.Add("Mul", {to.Transpose(p.q, kHeadsFirst), to.Number(scale)});
  string scores = to.Add("MatMul", {q, k});
  if (!p.mask.empty()) scores = to.Add("Add", {scores, p.mask});
  const bool causal = to.attrs().Bool("causal");
  if (causal) scores = to.Add("Where", {Hidden(to, p.queries, p.keys), to.Number(-infinity), scores});
  string weights = to.Add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  // A query that sees no key gives 0, where softmax gives NaN.
  if (!p.mask.empty() || (causal && Key(p.queries) != Key(p.keys))) {
    const string largest =
        to.Add("ReduceMax", {scores}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
    weights = to.Add("Where", {to.Add("Equal", {largest, to.Number(-infinity)}), to.Number(0), weights});
  }
  to.Out(to.Transpose(to.Add("MatMul", {weights, v}), kHeadsFirst));
  return absl::OkStatus();
}

absl::Status Attention(Exporter& to) {
  const Output q = to.node().input(0), k = to.node().input(1);
  Problem p = {.q = to.In(0), .k = to.In(1), .v = to.In(2)};
  if (to.node().inputs().size() > 3) p.mask = to.In(3);
  p.heads = q.shape()[2], p.kv_heads = k.shape()[2], p.width = q.shape()[3];
  if (p.heads < 0 || p.kv_heads < 0 || p.width < 0)
    return absl::UnimplementedError("the heads or their width are open");
  p.queries = to.DimOf(q, 1), p.keys = to.DimOf(k, 1);
  return WriteAttention(to, p);
}

absl::Status SelfAttention(Exporter& to) {
  const Output qkv = to.node().input(0);
  const int64_t kv_heads = to.attrs().Int("kv_heads"), heads = qkv.shape()[2] - 2 * kv_heads, width = qkv.shape()[3];
  if (qkv.shape()[2] < 0 || width < 0) return absl::UnimplementedError("the heads or their width are open");
  const std::vector<string> parts =
      to.builder().AddAll("Split", {to.In(0), to.Ints({heads, kv_heads, kv_heads})}, 3, {{"axis", int64_t{2}}});
  Problem p = {.q = parts[0], .k = parts[1], .v = parts[2], .heads = heads, .kv_heads = kv_heads, .width = width};
  if (to.node().inputs().size() > 1) p.mask = to.In(1);
  p.queries = p.keys = to.DimOf(qkv, 1);
  return WriteAttention(to, p);
}

// Cosines and sines [T, 1, pairs] of the angles of all positions. They are computed in double up to the remainder by
// 2 pi: as a float32, the angle of a distant position is not precise.
std::pair<string, string> Angles(Exporter& to, const Dim& positions, int64_t pairs, DType dtype) {
  const double base = to.attrs().Float("base");
  const int64_t offset = to.attrs().Int("offset");
  const string key = absl::StrCat("angles ", Key(positions), " ", pairs, " ", base, " ", offset, " ", DTypeName(dtype));
  if (to.Shared(key).empty()) {
    Tensor rates(DType::kFloat64, {1, 1, pairs});
    for (int64_t i = 0; i < pairs; ++i) {
      rates.data<double>()[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
    }
    string at = to.CastTo(Positions(to, positions), DType::kFloat64);
    if (offset != 0) at = to.Add("Add", {at, to.builder().Number(static_cast<double>(offset), DType::kFloat64)});
    at = to.Add("Unsqueeze", {at, to.Ints({1, 2})});
    const string angle = to.Add("Mul", {at, to.builder().Initializer("rates", rates)});
    const string turn = to.builder().Number(2 * M_PI, DType::kFloat64);
    const string rest = to.CastTo(to.Add("Mod", {angle, turn}, {{"fmod", int64_t{1}}}), dtype);
    to.Shared(key) = to.Add("Cos", {rest});
    to.Shared(key + " sin") = to.Add("Sin", {rest});
  }
  return {to.Shared(key), to.Shared(key + " sin")};
}

// The pair (a, b) rotated by the angles.
std::pair<string, string> Rotated(Exporter& to, const string& a, const string& b,
                                  const std::pair<string, string>& angles) {
  const auto& [cos, sin] = angles;
  const bool inverse = to.attrs().Bool("inverse");
  return {to.Add(inverse ? "Add" : "Sub", {to.Add("Mul", {a, cos}), to.Add("Mul", {b, sin})}),
          to.Add(inverse ? "Sub" : "Add", {to.Add("Mul", {b, cos}), to.Add("Mul", {a, sin})})};
}

// Rotates the first 2 `pairs` elements of each head of x [N, T, heads, d].
string RotateHeads(Exporter& to, const string& x, int64_t heads, int64_t d, int64_t pairs,
                   const std::pair<string, string>& angles) {
  std::vector<string> parts;
  const int64_t rest = d - 2 * pairs;
  if (!to.attrs().Bool("interleaved")) {
    std::vector<int64_t> sizes = {pairs, pairs};
    if (rest > 0) sizes.push_back(rest);
    parts = to.builder().AddAll("Split", {x, to.Ints(sizes)}, static_cast<int>(sizes.size()), {{"axis", int64_t{3}}});
    std::tie(parts[0], parts[1]) = Rotated(to, parts[0], parts[1], angles);
    return to.Add("Concat", parts, {{"axis", int64_t{3}}});
  }
  const auto slice = [&](int64_t begin, int64_t end, int64_t step) {
    return to.Add("Slice", {x, to.Ints({begin}), to.Ints({end}), to.Ints({3}), to.Ints({step})});
  };
  const auto [a, b] = Rotated(to, slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2), angles);
  const string both = to.Add("Concat", {to.Add("Unsqueeze", {a, to.Ints({4})}), to.Add("Unsqueeze", {b, to.Ints({4})})},
                             {{"axis", int64_t{4}}});
  const string rotated = to.Add("Reshape", {both, to.Ints({0, 0, heads, 2 * pairs})});
  if (rest == 0) return rotated;
  return to.Add("Concat", {rotated, slice(2 * pairs, d, 1)}, {{"axis", int64_t{3}}});
}

absl::Status Rotary(Exporter& to) {
  const Output x = to.node().input(0);
  const int64_t all = x.shape()[2], d = x.shape()[3];
  if (all < 0 || d < 0) return absl::UnimplementedError("the heads or their width are open");
  const int64_t width = to.attrs().Int("width"), given = to.attrs().Int("heads");
  const int64_t pairs = (width == 0 ? d : width) / 2, heads = given == 0 ? all : given;
  const auto angles = Angles(to, to.DimOf(x, 1), pairs, to.ComputeType());
  if (heads == all) {
    to.Out(RotateHeads(to, to.In(0), heads, d, pairs, angles));
    return absl::OkStatus();
  }
  const std::vector<string> parts =
      to.builder().AddAll("Split", {to.In(0), to.Ints({heads, all - heads})}, 2, {{"axis", int64_t{2}}});
  to.Out(to.Add("Concat", {RotateHeads(to, parts[0], heads, d, pairs, angles), parts[1]}, {{"axis", int64_t{2}}}));
  return absl::OkStatus();
}

// bool [N, T] of the T of input 0 and lengths [N].
absl::Status SequenceMask(Exporter& to) {
  const string steps = to.Add("Unsqueeze", {Positions(to, to.DimOf(to.node().input(0), 1)), to.Ints({0})});
  const string lengths = to.Add("Unsqueeze", {to.CastTo(to.In(1), DType::kInt64), to.Ints({1})});
  to.Out(to.Add("Less", {steps, lengths}));
  return absl::OkStatus();
}

constexpr Rule kAttentionRules[] = {
    {"Attention", Attention, "", false, true},
    {"SelfAttention", SelfAttention, "", false, true},
    {"Rotary", Rotary, "", false, true},
    {"SequenceMask", SequenceMask},
};

}  // namespace

absl::Span<const Rule> AttentionRules() { return kAttentionRules; }

}  // namespace belfry::onnx
