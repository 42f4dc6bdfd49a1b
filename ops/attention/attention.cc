#include "ops/attention.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/attention/attention_impl.h"
#include "ops/attention/attention_ops.h"
#include "ops/attention/problem_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/math.h"

namespace belfry::ops {
namespace attention {

Problem MakeProblem(const KernelSpec& spec, bool packed, size_t mask_at) {
  const Shape &q = spec.inputs[0].shape, &k = spec.inputs[packed ? 0 : 1].shape;
  Problem p;
  p.n = q[0], p.t = q[1], p.s = k[1], p.d = q[3];
  p.g = packed ? spec.attrs.Int("kv_heads") : k[2];
  p.h = packed ? q[2] - 2 * p.g : q[2];
  p.q_row = q[2] * p.d, p.k_row = k[2] * p.d, p.y_row = p.h * p.d;
  p.causal = spec.attrs.Bool("causal");
  p.scale = spec.attrs.Float("scale");
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<double>(p.d));
  p.masked = spec.inputs.size() > mask_at;
  if (!p.masked) return p;
  const Shape& mask = spec.inputs[mask_at].shape;
  int64_t stride = 1;
  for (int axis = 1; axis <= mask.rank(); ++axis) {
    p.mask[static_cast<size_t>(4 - axis)] = mask[-axis] == 1 ? 0 : stride;
    stride *= mask[-axis];
  }
  return p;
}

}  // namespace attention
namespace {

absl::Status CheckScale(const Attrs& attrs) {
  const double scale = attrs.Float("scale");
  if (std::isfinite(static_cast<float>(scale)) && scale >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("scale must be finite and not negative, but is ", scale));
}

absl::Status CheckHeads(const Shape& shape, int64_t h, int64_t g) {
  const int64_t d = shape[3];
  if (d == 0) return absl::InvalidArgumentError(absl::StrCat("a head of ", shape.ToString(), " has no elements"));
  if (h == Shape::kUnknown || g == Shape::kUnknown || (h > 0 && g > 0 && h % g == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the number of heads of queries, ", h, ", must be a multiple of that of keys, ", g));
}

absl::Status CheckMask(const ShapeArgs& args, size_t at, const Shape& scores) {
  if (args.inputs.size() <= at) return absl::OkStatus();
  const Shape& mask = args.inputs[at];
  bool fits = mask.rank() <= 4;
  for (int axis = 1; fits && axis <= mask.rank(); ++axis) {
    const int64_t extent = mask[-axis];
    fits = extent == 1 || extent == scores[-axis] || extent == Shape::kUnknown || scores[-axis] == Shape::kUnknown;
  }
  if (fits && args.inputs.size() == at + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the mask ", mask.ToString(), " does not broadcast to the scores' shape ", scores.ToString()));
}

absl::StatusOr<std::vector<Shape>> AttentionShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckScale(args.attrs));
  ASSIGN_OR_RETURN(const Shape k, args.inputs[1].Merge(args.inputs[2]));
  Shape q = args.inputs[0];
  if (q.rank() != 4 || k.rank() != 4 || !Shape({q[0], q[3]}).CompatibleWith(Shape({k[0], k[3]}))) {
    return absl::InvalidArgumentError(absl::StrCat("needs q [N, T, H, D] and k and v [N, S, G, D], but was given ",
                                                   q.ToString(), " and ", k.ToString()));
  }
  if (q[0] == Shape::kUnknown) q.set_dim(0, k[0]);
  if (q[3] == Shape::kUnknown) q.set_dim(3, k[3]);
  RETURN_IF_ERROR(CheckHeads(q, q[2], k[2]));
  RETURN_IF_ERROR(CheckMask(args, 3, Shape({q[0], q[2], q[1], k[1]})));
  return std::vector<Shape>{q, Shape({q[0], q[2], q[1]})};
}

absl::StatusOr<std::vector<Shape>> SelfAttentionShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckScale(args.attrs));
  Shape y = args.inputs[0];
  const int64_t g = args.attrs.Int("kv_heads");
  if (y.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("needs qkv [N, T, H + 2 G, D], but was given ", y.ToString()));
  }
  if (g < 1 || g > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("kv_heads is ", g));
  }
  if (y[2] != Shape::kUnknown) {
    const int64_t h = y[2] - 2 * g;
    if (h < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("qkv ", y.ToString(), " has no heads for queries beside two times kv_heads, ", g));
    }
    y.set_dim(2, h);
  }
  RETURN_IF_ERROR(CheckHeads(y, y[2], g));
  RETURN_IF_ERROR(CheckMask(args, 1, Shape({y[0], y[2], y[1], y[1]})));
  return std::vector<Shape>{y, Shape({y[0], y[2], y[1]})};
}

// The gradients have the shapes of the inputs.
template <size_t count>
absl::StatusOr<std::vector<Shape>> AttentionGradShape(const ShapeArgs& args) {
  return std::vector<Shape>(args.inputs.begin(), args.inputs.begin() + count);
}

template <int inputs>
std::vector<Output> AttentionGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> operands;
  for (int i = 0; i < inputs; ++i) operands.push_back(node.input(i));
  operands.insert(operands.end(), {node.output(0), node.output(1), dy[0]});
  if (node.inputs().size() > inputs) operands.push_back(node.input(inputs));
  Attrs attrs;
  for (const auto& [name, value] : node.attrs().values()) {
    if (name != "T" && name != "U") attrs.Set(name, value);
  }
  std::vector<Output> gradients = scope.AddAll(node.op().name + "Grad", std::move(operands), std::move(attrs));
  gradients.resize(node.inputs().size());
  return gradients;
}

// The same with all scores in memory. Heads of queries are in groups g of r that read one head of keys.
template <bool packed>
Differentiable ForwardOfOps(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  constexpr size_t kDy = packed ? 3 : 5;
  const Attrs& attrs = node.attrs();
  std::vector<Output> xs(inputs.begin(), inputs.begin() + kDy - 2), parts = xs;
  if (packed) parts = Split(scope, xs[0], 2, {-1, attrs.Int("kv_heads"), attrs.Int("kv_heads")});
  if (parts.size() != 3) return {};
  Output q = parts[0], k = parts[1], v = parts[2];
  const Extent n = Extent::Of(q, 0), t = Extent::Of(q, 1), d = Extent::Of(q, 3), s = Extent::Of(k, 1);
  const Extent h = Extent::Of(q, 2), g = Extent::Of(k, 2);
  // Next to an extent of 0 one that is left open would be ambiguous.
  const bool known = q.shape()[2] > 0 && k.shape()[2] > 0;
  const Extent r = known ? q.shape()[2] / k.shape()[2] : -1;
  const double factor = attrs.Float("scale");
  // The sum of ones is D, which may be unknown.
  q = factor > 0 ? Scale(scope, q, factor) : Mul(scope, q, Rsqrt(scope, Sum(scope, OnesLike(scope, q), 3, true)));
  Output scores = Einsum(scope, "ntgrd,nsgd->ngrts", {Reshape(scope, q, {n, t, g, r, d}), k});
  scores = Reshape(scope, scores, {n, h, t, s});
  if (inputs.size() > kDy + 1) scores = Add(scope, scores, StopGradient(scope, inputs[kDy + 1]));
  const double lowest = -std::numeric_limits<double>::infinity();
  Output hidden = Equal(scope, scores, lowest);
  if (attrs.Bool("causal")) {
    const auto behind = [&](int axis) {  // positions after this one
      return Cumsum(scope, OnesLike(scope, scores), axis, {.exclusive = true, .reverse = true});
    };
    hidden = LogicalOr(scope, hidden, Less(scope, behind(3), behind(2)));
  }
  const Output top = StopGradient(scope, Max(scope, Select(scope, hidden, lowest, scores), 3, /*keep_dims=*/true));
  const Output below = Select(scope, hidden, 0, Sub(scope, scores, top));
  const Output powers = Select(scope, hidden, 0, Exp(scope, below));
  const Output sum = Sum(scope, powers, 3, /*keep_dims=*/true);  // 0 where a query sees no key
  const Output weights = Div(scope, powers, Select(scope, Equal(scope, sum, 0), 1, sum));
  const Output y = Einsum(scope, "ngrts,nsgd->ntgrd", {Reshape(scope, weights, {n, g, r, t, s}), v});
  return {{ReshapeLike(scope, y, q)}, std::move(xs), {inputs[kDy]}};
}

// The two products of scores and values, and in the gradient the scores again and four more.
template <bool packed, int mask_at, int products>
double AttentionFlops(const KernelSpec& of) {
  return 2 * products * attention::MakeProblem(of, packed, mask_at).Products();
}

Output AddAttention(const Scope& scope, absl::string_view op, std::vector<Output> inputs,
                    const AttentionOptions& options, Attrs attrs) {
  if (options.mask.valid()) {
    Output mask = options.mask;
    if (mask.dtype() == DType::kBool && inputs[0].valid()) {
      const DType dtype = inputs[0].dtype();
      mask = Select(scope, mask, Fill(scope, {}, 0, dtype),
                    Fill(scope, {}, -std::numeric_limits<double>::infinity(), dtype));
    }
    inputs.push_back(mask);
  }
  const bool wide = inputs[0].valid() && inputs[0].dtype() == DType::kFloat64;
  attrs.Set("U", wide ? DType::kFloat64 : DType::kFloat32);
  attrs.Set("causal", options.causal);
  attrs.Set("scale", options.scale);
  return scope.Add(op, std::move(inputs), std::move(attrs));
}

// An op and its gradient, for q, k and v apart or packed into one tensor.
struct Form {
  std::string name;
  std::vector<ArgDef> inputs, gradients;
  std::vector<AttrDef> attrs;
  ShapeFunction shape;
};
Form Separate() {
  return {"Attention",
          {{"q"}, {"k"}, {"v"}},
          {{"dq"}, {"dk"}, {"dv"}},
          {{"causal", false}, {"scale", 0.0}},
          AttentionShape};
}
Form Packed() {
  return {"SelfAttention",
          {{"qkv"}},
          {{"dqkv"}},
          {{"kv_heads", int64_t{1}}, {"causal", false}, {"scale", 0.0}},
          SelfAttentionShape};
}
std::vector<TypeVar> AttentionTypes() { return {{"T", kFloatTypes}, {"U", kWideFloatTypes}}; }
ArgDef SumsArg() { return {.name = "log_sum_exp", .type = "U"}; }
ArgDef MaskArg() { return {.name = "mask", .list = true}; }

template <bool packed>
void RegisterForward(OpRegistry& registry, const Form& form) {
  constexpr int kInputs = packed ? 1 : 3;
  OpDef forward = {.name = form.name,
                   .inputs = form.inputs,
                   .outputs = {{"y"}, SumsArg()},
                   .types = AttentionTypes(),
                   .attrs = form.attrs,
                   .shape = form.shape,
                   .flops = AttentionFlops<packed, kInputs, 2>,
                   .gradient = AttentionGradient<kInputs>,
                   .kernels = Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                     return [](const KernelSpec& spec) {
                       return attention::MakeForward<typename decltype(tag)::type>(spec, packed);
                     };
                   })};
  forward.inputs.push_back(MaskArg());
  registry.Add(forward);
}

template <bool packed>
void RegisterBackward(OpRegistry& registry, const Form& form) {
  constexpr int kInputs = packed ? 1 : 3;
  OpDef backward = {.name = form.name + "Grad",
                    .inputs = form.inputs,
                    .outputs = form.gradients,
                    .types = AttentionTypes(),
                    .attrs = form.attrs,
                    .shape = AttentionGradShape<kInputs>,
                    .flops = AttentionFlops<packed, kInputs + 3, 5>,
                    .gradient = GradientOfGradient(ForwardOfOps<packed>),
                    .kernels = Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                      return [](const KernelSpec& spec) {
                        return attention::MakeBackward<typename decltype(tag)::type>(spec, packed);
                      };
                    })};
  backward.inputs.insert(backward.inputs.end(), {{"y"}, SumsArg(), {"dy"}, MaskArg()});
  registry.Add(backward);
}

}  // namespace

Output Attention(OpScope scope, Output q, Output k, Output v, const AttentionOptions& options) {
  return AddAttention(scope, "Attention", {q, k, v}, options, {});
}
Output SelfAttention(OpScope scope, Output qkv, int64_t kv_heads, const AttentionOptions& options) {
  return AddAttention(scope, "SelfAttention", {qkv}, options, {{"kv_heads", kv_heads}});
}

void RegisterAttention(OpRegistry& registry) {
  RegisterForward<false>(registry, Separate());
  RegisterForward<true>(registry, Packed());
}

void RegisterAttentionGradients(OpRegistry& registry) {
  RegisterBackward<false>(registry, Separate());
  RegisterBackward<true>(registry, Packed());
}

}  // namespace belfry::ops
