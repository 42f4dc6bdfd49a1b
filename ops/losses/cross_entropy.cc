#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/array.h"
#include "ops/common/index_type_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/common/row_softmax_impl.h"
#include "ops/losses/losses_ops.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::ops {
namespace {

// Label smoothing: the target of a class is `on` times its label plus `off`.
struct Targets {
  int64_t rows, n;
  double on, off;

  explicit Targets(const KernelSpec& spec) : rows(spec.outputs[0].shape.elements()), n(spec.outputs[1].shape[-1]) {
    const double smoothing = spec.attrs.Float("label_smoothing");
    on = 1 - smoothing;
    off = n > 0 ? smoothing / static_cast<double>(n) : 0;
  }
  double cost() const { return 20.0 * static_cast<double>(n); }
};

// The label of examples that have no loss.
std::optional<int64_t> IgnoreLabel(const Attrs& attrs) {
  const std::vector<int64_t>& labels = attrs.Ints("ignore_label");
  return labels.empty() ? std::nullopt : std::optional(labels[0]);
}

template <class Label>
absl::Status CheckLabels(const Label* labels, const Targets& targets, const std::optional<int64_t>& ignored) {
  for (int64_t row = 0; row < targets.rows; ++row) {
    if (labels[row] >= 0 && labels[row] < targets.n) continue;
    if (ignored.has_value() && labels[row] == *ignored) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the label of row ", row, " is ", labels[row], ", but labels must be in [0, ", targets.n, ")"));
  }
  return absl::OkStatus();
}

// A visitor of RowSoftmax that computes the loss of a row for a label that is a class, and its gradient.
template <class T, class Label>
struct SparseLoss {
  using C = Compute<T>;
  int64_t n;
  C on, off;
  const Label* labels;
  C* loss;
  C of_label = 0, of_all = 0;  // of the row: x - top of the label, and its sum over all classes

  void Begin(int64_t row, const T* x, C top) {
    of_label = static_cast<C>(x[labels[row]]) - top;
    if (!(off > 0)) return;
    of_all = 0;
    ForRowPieces(x, n, [&](int64_t, int64_t size, const C* piece) {
      of_all += SimdSum<C>(size, [=](int64_t i) { return piece[i] - top; });
    });
  }
  void Change(int64_t row, int64_t first, int64_t size, C* p) {
    const int64_t label = labels[row] - first;
    const C shift = off;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) p[i] -= shift;
    if (label >= 0 && label < size) p[label] -= on;
  }
  void End(int64_t row, C sum) {
    const C log_sum = std::log(sum);
    C value = -on * (of_label - log_sum);
    if (off > 0) value -= off * (of_all - static_cast<C>(n) * log_sum);
    loss[row] = value;
  }
};

// SparseLoss but for rows whose label is ignored.
template <class T, class Label>
struct IgnoringLoss {
  using C = Compute<T>;
  SparseLoss<T, Label> others;
  int64_t ignored;

  bool Ignores(int64_t row) const { return others.labels[row] == ignored; }
  void Begin(int64_t row, const T* x, C top) {
    if (!Ignores(row)) others.Begin(row, x, top);
  }
  void Change(int64_t row, int64_t first, int64_t size, C* p) {
    if (Ignores(row)) {
      std::fill_n(p, size, C(0));
    } else {
      others.Change(row, first, size, p);
    }
  }
  void End(int64_t row, C sum) {
    if (Ignores(row)) {
      others.loss[row] = 0;
    } else {
      others.End(row, sum);
    }
  }
};

template <class T, class Label>
absl::StatusOr<Kernel> MakeSparseOf(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[t = Targets(spec), ignored = IgnoreLabel(spec.attrs)](const KernelContext& context) {
    const T* logits = context.input<T>(0);
    const Label* labels = context.input<Label>(1);
    C* const loss = context.output<C>(0);
    T* const backprop = context.output<T>(1);
    RETURN_IF_ERROR(CheckLabels(labels, t, ignored));
    ParallelFor(t.rows, t.cost(), [&](int64_t begin, int64_t end) {
      RowSoftmax<T> softmax;
      SparseLoss<T, Label> visitor{t.n, static_cast<C>(t.on), static_cast<C>(t.off), labels + begin, loss + begin};
      if (ignored.has_value()) {
        IgnoringLoss<T, Label> ignoring{visitor, *ignored};
        softmax.Run(logits + begin * t.n, end - begin, t.n, C(1), backprop + begin * t.n, ignoring);
      } else {
        softmax.Run(logits + begin * t.n, end - begin, t.n, C(1), backprop + begin * t.n, visitor);
      }
    });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeSparse(const KernelSpec& spec) {
  return WithIndexType(spec.inputs[1].dtype, [&](auto index) { return MakeSparseOf<T, decltype(index)>(spec); });
}

// The same for labels that are probabilities. A class with target 0 contributes nothing even if its probability is 0:
// 0 log(0) = 0.
template <class T>
struct DenseLoss {
  using C = Compute<T>;
  int64_t n;
  C on, off;
  const T* labels;
  C* loss;
  PieceBuffer<T> buffer = {};
  C total = 0, above = 0;  // of the row: the sums of the targets, and of target (x - top)

  const C* Labels(int64_t row, int64_t first, int64_t size) { return buffer.Read(labels + row * n + first, size); }
  void Begin(int64_t row, const T* x, C top) {
    total = above = 0;
    ForRowPieces(x, n, [&](int64_t first, int64_t size, const C* piece) {
      const C* label = Labels(row, first, size);
      total += SimdSum<C>(size, [=, on = on, off = off](int64_t i) { return on * label[i] + off; });
      above += SimdSum<C>(size, [=, on = on, off = off](int64_t i) {
        const C target = on * label[i] + off;
        return target == 0 ? C(0) : target * (piece[i] - top);
      });
    });
  }
  void Change(int64_t row, int64_t first, int64_t size, C* p) {
    const C* label = Labels(row, first, size);
    const C all = total, scale = on, shift = off;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) p[i] = p[i] * all - (scale * label[i] + shift);
  }
  void End(int64_t row, C sum) { loss[row] = total == 0 ? C(0) - above : total * std::log(sum) - above; }
};

template <class T>
absl::StatusOr<Kernel> MakeDense(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[t = Targets(spec)](const KernelContext& context) {
    const T *logits = context.input<T>(0), *labels = context.input<T>(1);
    C* const loss = context.output<C>(0);
    T* const backprop = context.output<T>(1);
    ParallelFor(t.rows, t.cost(), [&](int64_t begin, int64_t end) {
      RowSoftmax<T> softmax;
      DenseLoss<T> visitor{t.n, static_cast<C>(t.on), static_cast<C>(t.off), labels + begin * t.n, loss + begin};
      softmax.Run(logits + begin * t.n, end - begin, t.n, C(1), backprop + begin * t.n, visitor);
    });
    return absl::OkStatus();
  }};
}

// Inline, since rows may be short.
template <class T>
[[gnu::always_inline]] inline void ScaleRow(const T* x, int64_t n, Compute<T> scale, T* y) {
  using C = Compute<T>;
  PieceBuffer<T> buffer;
  ForRowPieces(x, n, [&](int64_t first, int64_t size, const C* from) {
    C* to = buffer.Target(y + first);
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) to[i] = from[i] * scale;
    buffer.Write(y + first, size);
  });
}

// dlogits = backprop with each row scaled by the gradient of its loss.
template <class T>
absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSpec& spec) {
  const int64_t rows = spec.inputs[0].shape.elements(), n = spec.outputs[0].shape[-1];
  return Kernel{[rows, n](const KernelContext& context) {
    const Compute<T>* const dloss = context.input<Compute<T>>(0);
    const T* const backprop = context.input<T>(1);
    T* dlogits = context.output<T>(0);
    ParallelFor(rows, static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) ScaleRow(backprop + row * n, n, dloss[row], dlogits + row * n);
    });
    return absl::OkStatus();
  }};
}

// The same, with zeros in the rows of ignored examples, whatever the gradient of their loss.
template <class T, class Label>
absl::StatusOr<Kernel> MakeSparseGradOf(const KernelSpec& spec) {
  const int64_t rows = spec.inputs[0].shape.elements(), n = spec.outputs[0].shape[-1];
  return Kernel{[rows, n, ignored = *IgnoreLabel(spec.attrs)](const KernelContext& context) {
    const Compute<T>* const dloss = context.input<Compute<T>>(0);
    const T* const backprop = context.input<T>(1);
    const Label* labels = context.input<Label>(2);
    T* dlogits = context.output<T>(0);
    ParallelFor(rows, static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (labels[row] == ignored) {
          std::fill_n(dlogits + row * n, n, static_cast<T>(0.0f));
        } else {
          ScaleRow(backprop + row * n, n, dloss[row], dlogits + row * n);
        }
      }
    });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeSparseGrad(const KernelSpec& spec) {
  return WithIndexType(spec.inputs[2].dtype, [&](auto index) { return MakeSparseGradOf<T, decltype(index)>(spec); });
}

// The loss, and the gradient of the logits for that of the loss, input 2.
template <class T>
absl::StatusOr<Kernel> MakeWithGradient(const KernelSpec& spec) {
  const bool ignores = !spec.attrs.Ints("ignore_label").empty();
  const TensorSpec inputs[] = {spec.inputs[2], spec.outputs[1], spec.inputs[1]};
  const KernelSpec gradient_spec{spec.name, spec.attrs, inputs, spec.outputs.subspan(1, 1), spec.device};
  ASSIGN_OR_RETURN(Kernel loss, MakeSparse<T>(spec));
  ASSIGN_OR_RETURN(Kernel gradient,
                   ignores ? MakeSparseGrad<T>(gradient_spec) : MakeCrossEntropyGrad<T>(gradient_spec));
  return Kernel{[loss = std::move(loss.run), gradient = std::move(gradient.run)](const KernelContext& context) {
    RETURN_IF_ERROR(loss(context));
    KernelContext scale = context;
    const void* const inputs[] = {context.inputs[2], context.outputs[1], context.inputs[1]};
    scale.inputs = inputs;
    scale.outputs = context.outputs + 1;
    return gradient(scale);
  }};
}

DType WideOf(DType dtype) { return dtype == DType::kFloat64 ? dtype : DType::kFloat32; }

absl::Status CheckLossType(const ShapeArgs& args) {
  const DType logits = args.attrs.Type("T"), loss = args.attrs.Type("U");
  if (loss == WideOf(logits)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("losses of ", DTypeName(logits), " logits are ",
                                                 DTypeName(WideOf(logits)), ", not ", DTypeName(loss)));
}

absl::Status CheckLogits(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckLossType(args));
  if (args.inputs[0].rank() == 0) return absl::InvalidArgumentError("logits must have a last axis (the classes)");
  const double smoothing = args.attrs.Float("label_smoothing");
  if (smoothing >= 0 && smoothing <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("label_smoothing must be in [0, 1], but is ", smoothing));
}

absl::StatusOr<std::vector<Shape>> SparseShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckLogits(args));
  if (args.attrs.Ints("ignore_label").size() > 1) {
    return absl::InvalidArgumentError("ignore_label must be one label or none");
  }
  Shape logits = args.inputs[0];
  const Shape& labels = args.inputs[1];
  absl::StatusOr<Shape> loss = logits.Remove(-1).Merge(labels);
  if (!loss.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("logits ", logits.ToString(), " need labels ",
                                                   logits.Remove(-1).ToString(), ", not ", labels.ToString()));
  }
  return std::vector<Shape>{*loss, loss->Insert(loss->rank(), logits[-1])};
}

absl::StatusOr<std::vector<Shape>> WithGradientShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const std::vector<Shape> both, SparseShape(args));
  RETURN_IF_ERROR(both[0].Merge(args.inputs[2]).status());
  return both;
}

absl::StatusOr<std::vector<Shape>> DenseShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckLogits(args));
  ASSIGN_OR_RETURN(const std::vector<Shape> both, SameAsAll(args));
  return std::vector<Shape>{both[0].Remove(-1), both[0]};
}

absl::StatusOr<std::vector<Shape>> GradShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckLossType(args));
  ASSIGN_OR_RETURN(const Shape rows, args.inputs[1].Remove(-1).Merge(args.inputs[0]));
  return std::vector<Shape>{rows.Insert(rows.rank(), args.inputs[1][-1])};
}

absl::StatusOr<std::vector<Shape>> SparseGradShape(const ShapeArgs& args) {
  if (args.attrs.Ints("ignore_label").size() != 1) {
    return absl::InvalidArgumentError("ignore_label must be one label");
  }
  RETURN_IF_ERROR(args.inputs[0].Merge(args.inputs[2]).status());
  return GradShape(args);
}

// Rows of x, each times its factor; 0 where `ignored`, if it is not empty, is the row's label.
Output ScaledRows(const Scope& scope, Output factors, Output x, Output labels, const std::vector<int64_t>& ignored) {
  if (ignored.empty()) return scope.Add("CrossEntropyGrad", {factors, x});
  return scope.Add("SparseCrossEntropyGrad", {factors, x, labels}, {{"ignore_label", ignored}});
}
std::vector<int64_t> IgnoredLabels(const Node& node) {
  return node.attrs().Find("ignore_label") == nullptr ? std::vector<int64_t>() : node.attrs().Ints("ignore_label");
}

// Labels are treated as constants. Second derivatives reach output 1, the softmax less the labels' shares.
std::vector<Output> CrossEntropyGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output logits = node.input(0), labels = node.input(1), loss = node.output(0);
  const std::vector<int64_t> ignored = IgnoredLabels(node);
  Output first, second;
  if (dy[0].valid()) first = ScaledRows(scope, dy[0], node.output(1), labels, ignored);
  if (dy[1].valid()) {
    second = scope.Add("SoftmaxGrad", {dy[1], Softmax(scope, logits)});
    if (labels.dtype() == logits.dtype()) {
      // Targets that are probabilities need not have the sum 1, which the softmax is multiplied by.
      const double smoothing = node.attrs().Float("label_smoothing");
      const Output sums = Sum(scope, Cast(scope, labels, loss.dtype()), {-1});
      const Output all = Add(scope, Mul(scope, 1 - smoothing, sums), smoothing);
      second = ScaledRows(scope, all, second, labels, {});
    } else if (!ignored.empty()) {
      second = ScaledRows(scope, BroadcastLike(scope, Fill(scope, {}, 1, loss.dtype()), loss), second, labels, ignored);
    }
  }
  if (!first.valid() || !second.valid()) return {first.valid() ? first : second, Output()};
  return {Add(scope, first, second), Output()};
}
// dlogits = dloss backprop, row by row.
std::vector<Output> CrossEntropySecondGradient(const Scope& scope, const Node& node, absl::Span<const Output> g) {
  const Output dloss = node.input(0), backprop = node.input(1),
               labels = node.inputs().size() > 2 ? node.input(2) : Output();
  const Output products = Cast(scope, Mul(scope, g[0], backprop), dloss.dtype());
  std::vector<Output> gradients = {Sum(scope, products, {-1}),
                                   ScaledRows(scope, dloss, g[0], labels, IgnoredLabels(node))};
  gradients.resize(node.inputs().size());
  return gradients;
}

template <class Make>
OpDef CrossEntropyOp(absl::string_view name, ShapeFunction shape, Make make) {
  return {.name = std::string(name),
          .inputs = {{"logits"}, {"labels"}},
          .outputs = {{"loss", "U"}, {"backprop"}},
          .types = {{"T", kFloatTypes}, {"U", kWideFloatTypes}},
          .attrs = {{"label_smoothing", 0.0}},
          .shape = std::move(shape),
          .gradient = CrossEntropyGradient,
          .in_place = {{0, 1}},
          .kernels = Kernels<float, double, Half, BFloat16>("CPU", make)};
}

Output AddCrossEntropy(const Scope& scope, absl::string_view op, Output logits, Output labels, Attrs attrs) {
  attrs.Set("U", logits.valid() ? WideOf(logits.dtype()) : DType::kFloat32);
  return scope.Add(op, {logits, labels}, std::move(attrs));
}

}  // namespace

Output SparseSoftmaxCrossEntropy(OpScope scope, Output logits, Output labels,
                                 const SparseCrossEntropyOptions& options) {
  std::vector<int64_t> ignored;
  if (options.ignore_label.has_value()) ignored.push_back(*options.ignore_label);
  return AddCrossEntropy(scope, "SparseSoftmaxCrossEntropyWithLogits", logits, labels,
                         {{"label_smoothing", options.label_smoothing}, {"ignore_label", std::move(ignored)}});
}
Output SoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options) {
  return AddCrossEntropy(scope, "SoftmaxCrossEntropyWithLogits", logits, labels,
                         {{"label_smoothing", options.label_smoothing}});
}

void RegisterCrossEntropy(OpRegistry& registry) {
  OpDef sparse = CrossEntropyOp("SparseSoftmaxCrossEntropyWithLogits", SparseShape,
                                [](auto tag) { return &MakeSparse<typename decltype(tag)::type>; });
  sparse.inputs[1].type = "Tlabels";
  sparse.types.push_back({"Tlabels", kIndexTypes});
  sparse.attrs.push_back({"ignore_label", std::vector<int64_t>()});
  registry.Add(sparse);
  sparse.name = "SparseCrossEntropyWithGradient";
  sparse.inputs.push_back({"dloss", "U"});
  sparse.outputs[1].name = "dlogits";
  sparse.shape = WithGradientShape;
  sparse.gradient = NoGradient(kByThePass);
  sparse.kernels = Kernels<float, double, Half, BFloat16>(
      "CPU", [](auto tag) { return &MakeWithGradient<typename decltype(tag)::type>; });
  registry.Add(std::move(sparse));
  registry.Add(CrossEntropyOp("SoftmaxCrossEntropyWithLogits", DenseShape,
                              [](auto tag) { return &MakeDense<typename decltype(tag)::type>; }));
  registry.Add({.name = "SparseCrossEntropyGrad",
                .inputs = {{"dloss", "U"}, {"backprop"}, {"labels", "Tlabels"}},
                .outputs = {{"dlogits"}},
                .types = {{"T", kFloatTypes}, {"U", kWideFloatTypes}, {"Tlabels", kIndexTypes}},
                .attrs = {{"ignore_label", std::vector<int64_t>(), true}},
                .shape = SparseGradShape,
                .gradient = CrossEntropySecondGradient,
                .in_place = {{1, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeSparseGrad<typename decltype(tag)::type>; })});
  registry.Add({.name = "CrossEntropyGrad",
                .inputs = {{"dloss", "U"}, {"backprop"}},
                .outputs = {{"dlogits"}},
                .types = {{"T", kFloatTypes}, {"U", kWideFloatTypes}},
                .shape = GradShape,
                .gradient = CrossEntropySecondGradient,
                .in_place = {{1, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeCrossEntropyGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
