#include "ops/extents.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"
#include "ops/copy/extents_impl.h"

namespace belfry::ops {
namespace {

constexpr int64_t kInvalid = -2;  // makes a shape invalid

absl::StatusOr<int64_t> ScaledExtent(int64_t extent, int64_t factor, int64_t offset, int64_t divisor) {
  const int64_t sum = AddExtents(MultiplyExtents(extent, factor), offset);
  if (sum < 0) return absl::InvalidArgumentError(absl::StrCat("an extent would be negative: ", sum));
  if (divisor < 1 || sum % divisor != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the extent ", sum, " cannot be divided by ", divisor, " without a remainder"));
  }
  return sum / divisor;
}

// Attributes, one number for each axis: "sizes", or -1 where the extent is that of "axes" of input "inputs", times
// "factors", plus "offsets", divided by "divisors".
absl::StatusOr<std::vector<Shape>> CarrierShape(const ShapeArgs& args) {
  std::vector<int64_t> dims = args.attrs.Ints("sizes");
  const auto &inputs = args.attrs.Ints("inputs"), &axes = args.attrs.Ints("axes");
  const auto &factors = args.attrs.Ints("factors"), &divisors = args.attrs.Ints("divisors");
  const auto& offsets = args.attrs.Ints("offsets");
  const size_t rank = dims.size();
  if (inputs.size() != rank || axes.size() != rank || factors.size() != rank || offsets.size() != rank ||
      divisors.size() != rank) {
    return absl::InvalidArgumentError("needs six lists of one length");
  }
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] >= 0) continue;
    if (inputs[i] < 0 || inputs[i] >= static_cast<int64_t>(args.inputs.size())) {
      return absl::InvalidArgumentError(absl::StrCat("extent ", i, " is ", dims[i], "; only Reshape infers one"));
    }
    const Shape& from = args.inputs[static_cast<size_t>(inputs[i])];
    ASSIGN_OR_RETURN(const int axis, CanonicalAxis(axes[i], from.rank()));
    if (from[axis] == Shape::kUnknown) continue;
    ASSIGN_OR_RETURN(dims[i], ScaledExtent(from[axis], factors[i], offsets[i], divisors[i]));
  }
  dims.push_back(0);
  ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  return std::vector<Shape>{std::move(shape)};
}

absl::StatusOr<Kernel> MakeCarrier(const KernelSpec&) { return NothingToDo(); }

// Inputs of one op have one dtype, so tensors of others are replaced by carriers of their shapes.
Output AsCarrierInput(const Scope& scope, Output tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  const auto rank = static_cast<size_t>(tensor.shape().rank());
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  return scope.Add("Extents", {tensor},
                   {{"sizes", std::vector<int64_t>(rank, -1)},
                    {"inputs", std::vector<int64_t>(rank, 0)},
                    {"axes", axes},
                    {"factors", std::vector<int64_t>(rank, 1)},
                    {"offsets", std::vector<int64_t>(rank, 0)},
                    {"divisors", std::vector<int64_t>(rank, 1)}});
}

// The tensors whose extents are taken.
std::vector<Output> Sources(const Extents& extents) {
  std::vector<Output> tensors;
  for (const Extent& extent : extents.list()) {
    if (!extent.taken() || extent.size() != Shape::kUnknown) continue;
    if (std::find(tensors.begin(), tensors.end(), extent.tensor()) == tensors.end()) tensors.push_back(extent.tensor());
  }
  return tensors;
}

}  // namespace

Extent Extent::Of(Output tensor, int64_t axis) {
  Extent extent(Shape::kUnknown);
  extent.taken_ = true;
  extent.tensor_ = tensor;
  extent.axis_ = axis;
  return extent;
}

Extent Extent::operator*(int64_t factor) const {
  Extent product = *this;
  product.size_ = taken_ ? size_ : ScaledExtent(size_, factor, 0, 1).value_or(kInvalid);
  product.factor_ = MultiplyExtents(factor_, factor);
  product.offset_ = MultiplyExtents(offset_, factor);
  return product;
}

Extent Extent::operator/(int64_t divisor) const {
  Extent part = *this;
  part.size_ = taken_ ? size_ : ScaledExtent(size_, 1, 0, divisor).value_or(kInvalid);
  part.divisor_ = divisor < 1 ? 0 : MultiplyExtents(divisor_, divisor);
  return part;
}

Extent Extent::operator+(int64_t more) const {
  Extent sum = *this;
  sum.size_ = taken_ ? size_ : ScaledExtent(size_, 1, more, 1).value_or(kInvalid);
  sum.offset_ = AddExtents(offset_, MultiplyExtents(more, divisor_));
  return sum;
}

int64_t Extent::size() const {
  if (!taken_) return size_;
  const Shape& shape = tensor_.shape();
  const absl::StatusOr<int> axis = CanonicalAxis(axis_, shape.rank());
  if (!axis.ok() || shape[*axis] == Shape::kUnknown) return Shape::kUnknown;
  return ScaledExtent(shape[*axis], factor_, offset_, divisor_).value_or(Shape::kUnknown);
}

Extents::Extents(const Shape& shape) : list_(shape.dims().begin(), shape.dims().end()), valid_(shape.valid()) {}

Shape Extents::shape() const {
  if (!valid_) return Shape::Invalid();
  std::vector<int64_t> dims;
  for (const Extent& extent : list_) dims.push_back(extent.size());
  return Shape(absl::MakeConstSpan(dims));
}

bool Extents::settled() const {
  return std::none_of(list_.begin(), list_.end(),
                      [](const Extent& extent) { return extent.taken() && extent.size() == Shape::kUnknown; });
}

Output CarrierOf(const Scope& scope, const Extents& extents) {
  const Scope named = scope.Named("extents");
  std::vector<Output> tensors = Sources(extents);
  if (tensors.empty()) {
    const Shape shape = extents.shape();
    return Fill(named, shape.valid() ? shape.Insert(shape.rank(), 0) : shape, 0);
  }
  const bool mixed = std::any_of(tensors.begin(), tensors.end(),
                                 [&](const Output& tensor) { return tensor.dtype() != tensors[0].dtype(); });
  std::vector<int64_t> sizes, inputs, axes, factors, offsets, divisors;
  for (const Extent& extent : extents.list()) {
    const auto source = std::find(tensors.begin(), tensors.end(), extent.tensor());
    const bool taken = extent.taken() && source != tensors.end();
    sizes.push_back(extent.size());
    inputs.push_back(taken ? source - tensors.begin() : -1);
    // A tensor's carrier has one axis more, at the end.
    axes.push_back(taken && extent.axis() < 0 ? extent.axis() + extent.tensor().shape().rank() : extent.axis());
    factors.push_back(extent.factor());
    offsets.push_back(extent.offset());
    divisors.push_back(extent.divisor());
  }
  if (mixed) {
    for (Output& tensor : tensors) tensor = AsCarrierInput(named, tensor, DType::kFloat32);
  }
  return named.Add("Extents", tensors,
                   {{"sizes", sizes},
                    {"inputs", inputs},
                    {"axes", axes},
                    {"factors", factors},
                    {"offsets", offsets},
                    {"divisors", divisors}});
}

absl::StatusOr<Shape> CarriedShape(const Shape& carrier) {
  if (carrier.rank() > 0 && carrier[-1] == 0) return carrier.Remove(carrier.rank() - 1);
  return absl::InvalidArgumentError(
      absl::StrCat("a tensor that stands for extents must be [extents..., 0], not ", carrier.ToString()));
}

void RegisterExtentsOps(OpRegistry& registry) {
  const std::vector<int64_t> none;
  registry.Add({.name = "Extents",
                .inputs = {{.name = "tensors", .type = "L", .list = true, .shape_only = true}},
                .outputs = {{.name = "carrier", .type = kCarrierType}},
                .types = {{"L", kAnyType}},
                .attrs = {{"sizes", none, true},
                          {"inputs", none, true},
                          {"axes", none, true},
                          {"factors", none, true},
                          {"offsets", none, true},
                          {"divisors", none, true}},
                .shape = CarrierShape,
                .not_differentiable = true,
                .kernels = AnyTypeKernels(MakeCarrier)});
}

}  // namespace belfry::ops
