#include "ops/formula.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace belfry::formulas {
namespace {

bool IsVariable(const Node& node) { return node.op().kind == OpKind::kVariable; }

// The name scope of a node: "tower_0/" for "tower_0/Mul".
absl::string_view NameScopeOf(const Node& node) {
  return absl::string_view(node.name()).substr(0, node.name().rfind('/') + 1);
}

// The innermost name scope that contains both.
absl::string_view CommonScope(absl::string_view a, absl::string_view b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return a.substr(0, a.substr(0, static_cast<size_t>(end - a.begin())).rfind('/') + 1);
}

// The larger it is, the more a node says about where nodes that read it belong.
auto Weight(const Node& node) {
  const bool placed = node.requested_device() != DeviceName() || !node.colocated_with().empty();
  return std::tuple(!IsVariable(node), node.tower() >= 0, node.phase(), placed);
}

std::string Describe(const Node& node) {
  const std::string tower = node.tower() < 0 ? "" : absl::StrCat(" of tower ", node.tower());
  return absl::StrCat("'", node.name(), "'", tower, node.location().Suffix());
}

// The nodes of the tensors that are valid. Empty, with an error of both graphs, if they belong to two.
std::vector<const Node*> NodesOf(const std::vector<Term>& terms) {
  std::vector<const Node*> nodes;
  for (const Term& term : terms) {
    if (!term.output.valid()) continue;
    nodes.push_back(term.output.node);
    if (&nodes.front()->graph() == &nodes.back()->graph()) continue;
    const absl::Status mixture = absl::InvalidArgumentError(
        absl::StrCat("A formula has operands of two graphs: ", Describe(*nodes.front()), " and ",
                     Describe(*nodes.back()), ". It can only add a node to one graph, that of all its operands"));
    for (const Node* node : {nodes.front(), nodes.back()}) {
      Scope::Beside(*node).WithLocation(terms.front().location).Fail(mixture);
    }
    return {};
  }
  return nodes;
}

// The scope of a node that reads these. Nothing if none is valid, or after an error.
std::optional<Scope> ScopeOf(const std::vector<Term>& terms) {
  const std::vector<const Node*> nodes = NodesOf(terms);
  if (nodes.empty()) return std::nullopt;
  const Node& leading = **std::max_element(nodes.begin(), nodes.end(),
                                           [](const Node* a, const Node* b) { return Weight(*a) < Weight(*b); });
  const Scope scope = Scope::Beside(leading).WithLocation(terms.front().location);
  if (IsVariable(leading) && leading.tower() >= 0) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("A formula has no operand but variables, such as ", Describe(leading),
                     ". Towers may share these, so they do not tell which tower it belongs to; write the op with the "
                     "tower's scope, as in ops::Square(tower, variable)")));
    return std::nullopt;
  }
  absl::string_view name = NameScopeOf(leading);
  for (const Node* node : nodes) {
    if (IsVariable(*node) && !IsVariable(leading)) continue;
    if (node->tower() < 0 && leading.tower() >= 0) continue;
    if (node->tower() != leading.tower() || node->tower_scope() != leading.tower_scope()) {
      scope.Fail(absl::InvalidArgumentError(
          absl::StrCat("A formula has operands of two towers: ", Describe(leading), " and ", Describe(*node),
                       ". Its device and its name come from its operands; write the op with the scope that it belongs "
                       "to, as in ops::Add(scope, a, b)")));
      return std::nullopt;
    }
    name = CommonScope(name, NameScopeOf(*node));
  }
  return scope.NameScope(absl::StartsWith(name, leading.tower_scope()) ? name : leading.tower_scope());
}

void Collect(const Term& x, std::vector<Term>& terms) { terms.push_back(x); }
void Collect(const Operand& x, std::vector<Term>& terms) { terms.emplace_back(x.tensor(), x.location()); }
template <class Option>
void Collect(const Option&, std::vector<Term>&) {}

Output Plain(const Term& x) { return x.output; }
template <class Option>
const Option& Plain(const Option& option) {
  return option;
}

// op(scope, arguments...) in the scope of the tensors among them.
template <class Op, class... Arguments>
Output Apply(Op op, const Arguments&... arguments) {
  std::vector<Term> terms;
  (Collect(arguments, terms), ...);
  const std::optional<Scope> scope = ScopeOf(terms);
  return scope.has_value() ? op(*scope, Plain(arguments)...) : Output();
}

absl::Status OutOfRange(int64_t element, size_t axis, Output x) {
  return absl::InvalidArgumentError(absl::StrCat("There is no element ", element, " of axis ", axis, " of '", x.name(),
                                                 "', which is ", DTypeName(x.dtype()), " ", x.shape().ToString()));
}

}  // namespace

Output operator+(const Operand& a, const Operand& b) { return Apply(ops::Add, a, b); }
Output operator-(const Operand& a, const Operand& b) { return Apply(ops::Sub, a, b); }
Output operator*(const Operand& a, const Operand& b) { return Apply(ops::Mul, a, b); }
Output operator/(const Operand& a, const Operand& b) { return Apply(ops::Div, a, b); }
Output operator-(const Term& x) { return Apply(ops::Neg, x); }
Output& operator+=(Output& x, const Operand& y) { return x = x + y; }
Output& operator-=(Output& x, const Operand& y) { return x = x - y; }
Output& operator*=(Output& x, const Operand& y) { return x = x * y; }
Output& operator/=(Output& x, const Operand& y) { return x = x / y; }

Output operator<(const Operand& a, const Operand& b) { return Apply(ops::Less, a, b); }
Output operator<=(const Operand& a, const Operand& b) { return Apply(ops::LessEqual, a, b); }
Output operator>(const Operand& a, const Operand& b) { return Apply(ops::Greater, a, b); }
Output operator>=(const Operand& a, const Operand& b) { return Apply(ops::GreaterEqual, a, b); }
Output Equal(const Operand& a, const Operand& b) { return Apply(ops::Equal, a, b); }
Output NotEqual(const Operand& a, const Operand& b) { return Apply(ops::NotEqual, a, b); }
Output operator&(const Term& a, const Term& b) { return Apply(ops::LogicalAnd, a, b); }
Output operator|(const Term& a, const Term& b) { return Apply(ops::LogicalOr, a, b); }
Output operator^(const Term& a, const Term& b) { return Apply(ops::LogicalXor, a, b); }
Output operator!(const Term& x) { return Apply(ops::LogicalNot, x); }

Output Abs(const Term& x) { return Apply(ops::Abs, x); }
Output Acos(const Term& x) { return Apply(ops::Acos, x); }
Output Asin(const Term& x) { return Apply(ops::Asin, x); }
Output Atan(const Term& x) { return Apply(ops::Atan, x); }
Output Atan2(const Operand& y, const Operand& x) { return Apply(ops::Atan2, y, x); }
Output Cast(const Term& x, DType dtype) { return Apply(ops::Cast, x, dtype); }
Output Ceil(const Term& x) { return Apply(ops::Ceil, x); }
Output ClipByValue(const Term& x, double low, double high) { return Apply(ops::ClipByValue, x, low, high); }
Output Cos(const Term& x) { return Apply(ops::Cos, x); }
Output Cosh(const Term& x) { return Apply(ops::Cosh, x); }
Output Elu(const Term& x, double alpha) { return Apply(ops::Elu, x, alpha); }
Output Erf(const Term& x) { return Apply(ops::Erf, x); }
Output Erfc(const Term& x) { return Apply(ops::Erfc, x); }
Output Exp(const Term& x) { return Apply(ops::Exp, x); }
Output Expm1(const Term& x) { return Apply(ops::Expm1, x); }
Output Floor(const Term& x) { return Apply(ops::Floor, x); }
Output FloorDiv(const Operand& a, const Operand& b) { return Apply(ops::FloorDiv, a, b); }
Output FloorMod(const Operand& a, const Operand& b) { return Apply(ops::FloorMod, a, b); }
Output Gelu(const Term& x, bool approximate) { return Apply(ops::Gelu, x, approximate); }
Output IsFinite(const Term& x) { return Apply(ops::IsFinite, x); }
Output IsInf(const Term& x) { return Apply(ops::IsInf, x); }
Output IsNan(const Term& x) { return Apply(ops::IsNan, x); }
Output LeakyRelu(const Term& x, double alpha) { return Apply(ops::LeakyRelu, x, alpha); }
Output Log(const Term& x) { return Apply(ops::Log, x); }
Output Log1p(const Term& x) { return Apply(ops::Log1p, x); }
Output LogSoftmax(const Term& logits, const ops::SoftmaxOptions& options) {
  return Apply(ops::LogSoftmax, logits, options);
}
Output Maximum(const Operand& a, const Operand& b) { return Apply(ops::Maximum, a, b); }
Output Minimum(const Operand& a, const Operand& b) { return Apply(ops::Minimum, a, b); }
Output Pow(const Operand& a, const Operand& b) { return Apply(ops::Pow, a, b); }
Output Reciprocal(const Term& x) { return Apply(ops::Reciprocal, x); }
Output Relu(const Term& x) { return Apply(ops::Relu, x); }
Output Relu6(const Term& x) { return Apply(ops::Relu6, x); }
Output Round(const Term& x) { return Apply(ops::Round, x); }
Output RoundThrough(const Term& x) { return Apply(ops::RoundThrough, x); }
Output Rsqrt(const Term& x) { return Apply(ops::Rsqrt, x); }
Output Select(const Term& condition, const Operand& a, const Operand& b) { return Apply(ops::Select, condition, a, b); }
Output Selu(const Term& x) { return Apply(ops::Selu, x); }
Output Sigmoid(const Term& x) { return Apply(ops::Sigmoid, x); }
Output Sign(const Term& x) { return Apply(ops::Sign, x); }
Output Silu(const Term& x) { return Apply(ops::Silu, x); }
Output Sin(const Term& x) { return Apply(ops::Sin, x); }
Output Sinh(const Term& x) { return Apply(ops::Sinh, x); }
Output Softmax(const Term& logits, const ops::SoftmaxOptions& options) { return Apply(ops::Softmax, logits, options); }
Output Softplus(const Term& x) { return Apply(ops::Softplus, x); }
Output Sqrt(const Term& x) { return Apply(ops::Sqrt, x); }
Output Square(const Term& x) { return Apply(ops::Square, x); }
Output SquaredDifference(const Operand& a, const Operand& b) { return Apply(ops::SquaredDifference, a, b); }
Output StopGradient(const Term& x) { return Apply(ops::StopGradient, x); }
Output Tan(const Term& x) { return Apply(ops::Tan, x); }
Output Tanh(const Term& x) { return Apply(ops::Tanh, x); }

Output All(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::All, x, axes, keep_dims); }
Output Any(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Any, x, axes, keep_dims); }
Output ArgMax(const Term& x, int axis, DType index_type) { return Apply(ops::ArgMax, x, axis, index_type); }
Output ArgMin(const Term& x, int axis, DType index_type) { return Apply(ops::ArgMin, x, axis, index_type); }
Output L2Normalize(const Term& x, const Axes& axes, double epsilon) {
  return Apply(ops::L2Normalize, x, axes, epsilon);
}
Output LogSumExp(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::LogSumExp, x, axes, keep_dims); }
Output Max(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Max, x, axes, keep_dims); }
Output Mean(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Mean, x, axes, keep_dims); }
Output Min(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Min, x, axes, keep_dims); }
Output Norm(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Norm, x, axes, keep_dims); }
Output Prod(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Prod, x, axes, keep_dims); }
Output Sum(const Term& x, const Axes& axes, bool keep_dims) { return Apply(ops::Sum, x, axes, keep_dims); }

Output HuberLoss(const Term& predictions, const Term& targets, double delta) {
  return Apply(ops::HuberLoss, predictions, targets, delta);
}
Output KlDivergence(const Term& p, const Term& log_q) { return Apply(ops::KlDivergence, p, log_q); }
Output MeanSquaredLoss(const Term& predictions, const Term& targets) {
  return Apply(ops::MeanSquaredLoss, predictions, targets);
}
Output SigmoidCrossEntropy(const Term& logits, const Term& labels) {
  return Apply(ops::SigmoidCrossEntropy, logits, labels);
}
Output SoftmaxCrossEntropy(const Term& logits, const Term& labels, const ops::CrossEntropyOptions& options) {
  return Apply(ops::SoftmaxCrossEntropy, logits, labels, options);
}
Output SparseSoftmaxCrossEntropy(const Term& logits, const Term& labels,
                                 const ops::SparseCrossEntropyOptions& options) {
  return Apply(ops::SparseSoftmaxCrossEntropy, logits, labels, options);
}

Output ExpandDims(const Term& x, int64_t axis) { return Apply(ops::ExpandDims, x, axis); }
Output Gather(const Term& params, const Term& indices, int64_t axis) {
  return Apply(ops::Gather, params, indices, axis);
}
Output MatMul(const Term& a, const Term& b, const ops::MatMulOptions& options) {
  return Apply(ops::MatMul, a, b, options);
}
Output Reshape(const Term& x, const ops::Extents& extents) { return Apply(ops::Reshape, x, extents); }
Output Squeeze(const Term& x, const std::vector<int64_t>& axes) { return Apply(ops::Squeeze, x, axes); }
Output Transpose(const Term& x, const std::vector<int64_t>& perm) { return Apply(ops::Transpose, x, perm); }

int64_t Index::end() const {
  if (element_) return *begin_ == -1 ? ops::kSliceEnd : *begin_ + 1;
  return end_.value_or(stride_ < 0 ? -ops::kSliceEnd : ops::kSliceEnd);
}

Output At(const Term& x, Index i, Index j, Index k, Index l, Index m, Index n) {
  const std::optional<Scope> scope = ScopeOf({x});
  if (!scope.has_value()) return Output();
  std::vector<Index> indices = {i, j, k, l, m, n};
  while (!indices.empty() && indices.back().is_whole()) indices.pop_back();
  std::vector<int64_t> begin, end, strides, removed;
  for (const Index& index : indices) {
    const auto axis = begin.size();
    begin.push_back(index.begin());
    end.push_back(index.end());
    strides.push_back(index.stride());
    if (!index.is_element()) continue;
    removed.push_back(static_cast<int64_t>(axis));
    const Shape& shape = x.output.shape();
    const int64_t extent = static_cast<int>(axis) < shape.rank() ? shape[static_cast<int>(axis)] : Shape::kUnknown;
    if (extent == Shape::kUnknown || (index.begin() >= -extent && index.begin() < extent)) continue;
    scope->Fail(OutOfRange(index.begin(), axis, x.output));
    return Output();
  }
  if (std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; })) strides.clear();
  if (indices.empty()) return x.output;
  const Output part = ops::StridedSlice(*scope, x.output, begin, end, strides);
  return removed.empty() ? part : ops::Squeeze(*scope, part, removed);
}

}  // namespace belfry::formulas
