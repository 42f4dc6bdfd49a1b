#include "ops/copy/copy_impl.h"

#include <algorithm>
#include <cstring>

#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/copy/convert_impl.h"
#include "ops/math.h"

namespace belfry::ops {
namespace {

template <class T>
uint64_t BitsOf(double value) {
  const T element = ConvertElement<T>(value);
  uint64_t bits = 0;
  std::memcpy(&bits, &element, sizeof(element));
  return bits;
}

}  // namespace

std::vector<KernelDef> AnyTypeKernels(const KernelFactory& make) {
  std::vector<KernelDef> kernels;
  for (DType dtype : kAllDTypes) kernels.push_back({"CPU", dtype, make});
  return kernels;
}

uint64_t ElementBits(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return BitsOf<float>(value);
    case DType::kFloat64: return BitsOf<double>(value);
    case DType::kFloat16: return BitsOf<Half>(value);
    case DType::kBFloat16: return BitsOf<BFloat16>(value);
    case DType::kInt32: return BitsOf<int32_t>(value);
    case DType::kInt64: return BitsOf<int64_t>(value);
    case DType::kUInt8: return BitsOf<uint8_t>(value);
    case DType::kBool: return BitsOf<bool>(value);
  }
  return 0;
}

void FillElements(void* to, int64_t n, size_t element_size, uint64_t bits) {
  const auto fill = [&](auto unit) {
    using U = RawElement<decltype(unit)>;
    U element;
    element.bits = static_cast<decltype(unit)>(bits);
    ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
      std::fill(static_cast<U*>(to) + begin, static_cast<U*>(to) + end, element);
    });
  };
  switch (element_size) {
    case 1: return fill(uint8_t());
    case 2: return fill(uint16_t());
    case 4: return fill(uint32_t());
    case 8: return fill(uint64_t());
  }
  BELFRY_CHECK(false);
}

absl::StatusOr<std::vector<Shape>> UnchangedShape(const ShapeArgs& args) { return std::vector<Shape>{args.inputs[0]}; }

Output SumToShapeOf(const Scope& scope, Output dy, Output x) {
  if (!dy.valid()) return Output();
  if (dy.shape().known() && dy.shape() == x.shape()) return dy;
  return SumLike(scope, dy, x);
}

}  // namespace belfry::ops
