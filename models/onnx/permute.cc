#include <cstring>
#include <vector>

#include "framework/base/memory/out_of_memory.h"
#include "framework/compiler/eager.h"
#include "models/onnx/permute_impl.h"
#include "ops/builtin_ops.h"

namespace belfry::onnx {

Tensor Permuted(const Tensor& x, absl::Span<const int64_t> perm) {
  const absl::StatusOr<std::vector<Tensor>> transposed =
      RunOp(*BuiltinOps().Find("Transpose"),
            {{"T", x.dtype()}, {"perm", std::vector<int64_t>(perm.begin(), perm.end())}}, {x});
  if (!transposed.ok()) throw AllocationFailed(x.bytes());  // nothing else can fail
  return (*transposed)[0];
}

Tensor WithBlocks(const Tensor& x, absl::Span<const int64_t> order) {
  const int64_t rows = x.shape()[0], blocks = static_cast<int64_t>(order.size()), width = x.shape()[1] / blocks;
  const size_t bytes = static_cast<size_t>(width) * SizeOf(x.dtype());
  Tensor y(x.dtype(), x.shape());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < blocks && bytes > 0; ++i) {
      std::memcpy(static_cast<char*>(y.raw()) + static_cast<size_t>(row * blocks + i) * bytes,
                  static_cast<const char*>(x.raw()) + static_cast<size_t>(row * blocks + order[i]) * bytes, bytes);
    }
  }
  return y;
}

}  // namespace belfry::onnx
