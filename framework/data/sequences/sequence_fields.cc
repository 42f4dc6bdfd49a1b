#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/numeric/round_to_odd.h"
#include "framework/base/status.h"
#include "framework/data/sequences/sequence_fields_impl.h"

namespace belfry::data {
namespace {

// Nothing if T cannot hold the number; a float is rounded.
template <class T>
Tensor NumberOf(double value) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    // The largest int64 rounds to 2^63.
    const auto low = static_cast<double>(std::numeric_limits<T>::lowest());
    const auto high = static_cast<double>(std::numeric_limits<T>::max());
    if (!(low <= value && value <= high && value < 0x1p63)) return Tensor();
    const auto number = static_cast<T>(value);
    return static_cast<double>(number) == value ? Tensor::Scalar(number) : Tensor();
  } else if constexpr (std::is_arithmetic_v<T>) {
    return Tensor::Scalar(static_cast<T>(value));
  } else {
    return Tensor::Scalar(static_cast<T>(RoundToOdd(value)));
  }
}

Tensor NumberOf(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32: return NumberOf<float>(value);
    case DType::kFloat64: return NumberOf<double>(value);
    case DType::kFloat16: return NumberOf<Half>(value);
    case DType::kBFloat16: return NumberOf<BFloat16>(value);
    case DType::kInt32: return NumberOf<int32_t>(value);
    case DType::kInt64: return NumberOf<int64_t>(value);
    case DType::kUInt8: return NumberOf<uint8_t>(value);
    case DType::kBool: return NumberOf<bool>(value);
  }
  return Tensor();
}

}  // namespace

bool IsSequence(const Field& field) { return field.shape.rank() >= 1 && field.shape[0] == Shape::kUnknown; }

absl::StatusOr<std::vector<Tensor>> PaddingOf(absl::Span<const Field> fields,
                                              const std::map<std::string, double>& given,
                                              const std::string& length_field) {
  std::vector<Field> known(fields.begin(), fields.end());
  bool any = false;
  for (Field& field : known) {
    if (!IsSequence(field)) continue;
    field.shape.set_dim(0, 1);
    any = true;
  }
  known.push_back({.name = length_field, .dtype = DType::kInt32});
  RETURN_IF_ERROR(CheckFields(known));
  if (!any) return absl::InvalidArgumentError(absl::StrCat("no field is a sequence, [?, ...]: ", FieldsText(fields)));
  std::vector<Tensor> padding;
  for (const Field& field : fields) padding.push_back(NumberOf(field.dtype, 0));
  for (const auto& [name, value] : given) {
    const absl::StatusOr<size_t> index = FindField(fields, name);
    if (!index.ok() || !IsSequence(fields[*index])) {
      return absl::InvalidArgumentError(absl::StrCat("there is a padding for '", name,
                                                     "', which is no sequence; the fields are ", FieldsText(fields)));
    }
    padding[*index] = NumberOf(fields[*index].dtype, value);
    if (padding[*index].raw() != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("the padding of the field ", fields[*index].ToString(), " is ",
                                                   value, ", which its dtype cannot hold"));
  }
  return padding;
}

}  // namespace belfry::data
