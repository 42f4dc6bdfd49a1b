#include <cmath>
#include <limits>

#include "ops/common/op_rules_impl.h"
#include "ops/losses/losses_ops.h"
#include "ops/nn.h"

namespace belfry::ops {
namespace {

// Softmax of one row, computed block by block. ForEach permits overwriting the row as it proceeds.
template <class T>
class RowSoftmax {
 public:
  using C = Compute<T>;

  RowSoftmax(const T* row, int64_t n) : row_(row), n_(n) {
    for (int64_t k = 0; k < n; ++k) top_ = std::max(top_, static_cast<C>(row[k]));
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      Exponentials(begin);
      sum_ += ArrayMap<C>(exps_, std::min(kBlock, n - begin)).sum();
    }
    log_sum_ = std::log(sum_);
  }

  // log p[k].
  C Log(int64_t k) const { return static_cast<C>(row_[k]) - top_ - log_sum_; }
  C SumOfLogs() const {
    C sum = 0;
    for (int64_t k = 0; k < n_; ++k) sum += static_cast<C>(row_[k]) - top_;
    return sum - static_cast<C>(n_) * log_sum_;
  }
  // Calls body(k, p[k]) for every k in ascending order.
  template <class Body>
  void ForEach(const Body& body) {
    const C scale = 1 / sum_;
    for (int64_t begin = 0; begin < n_; begin += kBlock) {
      if (n_ > kBlock) Exponentials(begin);  // a single block still holds its exponentials
      const int64_t size = std::min(kBlock, n_ - begin);
      for (int64_t k = 0; k < size; ++k) body(begin + k, exps_[k] * scale);
    }
  }

 private:
  void Exponentials(int64_t begin) {
    const int64_t size = std::min(kBlock, n_ - begin);
    for (int64_t k = 0; k < size; ++k) exps_[k] = static_cast<C>(row_[begin + k]) - top_;
    ArrayMap<C> map(exps_, size);
    map = map.exp();
  }

  const T* row_;
  const int64_t n_;
  C top_ = -std::numeric_limits<C>::infinity(), sum_ = 0, log_sum_ = 0;
  alignas(64) C exps_[kBlock];
};

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

template <class Label>
absl::Status CheckLabels(const Label* labels, const Targets& targets) {
  for (int64_t row = 0; row < targets.rows; ++row) {
    if (labels[row] >= 0 && labels[row] < targets.n) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the label of row ", row, " is ", labels[row], ", but labels must be in [0, ", targets.n, ")"));
  }
  return absl::OkStatus();
}

template <class T, class Label>
absl::StatusOr<Kernel> MakeSparseOf(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[t = Targets(spec)](const KernelContext& context) {
    const T* logits = context.input<T>(0);
    const Label* labels = context.input<Label>(1);
    T *loss = context.output<T>(0), *backprop = context.output<T>(1);
    RETURN_IF_ERROR(CheckLabels(labels, t));
    const C on = static_cast<C>(t.on), off = static_cast<C>(t.off);
    ParallelFor(t.rows, t.cost(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        RowSoftmax<T> softmax(logits + row * t.n, t.n);
        const int64_t label = labels[row];
        C value = -on * softmax.Log(label);
        if (off > 0) value -= off * softmax.SumOfLogs();
        loss[row] = static_cast<T>(value);
        softmax.ForEach([&, out = backprop + row * t.n](int64_t k, C p) {
          out[k] = static_cast<T>(p - off - (k == label ? on : C(0)));
        });
      }
    });
    return absl::OkStatus();
  }};
}

template <class T>
absl::StatusOr<Kernel> MakeSparse(const KernelSpec& spec) {
  return spec.inputs[1].dtype == DType::kInt32 ? MakeSparseOf<T, int32_t>(spec) : MakeSparseOf<T, int64_t>(spec);
}

template <class T>
absl::StatusOr<Kernel> MakeDense(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[t = Targets(spec)](const KernelContext& context) {
    const T *logits = context.input<T>(0), *labels = context.input<T>(1);
    T *loss = context.output<T>(0), *backprop = context.output<T>(1);
    const C on = static_cast<C>(t.on), off = static_cast<C>(t.off);
    ParallelFor(t.rows, t.cost(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * t.n;
        const auto target = [&](int64_t k) { return on * static_cast<C>(labels[at + k]) + off; };
        RowSoftmax<T> softmax(logits + at, t.n);
        C value = 0, total = 0;
        for (int64_t k = 0; k < t.n; ++k) {
          // A class with target 0 contributes nothing even if its probability is 0: 0 log(0) = 0.
          if (target(k) != 0) value -= target(k) * softmax.Log(k);
          total += target(k);
        }
        loss[row] = static_cast<T>(value);
        softmax.ForEach([&](int64_t k, C p) { backprop[at + k] = static_cast<T>(p * total - target(k)); });
      }
    });
    return absl::OkStatus();
  }};
}

// dlogits = backprop with each row scaled by the gradient of its loss.
template <class T>
absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  const int64_t rows = spec.inputs[0].shape.elements(), n = spec.outputs[0].shape[-1];
  return Kernel{[rows, n](const KernelContext& context) {
    const T *dloss = context.input<T>(0), *backprop = context.input<T>(1);
    T* dlogits = context.output<T>(0);
    ParallelFor(rows, static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const C scale = static_cast<C>(dloss[row]);
        for (int64_t k = row * n; k < (row + 1) * n; ++k)
          dlogits[k] = static_cast<T>(static_cast<C>(backprop[k]) * scale);
      }
    });
    return absl::OkStatus();
  }};
}

absl::Status CheckLogits(const ShapeArgs& args) {
  if (args.inputs[0].rank() == 0) return absl::InvalidArgumentError("logits must have a last axis (the classes)");
  const double smoothing = args.attrs.Float("label_smoothing");
  if (smoothing >= 0 && smoothing <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("label_smoothing must be in [0, 1], but is ", smoothing));
}

absl::StatusOr<std::vector<Shape>> SparseShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckLogits(args));
  Shape logits = args.inputs[0];
  const Shape& labels = args.inputs[1];
  absl::StatusOr<Shape> loss = logits.Remove(-1).Merge(labels);
  if (!loss.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("logits ", logits.ToString(), " need labels ",
                                                   logits.Remove(-1).ToString(), ", not ", labels.ToString()));
  }
  return std::vector<Shape>{*loss, loss->Insert(loss->rank(), logits[-1])};
}

absl::StatusOr<std::vector<Shape>> DenseShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckLogits(args));
  ASSIGN_OR_RETURN(const std::vector<Shape> both, SameAsAll(args));
  return std::vector<Shape>{both[0].Remove(-1), both[0]};
}

absl::StatusOr<std::vector<Shape>> GradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape rows, args.inputs[1].Remove(-1).Merge(args.inputs[0]));
  return std::vector<Shape>{rows.Insert(rows.rank(), args.inputs[1][-1])};
}

// Labels are treated as constants.
std::vector<Output> CrossEntropyGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  if (dy[1].valid()) return NoSecondDerivative()(scope, node, dy);
  return {scope.Add("CrossEntropyGrad", {dy[0], node.output(1)}), Output()};
}

template <class Make>
OpDef CrossEntropyOp(absl::string_view name, ShapeFunction shape, Make make) {
  return {.name = std::string(name),
          .inputs = {{"logits"}, {"labels"}},
          .outputs = {{"loss"}, {"backprop"}},
          .types = {{"T", kFloatTypes}},
          .attrs = {{"label_smoothing", 0.0}},
          .shape = std::move(shape),
          .gradient = CrossEntropyGradient,
          .in_place = {{0, 1}},
          .kernels = Kernels<float, double, Half, BFloat16>("CPU", make)};
}

}  // namespace

Output SparseSoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options) {
  return scope.Add("SparseSoftmaxCrossEntropyWithLogits", {logits, labels},
                   {{"label_smoothing", options.label_smoothing}});
}
Output SoftmaxCrossEntropy(OpScope scope, Output logits, Output labels, const CrossEntropyOptions& options) {
  return scope.Add("SoftmaxCrossEntropyWithLogits", {logits, labels}, {{"label_smoothing", options.label_smoothing}});
}

void RegisterCrossEntropy(OpRegistry& registry) {
  OpDef sparse = CrossEntropyOp("SparseSoftmaxCrossEntropyWithLogits", SparseShape,
                                [](auto tag) { return &MakeSparse<typename decltype(tag)::type>; });
  sparse.inputs[1].type = "Tlabels";
  sparse.types.push_back({"Tlabels", kIndexTypes});
  registry.Add(std::move(sparse));
  registry.Add(CrossEntropyOp("SoftmaxCrossEntropyWithLogits", DenseShape,
                              [](auto tag) { return &MakeDense<typename decltype(tag)::type>; }));
  registry.Add({.name = "CrossEntropyGrad",
                .inputs = {{"dloss"}, {"backprop"}},
                .outputs = {{"dlogits"}},
                .types = {{"T", kFloatTypes}},
                .shape = GradShape,
                .gradient = NoSecondDerivative(),
                .in_place = {{1, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeCrossEntropyGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
