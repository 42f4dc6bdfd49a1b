// A dense array in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/base/source_location.h"

namespace belfry {

// dtype, shape and a shared buffer in row-major order (the last axis is contiguous), aligned to 64 bytes. Users feed
// and fetch Tensors; inside a plan, data lives in arenas. Copies share the buffer, so a write through one is seen by
// all. Concurrent reads are safe; writing while another thread reads is not. Every extent of the shape is known.
// Where a REQUIRES does not hold, the program ends with a message that names the values and the caller's source line.
class Tensor {
 public:
  Tensor() = default;  // float32, shape [0]: no elements
  // The elements are uninitialised. As containers do, throws std::bad_alloc if there is no memory. REQUIRES: every
  // extent is known.
  Tensor(DType dtype, const Shape& shape, SourceLocation where = SourceLocation::Current());

  // For shapes that users decide: like the constructor, but returns ResourceExhausted if there is no memory, and
  // InvalidArgument for unknown or too large extents.
  static absl::StatusOr<Tensor> Allocate(DType dtype, const Shape& shape);
  // A dtype and a shape without elements (raw() is null), where only the shape matters.
  static Tensor WithoutData(DType dtype, const Shape& shape);

  // Tensor::Scalar(1.0f): shape [].
  template <class T>
  static Tensor Scalar(T value) {
    return Of<T>({value}, Shape());
  }
  // Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {2, 3}); without a shape, a vector. REQUIRES: as many values as the shape has
  // elements.
  template <class T>
  static Tensor Of(std::initializer_list<T> values, const Shape& shape,
                   SourceLocation where = SourceLocation::Current()) {
    return Of<T>(absl::MakeConstSpan(values.begin(), values.size()), shape, where);
  }
  template <class T>
  static Tensor Of(std::initializer_list<T> values) {
    return Of<T>(values, Shape({static_cast<int64_t>(values.size())}));
  }
  template <class T>
  static Tensor Of(absl::Span<const T> values, const Shape& shape, SourceLocation where = SourceLocation::Current()) {
    Tensor tensor(kDTypeOf<T>, shape, where);
    if (static_cast<int64_t>(values.size()) != tensor.elements()) FailValues(values.size(), shape, where);
    for (size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = values[i];
    return tensor;
  }
  // A tensor over elements that somebody else allocated, such as a part of a mapped file, in an aliasing shared_ptr.
  // REQUIRES: they are as many bytes as the tensor's, aligned to 64.
  static Tensor Over(std::shared_ptr<std::byte> elements, DType dtype, const Shape& shape);
  // All elements zero.
  static Tensor Zeros(DType dtype, const Shape& shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * SizeOf(dtype_); }

  // The elements in row-major order; null if there are none. REQUIRES: T is the C++ type of dtype().
  template <class T>
  T* data(SourceLocation where = SourceLocation::Current()) {
    if (kDTypeOf<T> != dtype_) FailDType(kDTypeOf<T>, where);
    return static_cast<T*>(raw());
  }
  template <class T>
  const T* data(SourceLocation where = SourceLocation::Current()) const {
    if (kDTypeOf<T> != dtype_) FailDType(kDTypeOf<T>, where);
    return static_cast<const T*>(raw());
  }
  template <class T>
  absl::Span<const T> span(SourceLocation where = SourceLocation::Current()) const {
    // Not in braces: with T = bool, a pointer and a number would make an initialiser list of two bools.
    return absl::Span<const T>(data<T>(where), static_cast<size_t>(elements_));
  }
  void* raw() { return buffer_.get(); }
  const void* raw() const { return buffer_.get(); }
  // The only element. REQUIRES: elements() == 1.
  template <class T>
  T scalar(SourceLocation where = SourceLocation::Current()) const {
    if (elements_ != 1) FailScalar(where);
    return data<T>(where)[0];
  }

  // The same buffer with another shape. REQUIRES: the same number of elements.
  Tensor Reshaped(const Shape& shape, SourceLocation where = SourceLocation::Current()) const;
  // A copy with its own buffer.
  Tensor Clone() const;
  // The first `count` values (all if negative) as doubles (bool: 0 or 1), for printing and for comparisons in tests.
  std::vector<double> ToDoubles(int64_t count = -1) const;

  // For example "Tensor<type: float shape: [3,2] values: 1 2 3...>", with at most `values` values: TensorFlow's summary
  // format.
  std::string ToString(int64_t values = 3) const;

 private:
  [[noreturn]] static void FailValues(size_t values, const Shape& shape, SourceLocation where);
  [[noreturn]] void FailDType(DType wanted, SourceLocation where) const;
  [[noreturn]] void FailScalar(SourceLocation where) const;

  DType dtype_ = DType::kFloat32;
  Shape shape_{0};
  int64_t elements_ = 0;
  std::shared_ptr<std::byte> buffer_;
};

// Allocates `bytes` of host memory aligned to 64 bytes, to be freed with FreeAligned. Null for 0 bytes and when out of
// memory.
void* AllocateAligned(size_t bytes);
void FreeAligned(void* memory);

}  // namespace belfry
