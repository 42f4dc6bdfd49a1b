#include "ops/onednn/matmul.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
};

int64_t Product(const memory::dims& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

absl::StatusOr<MatMulProblem> Normalize(const MatMulShape& s) {
  // Transposing a vector does not change its bytes.
  MatMulProblem p{
      {}, {}, {}, s.m, s.k, s.n, s.transpose_a && s.m != 1 && s.k != 1, s.transpose_b && s.k != 1 && s.n != 1};
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

// Matrices [batch.., rows, columns], stored with the last two axes swapped if `transposed`.
memory::desc Matrices(memory::dims dims, int64_t rows, int64_t columns, bool transposed, memory::data_type type) {
  dims.push_back(rows), dims.push_back(columns);
  memory::dims strides(dims.size());
  const size_t last = dims.size() - 1;
  strides[last] = transposed ? rows : 1;
  strides[last - 1] = transposed ? 1 : columns;
  int64_t stride = rows * columns;
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
  return {Matrices(batched ? p.a_batch : none, p.m, p.k, p.transpose_a, type),
          Matrices(batched ? p.b_batch : none, p.k, p.n, p.transpose_b, type),
          memory::desc(bias, output_type, bias_strides),
          Matrices(batched ? p.y_batch : none, p.m, p.n, false, output_type)};
}

dnnl::matmul::primitive_desc Make(const Descs& d, const MatMulOptions& options) {
  const Target target{.engine = Cpu(), .attributes = Attributes(options.post_ops), .allow_empty = true};
  return options.bias ? Describe<dnnl::matmul>(target, d.a, d.b, d.bias, d.y)
                      : Describe<dnnl::matmul>(target, d.a, d.b, d.y);
}

void AddStep(const dnnl::matmul& primitive, const dnnl::matmul::primitive_desc& desc, Builder& builder, const Descs& d,
             const MatMulOptions& options, size_t a_offset, size_t b_offset, size_t y_offset) {
  const auto a = builder.Input(0, d.a, a_offset);
  const auto b = builder.Input(1, d.b, b_offset);
  const auto y = builder.Output(0, d.y, y_offset);
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
    AddStep(primitive, desc, builder, d, options, offset(p.a_batch, d.a), offset(p.b_batch, d.b),
            offset(p.y_batch, d.y));
    for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == p.y_batch[axis];) index[axis] = 0;
  }
  return builder.Build(desc.impl_info_str());
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
  return Guard(what, [&]() -> absl::StatusOr<Primitive> {
    const Descs batched = MakeDescs(p, true, type, output_type);
    const auto desc = Make(batched, options);
    if (desc && !IsReference(desc.impl_info_str())) {
      Builder builder;
      AddStep(dnnl::matmul(desc), desc, builder, batched, options, 0, 0, 0);
      return builder.Build(desc.impl_info_str());
    }
    const Descs single = MakeDescs(p, false, type, output_type);
    const auto single_desc = Make(single, options);
    if (!single_desc) return absl::UnimplementedError(absl::StrCat(what, ": oneDNN has no implementation"));
    if (IsReference(single_desc.impl_info_str()) && !options.allow_reference) {
      return OnlyReference(what, single_desc.impl_info_str());
    }
    return Unrolled(p, single, single_desc, options);
  });
}

}  // namespace belfry::ops::onednn
