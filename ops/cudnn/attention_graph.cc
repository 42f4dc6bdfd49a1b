#include "ops/cudnn/attention_graph_impl.h"

#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/cudnn/engine.h"

namespace belfry::cudnn {
namespace {

using ops::GpuAttention;
using Extents = std::vector<int64_t>;

Extents Dense(const Extents& e) { return {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}; }

// Adds operations to a graph. Keeps the first error, after which tensors are null.
class Builder {
 public:
  explicit Builder(const GpuAttention& p) : p_(p) {}

  const Descriptor* Tensor(int64_t id, cudnnDataType_t type, const Extents& extents, const Extents& strides,
                           Storage place = Storage::kDevice) {
    if (!status_.ok()) return nullptr;
    auto added = graph_.AddTensor({id, type, extents, strides, place, /*alignment=*/16});
    status_ = added.status();
    return added.ok() ? *added : nullptr;
  }
  // [n, heads, rows, d], or its transpose, in rows of `row` elements.
  const Descriptor* Heads(int64_t id, int64_t heads, int64_t rows, int64_t row, bool transposed = false) {
    const cudnnDataType_t type = DataType(p_.dtype);
    if (transposed) return Tensor(id, type, {p_.n, heads, p_.d, rows}, {rows * row, p_.d, 1, row});
    return Tensor(id, type, {p_.n, heads, rows, p_.d}, {rows * row, p_.d, row, 1});
  }
  const Descriptor* PerQuery(int64_t id) {
    return Tensor(id, CUDNN_DATA_FLOAT, {p_.n, p_.h, p_.t, 1}, {p_.h * p_.t, p_.t, 1, 1});
  }
  const Descriptor* Constant(int64_t id) {
    return Tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Storage::kHost);
  }
  const Descriptor* Virtual(const Extents& extents, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return Tensor(next_++, type, extents, Dense(extents), Storage::kVirtual);
  }
  const Descriptor* Scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return Virtual({p_.n, p_.h, p_.t, p_.s}, type); }

  int64_t NextVirtual() { return next_++; }

  template <class Add>
  void Do(const Add& add) {
    if (status_.ok()) status_ = add(graph_);
  }
  const Descriptor* Map(const Pointwise& formula, const Descriptor* x, const Descriptor* b, const Descriptor* t,
                        const Descriptor* y) {
    Do([&](OperationGraph& graph) { return graph.AddPointwise(formula, *x, b, t, *y); });
    return y;
  }
  const Descriptor* Map(cudnnPointwiseMode_t mode, const Descriptor* x, const Descriptor* b, const Descriptor* y) {
    return Map(Pointwise{mode}, x, b, nullptr, y);
  }
  void MatMul(const Descriptor* a, const Descriptor* b, const Descriptor* c) {
    Do([&](OperationGraph& graph) { return graph.AddMatMul(*a, *b, *c); });
  }
  const Descriptor* Reduce(cudnnReduceTensorOp_t op, const Descriptor* x, const Descriptor* y) {
    Do([&](OperationGraph& graph) { return graph.AddReduction(op, *x, *y); });
    return y;
  }
  const Descriptor* Reshape(const Descriptor* x, const Descriptor* y) {
    Do([&](OperationGraph& graph) { return graph.AddReshape(*x, *y); });
    return y;
  }

  // Scores of queries behind a key become `hidden`.
  const Descriptor* Hide(const Descriptor* scores, const Descriptor* hidden) {
    const auto index = [&](int64_t axis) {
      return Map({CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis}, scores, nullptr, nullptr,
                 Scores(CUDNN_DATA_INT32));
    };
    const Descriptor *const row = index(2), *const column = index(3);
    const Descriptor* const visible =
        Map({CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN}, row, column, nullptr, Scores(CUDNN_DATA_BOOLEAN));
    return Map(Pointwise{CUDNN_POINTWISE_BINARY_SELECT}, scores, hidden, visible, Scores());
  }

  absl::StatusOr<OperationGraph> Finish() {
    RETURN_IF_ERROR(status_);
    return std::move(graph_);
  }

 private:
  const GpuAttention& p_;
  OperationGraph graph_;
  absl::Status status_;
  int64_t next_ = kVirtualIds;
};

absl::StatusOr<OperationGraph> MakeForward(const GpuAttention& p) {
  Builder b(p);
  const Extents per_query = {p.n, p.h, p.t, 1};
  const Descriptor *const q = b.Heads(kQuery, p.h, p.t, p.q_row), *const k = b.Heads(kKey, p.g, p.s, p.k_row, true);
  const Descriptor *const v = b.Heads(kValue, p.g, p.s, p.k_row), *const y = b.Heads(kResult, p.h, p.t, p.y_row);
  const Descriptor *const stats = b.PerQuery(kStats), *const scale = b.Constant(kStats + 1);
  const Descriptor* products = b.Scores();
  b.MatMul(q, k, products);
  const Descriptor* scores = b.Map(CUDNN_POINTWISE_MUL, products, scale, b.Scores());
  if (p.causal) scores = b.Hide(scores, b.Constant(kStats + 2));
  const Descriptor* const top = b.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, b.Virtual(per_query));
  const Descriptor* const below = b.Map(CUDNN_POINTWISE_SUB, scores, top, b.Scores());
  const Descriptor* const weights = b.Map(CUDNN_POINTWISE_EXP, below, nullptr, b.Scores());
  const Descriptor* const sum = b.Reduce(CUDNN_REDUCE_TENSOR_ADD, weights, b.Virtual(per_query));
  const Descriptor* const log_sum = b.Map(CUDNN_POINTWISE_LOG, sum, nullptr, b.Virtual(per_query));
  b.Map(CUDNN_POINTWISE_ADD, top, log_sum, stats);
  const Descriptor* const shares = b.Map(CUDNN_POINTWISE_DIV, weights, sum, b.Scores(DataType(p.dtype)));
  b.MatMul(shares, v, y);
  return b.Finish();
}

absl::StatusOr<OperationGraph> MakeGradient(const GpuAttention& p, bool ordered) {
  Builder b(p);
  int64_t id = kStats;
  const Descriptor *const q = b.Heads(kQuery, p.h, p.t, p.q_row), *const k = b.Heads(kKey, p.g, p.s, p.k_row, true);
  const Descriptor *const v = b.Heads(kValue, p.g, p.s, p.k_row, true), *const y = b.Heads(kResult, p.h, p.t, p.y_row);
  const Descriptor* const stats = b.PerQuery(kStats);
  const Descriptor* const dy = b.Heads(++id, p.h, p.t, p.y_row);
  const Descriptor* const dq = b.Heads(++id, p.h, p.t, p.q_row);
  const Descriptor *const dk = b.Heads(++id, p.g, p.s, p.k_row), *const dv = b.Heads(++id, p.g, p.s, p.k_row);
  const Descriptor* const delta = b.PerQuery(++id);
  const Extents of_queries = {p.n, p.h, p.t, p.d}, of_keys = {p.n, p.h, p.s, p.d};
  const Descriptor* dq_sum = ordered ? nullptr : b.Tensor(++id, CUDNN_DATA_FLOAT, of_queries, Dense(of_queries));
  const Descriptor *const scale = b.Constant(++id), *const one = b.Constant(++id);

  const Descriptor* const products = b.Map(CUDNN_POINTWISE_MUL, dy, y, b.Virtual(of_queries));
  const Descriptor* const sums = b.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, b.Virtual({p.n, p.h, p.t, 1}));
  b.Map(CUDNN_POINTWISE_MUL, sums, one, delta);

  const Descriptor* scores = b.Scores();
  b.MatMul(q, k, scores);
  scores = b.Map(CUDNN_POINTWISE_MUL, scores, scale, b.Scores());
  scores = b.Map(CUDNN_POINTWISE_SUB, scores, stats, b.Scores());
  if (p.causal) scores = b.Hide(scores, b.Constant(++id));
  const Descriptor* const shares = b.Map(CUDNN_POINTWISE_EXP, scores, nullptr, b.Scores());
  const auto transposed = [&](const Descriptor* x) {
    return b.Reshape(x, b.Tensor(b.NextVirtual(), DataType(p.dtype), {p.n, p.h, p.s, p.t},
                                 {p.h * p.t * p.s, p.t * p.s, 1, p.s}, Storage::kVirtual));
  };
  // The sums over the heads that share a head of keys.
  const auto key_gradient = [&](const Descriptor* x, const Descriptor* with, const Descriptor* to) {
    if (p.h == p.g) return b.MatMul(x, with, to);
    const Descriptor* const each = b.Virtual(of_keys, DataType(p.dtype));
    b.MatMul(x, with, each);
    b.Reduce(CUDNN_REDUCE_TENSOR_ADD, each, to);
  };
  key_gradient(transposed(shares), dy, dv);

  const Descriptor* slopes = b.Scores();
  b.MatMul(dy, v, slopes);
  slopes = b.Map(CUDNN_POINTWISE_SUB, slopes, delta, b.Scores());
  slopes = b.Map(CUDNN_POINTWISE_MUL, slopes, shares, b.Scores());
  slopes = b.Map(CUDNN_POINTWISE_MUL, slopes, scale, b.Scores());
  key_gradient(transposed(slopes), q, dk);

  const Descriptor* const keys = b.Reshape(k, b.Tensor(b.NextVirtual(), DataType(p.dtype), {p.n, p.g, p.s, p.d},
                                                       {p.s * p.k_row, p.d, p.k_row, 1}, Storage::kVirtual));
  b.MatMul(slopes, keys, ordered ? dq : dq_sum);
  if (!ordered) b.Map(CUDNN_POINTWISE_IDENTITY, dq_sum, nullptr, dq);
  return b.Finish();
}

}  // namespace

absl::StatusOr<OperationGraph> MakeAttentionGraph(const GpuAttention& p, bool ordered) {
  if (p.causal && p.t != p.s) {
    return absl::UnimplementedError("causal attention with cuDNN needs as many keys as queries");
  }
  return p.gradient ? MakeGradient(p, ordered) : MakeForward(p);
}

std::vector<size_t> AttentionScratch(const GpuAttention& p, bool ordered) {
  const size_t rows = static_cast<size_t>(p.n * p.h * p.t) * sizeof(float);
  if (ordered) return {rows};
  return {rows, rows * static_cast<size_t>(p.d)};
}

}  // namespace belfry::cudnn
