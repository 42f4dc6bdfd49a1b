#include "framework/base/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/base/half.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

namespace belfry {
namespace {

constexpr size_t kLargePage = size_t{2} << 20, kLargeBlock = 2 * kLargePage;

double ElementAsDouble(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return tensor.data<float>()[i];
    case DType::kFloat64: return tensor.data<double>()[i];
    case DType::kFloat16: return static_cast<float>(tensor.data<Half>()[i]);
    case DType::kBFloat16: return static_cast<float>(tensor.data<BFloat16>()[i]);
    case DType::kInt32: return tensor.data<int32_t>()[i];
    case DType::kInt64: return static_cast<double>(tensor.data<int64_t>()[i]);
    case DType::kUInt8: return tensor.data<uint8_t>()[i];
    case DType::kBool: return tensor.data<bool>()[i];
  }
  return 0;
}

// Prints integers exactly; a double would round large ones.
std::string ElementAsString(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DType::kInt32) return absl::StrCat(tensor.data<int32_t>()[i]);
  if (tensor.dtype() == DType::kInt64) return absl::StrCat(tensor.data<int64_t>()[i]);
  return absl::StrCat(ElementAsDouble(tensor, i));
}

[[noreturn]] void Misused(const std::string& what, SourceLocation where) {
  CheckFailed(what.c_str(), where.file, where.line);
}

}  // namespace

// Large blocks, above all arenas, use huge pages if the kernel has them: a convolution walks through its images in
// tiles, and with small pages each row of a tile would lie in a different page.
void* AllocateAligned(size_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t alignment = bytes < kLargeBlock ? kAlignment : kLargePage;
  void* const memory = std::aligned_alloc(alignment, AlignUp(bytes, alignment));
  // The tail, less than one huge page, stays in small pages so that no extra memory is used.
  if (bytes >= kLargeBlock && memory != nullptr) madvise(memory, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
  return memory;
}

void FreeAligned(void* memory) { std::free(memory); }

Tensor::Tensor(DType dtype, const Shape& shape, SourceLocation where) : dtype_(dtype), shape_(shape) {
  if (!shape.known()) Misused(absl::StrCat("a tensor cannot have the unknown extents of ", shape.ToString()), where);
  elements_ = shape.elements();
  if (elements_ <= 0) return;
  buffer_.reset(static_cast<std::byte*>(AllocateAligned(bytes())), FreeAligned);
  if (buffer_ == nullptr) throw AllocationFailed(bytes());
}

absl::StatusOr<Tensor> Tensor::Allocate(DType dtype, const Shape& shape) {
  RETURN_IF_ERROR(Shape::Make(shape.dims()).status());
  if (!shape.known()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot allocate a tensor with unknown extents: ", shape.ToString()));
  }
  Tensor tensor = WithoutData(dtype, shape);
  if (tensor.elements_ <= 0) return tensor;
  tensor.buffer_.reset(static_cast<std::byte*>(AllocateAligned(tensor.bytes())), FreeAligned);
  if (tensor.buffer_ == nullptr) {
    return OutOfMemory(absl::StrCat("Out of memory for a tensor of ", tensor.bytes(), " bytes, ", DTypeName(dtype), " ",
                                    shape.ToString()));
  }
  return tensor;
}

Tensor Tensor::Over(std::shared_ptr<std::byte> elements, DType dtype, const Shape& shape) {
  BELFRY_CHECK(reinterpret_cast<uintptr_t>(elements.get()) % kAlignment == 0);
  Tensor tensor = WithoutData(dtype, shape);
  if (tensor.elements_ > 0) tensor.buffer_ = std::move(elements);
  return tensor;
}

Tensor Tensor::WithoutData(DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.elements_ = shape.elements();
  return tensor;
}

Tensor Tensor::Zeros(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  if (tensor.elements() > 0) std::memset(tensor.raw(), 0, tensor.bytes());
  return tensor;
}

void Tensor::FailValues(size_t values, const Shape& shape, SourceLocation where) {
  Misused(absl::StrCat(Counted(static_cast<int64_t>(values), "value"), " for shape ", shape.ToString(), ", which has ",
                       Counted(shape.elements(), "element")),
          where);
}

void Tensor::FailDType(DType wanted, SourceLocation where) const {
  Misused(absl::StrCat("the tensor is ", DTypeName(dtype_), " ", shape_.ToString(), ", not ", DTypeName(wanted)),
          where);
}

void Tensor::FailScalar(SourceLocation where) const {
  Misused(absl::StrCat("the tensor has shape ", shape_.ToString(), ", not a single element"), where);
}

Tensor Tensor::Reshaped(const Shape& shape, SourceLocation where) const {
  if (!shape.known() || shape.elements() != elements_) {
    Misused(absl::StrCat("a tensor of shape ", shape_.ToString(), " cannot have the shape ", shape.ToString()), where);
  }
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::Clone() const {
  Tensor tensor(dtype_, shape_);
  if (elements_ > 0) std::memcpy(tensor.raw(), raw(), bytes());
  return tensor;
}

std::vector<double> Tensor::ToDoubles(int64_t count) const {
  std::vector<double> values(count < 0 ? elements_ : std::min(count, elements_));
  for (size_t i = 0; i < values.size(); ++i) values[i] = ElementAsDouble(*this, static_cast<int64_t>(i));
  return values;
}

std::string Tensor::ToString(int64_t values) const {
  std::string text =
      absl::StrCat("Tensor<type: ", TensorFlowShortName(dtype_), " shape: ", shape_.ToString(), " values: ");
  if (elements_ > 0 && raw() == nullptr) return absl::StrCat(text, "not kept>");  // WithoutData
  for (int64_t i = 0; i < std::min(values, elements_); ++i) {
    absl::StrAppend(&text, i > 0 ? " " : "", ElementAsString(*this, i));
  }
  absl::StrAppend(&text, elements_ > values ? "...>" : ">");
  return text;
}

}  // namespace belfry
