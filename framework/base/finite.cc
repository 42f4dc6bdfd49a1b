#include "framework/base/finite.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"

namespace belfry {
namespace {

template <class T>
NonFinite Find(const T* data, int64_t elements) {
  NonFinite found;
  for (int64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<double>(data[i]);
    if (std::isfinite(value)) continue;
    ++(std::isnan(value) ? found.nans : found.infinities);
    if (found.first < 0) found.first = i;
  }
  return found;
}

}  // namespace

std::string NonFinite::ToString() const {
  return absl::StrCat(nans, " NaN and ", infinities, " infinite values, the first at element ", first);
}

NonFinite FindNonFinite(DType dtype, const void* data, int64_t elements) {
  switch (dtype) {
    case DType::kFloat32: return Find(static_cast<const float*>(data), elements);
    case DType::kFloat64: return Find(static_cast<const double*>(data), elements);
    case DType::kFloat16: return Find(static_cast<const Half*>(data), elements);
    case DType::kBFloat16: return Find(static_cast<const BFloat16*>(data), elements);
    default: return {};
  }
}

}  // namespace belfry
