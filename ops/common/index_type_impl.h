#pragma once

#include <cstdint>
#include <utility>

#include "framework/base/dtype.h"

namespace belfry::ops {

// make(I{}) for the type I of indices that `dtype` names: int32_t or int64_t.
template <class Make>
auto WithIndexType(DType dtype, Make&& make) {
  return dtype == DType::kInt32 ? std::forward<Make>(make)(int32_t{}) : std::forward<Make>(make)(int64_t{});
}

}  // namespace belfry::ops
