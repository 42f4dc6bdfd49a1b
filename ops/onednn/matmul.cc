#include "ops/onednn/matmul.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/onednn/program.h"
#include "ops/onednn/versions.h"

namespace belfry::ops::onednn {
namespace {

using dnnl::memory;

// A batched product with the fewest equivalent batch dimensions, listed outermost first.
struct MatMulProblem {
  memory::dims a_batch, b_batch, y_batch;
  int64_t m, k, n;
  bool transpose_a, transpose_b;
  int64_t stored_k;  // more than k if this is a part of a longer sum
};

int64_t Product(const memory::dims& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

absl::StatusOr<MatMulProblem> Normalize(const MatMulShape& s) {
  // Transposing a vector does not change its bytes.
  MatMulProblem p{
      {}, {}, {}, s.m, s.k, s.n, s.transpose_a && s.m != 1 && s.k != 1, s.transpose_b && s.k != 1 && s.n != 1, s.k};
  ASSIGN_OR_RETURN(const Shape batch, BroadcastShapes(s.a_batch, s.b_batch));
  const auto at = [&](const Shape& shape, int axis) {
    const int own = axis - (batch.rank() - shape.rank());
    return own < 0 ? int64_t{1} : shape[own];
  };
  for (int axis = 0; axis < batch.rank(); ++axis) {
    const int64_t a = at(s.a_batch, axis), b = at(s.b_batch, axis), y = batch[axis];
    if (y == 1) continue;
    // Merges adjacent axes that both sides have, or that the same side broadcasts.
    if (!p.y_batch.empty() && (a == 1) == (p.a_batch.back() == 1) && (b == 1) == (p.b_batch.back() == 1)) {
      p.a_batch.back() *= a, p.b_batch.back() *= b, p.y_batch.back() *= y;
    } else {
      p.a_batch.push_back(a), p.b_batch.push_back(b), p.y_batch.push_back(y);
    }
  }
  // One b for all batches: a single tall product.
  if (Product(p.b_batch) == 1 && !p.transpose_a) {
    p.m *= Product(p.a_batch);
    p.a_batch.clear(), p.b_batch.clear(), p.y_batch.clear();
  }
  return p;
}

struct Extent {
  int64_t rows, columns;
};

// Matrices [batch.., rows, columns] in such of extent `stored`, whose last two axes are swapped if `transposed`.
memory::desc Matrices(memory::dims dims, const Extent& matrix, const Extent& stored, bool transposed,
                      memory::data_type type) {
  dims.push_back(matrix.rows), dims.push_back(matrix.columns);
  memory::dims strides(dims.size());
  const size_t last = dims.size() - 1;
  strides[last] = transposed ? stored.rows : 1;
  strides[last - 1] = transposed ? 1 : stored.columns;
  int64_t stride = stored.rows * stored.columns;
  for (size_t axis = last - 1; axis-- > 0;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  return memory::desc(dims, type, strides);
}

struct Descs {
  memory::desc a, b, bias, y;
};

Descs MakeDescs(const MatMulProblem& p, bool batched, memory::data_type type, memory::data_type output_type) {
  const memory::dims none;
  memory::dims bias(batched ? p.y_batch.size() + 1 : 1, 1);
  memory::dims bias_strides(bias.size(), p.n);
  bias.push_back(p.n), bias_strides.push_back(1);
  return {Matrices(batched ? p.a_batch : none, {p.m, p.k}, {p.m, p.stored_k}, p.transpose_a, type),
          Matrices(batched ? p.b_batch : none, {p.k, p.n}, {p.stored_k, p.n}, p.transpose_b, type),
          memory::desc(bias, output_type, bias_strides),
          Matrices(batched ? p.y_batch : none, {p.m, p.n}, {p.m, p.n}, false, output_type)};
}

dnnl::matmul::primitive_desc Make(const Descs& d, const MatMulOptions& options, bool accumulate = false) {
  const Target target{.engine = Cpu(), .attributes = Attributes(options.post_ops, accumulate), .allow_empty = true};
  return options.bias ? Describe<dnnl::matmul>(target, d.a, d.b, d.bias, d.y)
                      : Describe<dnnl::matmul>(target, d.a, d.b, d.y);
}

void AddStep(const dnnl::matmul& primitive, const dnnl::matmul::primitive_desc& desc, Builder& builder, const Descs& d,
             const MatMulOptions& options, Builder::MemoryId a, Builder::MemoryId b, Builder::MemoryId y) {
  if (options.bias) {
    builder.Step(
        primitive, desc.scratchpad_desc(),
        {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, builder.Input(2, d.bias)}, {DNNL_ARG_DST, y}});
  } else {
    builder.Step(primitive, desc.scratchpad_desc(), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, y}});
  }
}

// Runs one product per batch entry.
Primitive Unrolled(const MatMulProblem& p, const Descs& d, const dnnl::matmul::primitive_desc& desc,
                   const MatMulOptions& options) {
  const dnnl::matmul primitive(desc);
  Builder builder;
  std::vector<int64_t> index(p.y_batch.size(), 0);
  const auto offset = [&](const memory::dims& batch, const memory::desc& matrix) {
    int64_t flat = 0;
    for (size_t axis = 0; axis < batch.size(); ++axis) flat = flat * batch[axis] + (batch[axis] == 1 ? 0 : index[axis]);
    return static_cast<size_t>(flat) * matrix.get_size();
  };
  for (int64_t i = 0; i < Product(p.y_batch); ++i) {
    AddStep(primitive, desc, builder, d, options, builder.Input(0, d.a, offset(p.a_batch, d.a)),
            builder.Input(1, d.b, offset(p.b_batch, d.b)), builder.Output(0, d.y, offset(p.y_batch, d.y)));
    for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == p.y_batch[axis];) index[axis] = 0;
  }
  return builder.Build(desc.impl_info_str());
}

// The library splits sums among threads if there are more of them than blocks of the result, but none of this length.
constexpr int64_t kUnsplitSum = 1024;

// Longer ones would have more than a million parts, each with a primitive.
constexpr int64_t kLongestSum = int64_t{1} << 30;

// Parts of fewer sums are computed on one thread: several would have to be woken for each part, which takes longer.
constexpr int64_t kFewSums = 16384;

// True if oneDNN 2.6 or 3.7 may split the sums of this product: compute_blocking_heuristic_* of
// brgemm_matmul_utils.cpp. A row passes for a transposed column.
bool MaySplitSums(const MatMulProblem& p, DType dtype) {
  if (dtype == DType::kBFloat16 && BFloat16Time() < 0.5) return p.k > kUnsplitSum;  // AMX
  return p.k >= 2048 && (p.transpose_a || p.m == 1 || (p.k >= 20000 && dtype == DType::kFloat32));
}

absl::Status SplitsSums(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat(what, ": oneDNN would split its sums among threads"));
}

// Other implementations of products give threads parts of a sum, whatever its length.
bool Repeats(const dnnl::matmul::primitive_desc& desc) { return absl::StartsWith(desc.impl_info_str(), "brg"); }

// y = f(a b + bias) as a sequence of products of kUnsplitSum columns of a and rows of b, each added to those before.
absl::StatusOr<Primitive> InParts(const std::string& what, const MatMulProblem& whole, memory::data_type type,
                                  memory::data_type output_type, const MatMulOptions& options) {
  if (whole.k > kLongestSum) {
    return absl::UnimplementedError(absl::StrCat(what, ": sums of more than ", kLongestSum, " terms"));
  }
  const bool few = Product(whole.y_batch) * whole.m * whole.n < kFewSums;
  const ScopedParallelThreads threads(few ? 1 : ParallelThreads());
  Builder builder;
  const memory::desc sum = MakeDescs(whole, true, type, memory::data_type::f32).y;
  const Builder::MemoryId y = builder.Output(0, MakeDescs(whole, true, type, output_type).y, sum);
  std::string implementation;
  for (int64_t begin = 0; begin < whole.k; begin += kUnsplitSum) {
    MatMulProblem part = whole;
    part.k = std::min(kUnsplitSum, whole.k - begin);
    Descs d = MakeDescs(part, true, type, output_type);
    d.y = sum;
    MatMulOptions own = options;
    own.bias = options.bias && begin == 0;
    if (begin + part.k < whole.k) own.post_ops = {};
    const memory::desc columns = d.a;
    auto desc = Make(d, own, /*accumulate=*/begin > 0);
    if (!desc || !Repeats(desc)) {
      // With AMX, oneDNN 2.6 has no kernel for columns of a wider matrix.
      part.stored_k = part.k;
      d.a = MakeDescs(part, true, type, output_type).a;
      desc = Make(d, own, /*accumulate=*/begin > 0);
    }
    if (!desc || !Repeats(desc)) return SplitsSums(what);
    implementation = desc.impl_info_str();
    const auto bytes = static_cast<int64_t>(dnnl::memory::data_type_size(type));
    const auto a_offset = static_cast<size_t>(begin * bytes * (part.transpose_a ? part.m : 1));
    const auto b_offset = static_cast<size_t>(begin * bytes * (part.transpose_b ? 1 : part.n));
    AddStep(dnnl::matmul(desc), desc, builder, d, own, builder.Input(0, columns, d.a, a_offset),
            builder.Input(1, d.b, b_offset), y);
  }
  return builder.Build(implementation);
}

absl::Status Validate(const MatMulShape& s) {
  bool positive = std::min({s.m, s.k, s.n}) >= 1;
  for (const Shape* batch : {&s.a_batch, &s.b_batch}) {
    for (int axis = 0; axis < batch->rank(); ++axis) positive = positive && (*batch)[axis] >= 1;
  }
  if (!positive) return absl::InvalidArgumentError(absl::StrCat(s.DebugString(), ": sizes must be positive"));
  if (s.output_dtype != s.dtype && s.output_dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat(s.DebugString(), ": a ", DTypeName(s.output_dtype), " result needs operands of that type"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string MatMulShape::DebugString() const {
  const auto matrix = [](const Shape& batch, int64_t rows, int64_t columns, bool transposed) {
    std::string text = batch.rank() == 0 ? "" : absl::StrCat(batch.ToString(), "x");
    absl::StrAppendFormat(&text, "[%d,%d]%s", rows, columns, transposed ? "^T" : "");
    return text;
  };
  return absl::StrCat("matmul ", DTypeName(dtype), " ",
                      transpose_a ? matrix(a_batch, k, m, true) : matrix(a_batch, m, k, false), " * ",
                      transpose_b ? matrix(b_batch, n, k, true) : matrix(b_batch, k, n, false));
}

absl::StatusOr<Primitive> MatMul(const MatMulShape& shape, const MatMulOptions& options) {
  const std::string what = shape.DebugString();
  RETURN_IF_ERROR(Validate(shape));
  ASSIGN_OR_RETURN(const memory::data_type type, DataType(shape.dtype));
  ASSIGN_OR_RETURN(const memory::data_type output_type, DataType(shape.output_dtype));
  ASSIGN_OR_RETURN(const MatMulProblem p, Normalize(shape));
  const bool repeat = ProductsRepeat(shape.dtype);
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    if (repeat && MaySplitSums(p, shape.dtype)) return InParts(what, p, type, output_type, options);
    const Descs batched = MakeDescs(p, true, type, output_type);
    const auto desc = Make(batched, options);
    if (desc && !IsReference(desc.impl_info_str())) {
      if (repeat && !Repeats(desc)) return SplitsSums(what);
      Builder builder;
      AddStep(dnnl::matmul(desc), desc, builder, batched, options, builder.Input(0, batched.a),
              builder.Input(1, batched.b), builder.Output(0, batched.y));
      return builder.Build(desc.impl_info_str());
    }
    const Descs single = MakeDescs(p, false, type, output_type);
    const auto single_desc = Make(single, options);
    if (!single_desc) return absl::UnimplementedError(absl::StrCat(what, ": oneDNN has no implementation"));
    if (IsReference(single_desc.impl_info_str())) return OnlyReference(what, single_desc.impl_info_str());
    if (repeat && !Repeats(single_desc)) return SplitsSums(what);
    return Unrolled(p, single, single_desc, options);
  });
}

}  // namespace belfry::ops::onednn
