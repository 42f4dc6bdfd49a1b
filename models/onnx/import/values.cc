#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/finite.h"
#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/compiler/eager.h"
#include "models/onnx/import/importer_impl.h"
#include "models/onnx/permute_impl.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::onnx {
namespace {

// Limits of what a small file can ask for: of a tensor that is computed at the import, of all of them, of the work of a
// product among them, of copies of weights, and of the extents of a shape.
constexpr size_t kMaxFoldedTensor = size_t{1} << 26, kMaxFoldedBytes = size_t{1} << 28;
constexpr int64_t kMaxFoldedWork = int64_t{1} << 32;
constexpr size_t kMaxCopiedBytes = size_t{1} << 30;
constexpr size_t kMaxExtents = 256;

// True if the outputs of a node are small, and computed soon.
bool IsCheap(const Node& node) {
  int64_t read = 1;
  for (const Output& input : node.inputs()) read = std::max(read, input.shape().known() ? input.shape().elements() : 0);
  const bool product = node.op().name == "MatMul" || absl::StartsWith(node.op().name, "Conv2D");
  return std::all_of(node.outputs().begin(), node.outputs().end(), [&](const TensorSpec& spec) {
    return spec.shape.known() && Tensor::WithoutData(spec.dtype, spec.shape).bytes() <= kMaxFoldedTensor &&
           (!product || MultiplyExtents(spec.shape.elements(), read) <= kMaxFoldedWork);
  });
}

constexpr int64_t kFromLast[] = {0, 3, 1, 2}, kToLast[] = {0, 2, 3, 1};

bool IsIdentity(absl::Span<const int64_t> perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::vector<int64_t> InverseOf(absl::Span<const int64_t> perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

std::vector<int64_t> Counted(int64_t n) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

Output Transposed(const Scope& scope, Output x, absl::Span<const int64_t> perm) {
  if (!x.valid() || IsIdentity(perm)) return x;
  return ops::Transpose(scope, x, {perm.begin(), perm.end()});
}

// An extent as an int64 [1], which may be negative.
Output NumberOfExtent(const Scope& scope, const ops::Extent& extent) {
  if (!extent.taken()) return ops::Const<int64_t>(scope, {extent.size()});
  const auto number = [&](int64_t value) { return ops::Const<int64_t>(scope, value); };
  const int64_t axis = extent.axis() < 0 ? extent.axis() + extent.tensor().shape().rank() : extent.axis();
  Output x = ops::StridedSlice(scope, ops::ShapeOf(scope, extent.tensor(), DType::kInt64), {axis}, {axis + 1});
  if (extent.factor() != 1) x = ops::Mul(scope, x, number(extent.factor()));
  if (extent.offset() != 0) x = ops::Add(scope, x, number(extent.offset()));
  return extent.divisor() == 1 ? x : ops::FloorDiv(scope, x, number(extent.divisor()));
}

}  // namespace

absl::StatusOr<int64_t> AxisIn(Order order, int64_t axis, int rank) {
  ASSIGN_OR_RETURN(const int from_front, CanonicalAxis(axis, rank));
  return order == Order::kChannelsLast ? kChannelsLastAxis[from_front] : int64_t{from_front};
}

Output ZerosOf(const Scope& scope, const ops::Extents& extents) {
  const auto rank = static_cast<int64_t>(extents.list().size());
  const Output indices = ops::Const(scope, Tensor(DType::kInt32, {0, rank}));
  return ops::ScatterND(scope, indices, ops::Const(scope, Tensor(DType::kFloat32, {0})), extents);
}

Output NumberOf(const Scope& scope, double value, DType dtype) { return ops::Fill(scope, {}, value, dtype); }

Importer::Value* Importer::Find(int i) {
  if (Has(i)) return &values_.find(node_->input(i))->second;
  Fail(absl::InvalidArgumentError(absl::StrCat("has no input ", i)));
  return nullptr;
}

Output Importer::In(int i, Order order) {
  Value* const value = Find(i);
  return value == nullptr ? Output() : Get(*value, order);
}

DType Importer::TypeOf(int i) {
  Value* const value = Find(i);
  if (value == nullptr) return DType::kFloat32;
  if (value->extents) return value->extents->dtype;
  if (value->initializer != nullptr) {
    if (const std::optional<DType> dtype = DTypeOfElements(value->initializer->data_type())) return *dtype;
  }
  return value->channels_last.valid() ? value->channels_last.dtype() : Get(*value, Order::kOnnx).dtype();
}

Shape Importer::ShapeOf(int i) {
  Value* const value = Find(i);
  if (value == nullptr) return Shape::Invalid();
  if (value->constant) return value->constant->shape();
  if (value->initializer != nullptr) {
    const std::vector<int64_t> dims(value->initializer->dims().begin(), value->initializer->dims().end());
    const absl::StatusOr<Shape> shape = Shape::Make(dims);
    if (shape.ok() && shape->known()) return *shape;
  }
  if (value->onnx.valid() || !value->channels_last.valid()) return Get(*value, Order::kOnnx).shape();
  const Shape& last = value->channels_last.shape();
  return Shape({last[0], last[3], last[1], last[2]});
}

ops::Extent Importer::ExtentOf(int i, int64_t axis) {
  const Order order = IsChannelsLast(i) ? Order::kChannelsLast : Order::kOnnx;
  const Output x = In(i, order);
  const int64_t at = order == Order::kChannelsLast ? kChannelsLastAxis[axis] : axis;
  const int64_t size = x.shape()[static_cast<int>(at)];
  return size == Shape::kUnknown ? ops::Extent::Of(x, at) : ops::Extent(size);
}

bool Importer::IsChannelsLast(int i) const {
  if (!Has(i)) return false;
  const auto found = values_.find(node_->input(i));
  return found != values_.end() && found->second.channels_last.valid() && !found->second.constant &&
         !found->second.variable.valid();
}

bool Importer::IsParameter(int i) const {
  if (!Has(i)) return false;
  const Value& value = values_.find(node_->input(i))->second;
  return value.initializer != nullptr || value.constant || value.variable.valid();
}

Order Importer::ResultOrder() {
  bool last = false;
  for (int i = 0; i < InputCount(); ++i) {
    if (!Has(i)) continue;
    last = last || IsChannelsLast(i);
    if (ShapeOf(i).rank() > 4) return Order::kOnnx;
  }
  return last ? Order::kChannelsLast : Order::kOnnx;
}

Output Importer::Operand(int i, Order order) {
  Value* const value = Find(i);
  if (value == nullptr) return Output();
  if (order == Order::kOnnx || value->channels_last.valid()) return Get(*value, order);
  Output x = Get(*value, Order::kOnnx);
  const Shape shape = x.shape();
  if (!x.valid() || shape.rank() == 4) return Get(*value, order);
  if (shape.rank() == 0) return x;
  if (value->constant) {
    Shape four = shape;
    while (four.rank() < 4) four = four.Insert(0, 1);
    return value->channels_last = ops::Const(scope_, Permuted(value->constant->Reshaped(four), kToLast));
  }
  const bool channels = shape.rank() == 3 && shape[1] == 1 && shape[2] == 1;
  if (channels) return ops::Reshape(scope_, x, {-1});
  for (int rank = shape.rank(); rank < 4; ++rank) x = ops::ExpandDims(scope_, x, 0);
  return Transposed(scope_, x, kToLast);
}

absl::StatusOr<Output> Importer::Images(int i) {
  const int rank = ShapeOf(i).rank();
  if (rank == 4) return In(i, Order::kChannelsLast);
  if (rank == 3) return ops::ExpandDims(scope_, ops::Transpose(scope_, In(i), {0, 2, 1}), 1);
  RETURN_IF_ERROR(error_);
  return absl::UnimplementedError(
      absl::StrCat("its input has ", rank, " axes; images [N, C, H, W] and sequences [N, C, L] are covered"));
}

void Importer::OutImages(Output images, int rank, int k) {
  if (rank == 4) return Out(images, Order::kChannelsLast, k);
  Out(ops::Transpose(scope_, ops::Squeeze(scope_, images, {1}), {0, 2, 1}), Order::kOnnx, k);
}

void Importer::ReadInitializer(Value& value) {
  const TensorProto& proto = *value.initializer;
  absl::StatusOr<Tensor> tensor = tensors_.Read(proto);
  if (!tensor.ok()) return Fail(tensor.status());
  value.initializer = nullptr;
  value.parameter = false;
  value.constant = *std::move(tensor);
}

// An infinite element, such as a mask has, is no weight.
Output Importer::MakeVariable(Value& value, absl::Span<const int64_t> perm, bool trainable) {
  ReadInitializer(value);
  if (!value.constant) return Output();
  if (FindNonFinite(value.constant->dtype(), value.constant->raw(), value.constant->elements()).any()) return Output();
  const Tensor stored = IsIdentity(perm) ? *value.constant : Permuted(*value.constant, perm);
  const std::string clean = CleanName(value.name, "parameter");
  std::string unique = clean;
  for (int i = 1; root_.graph().FindVariable(unique, 0).valid(); ++i) unique = absl::StrCat(clean, "_", i);
  const Variable variable =
      GetVariable(root_, unique, stored.shape(), ZerosInitializer(), {.dtype = stored.dtype(), .trainable = trainable});
  if (!variable.valid()) return Output();
  variables_.emplace_back(variable, stored);
  value.constant.reset();
  value.stored.assign(perm.begin(), perm.end());
  value.variable = variable;
  return variable;
}

Output Importer::Get(Value& value, Order order) {
  Output& form = order == Order::kOnnx ? value.onnx : value.channels_last;
  if (form.valid()) return form;
  if (value.initializer != nullptr) {
    if (value.parameter) MakeVariable(value, Counted(value.initializer->dims_size()), true);
    if (value.initializer != nullptr) ReadInitializer(value);
    if (!error_.ok()) return Output();
  }
  if (order == Order::kOnnx) {
    if (value.constant) return form = ops::Const(scope_, *value.constant);
    if (value.variable.valid()) return form = Transposed(scope_, value.variable, InverseOf(value.stored));
    if (value.extents) return form = Materialise(*value.extents);
  } else if (value.constant && value.constant->shape().rank() == 4) {
    return form = ops::Const(scope_, Permuted(*value.constant, kToLast));
  }
  const Output from = Get(value, order == Order::kOnnx ? Order::kChannelsLast : Order::kOnnx);
  return form = Reordered(from, order);
}

// Images of one pixel are only reshaped.
Output Importer::Reordered(const Output& from, Order order) {
  if (!from.valid()) return Output();
  if (from.shape().rank() != 4) {
    Fail(absl::InvalidArgumentError(absl::StrCat("needs images, but was given ", from.shape().ToString())));
    return Output();
  }
  const Shape& shape = from.shape();
  const bool to_last = order == Order::kChannelsLast;
  const int64_t channels = shape[to_last ? 1 : 3];
  const bool pixels = shape[to_last ? 2 : 1] == 1 && shape[to_last ? 3 : 2] == 1 && channels > 0;
  if (!pixels) return Transposed(scope_, from, to_last ? kToLast : kFromLast);
  return ops::Reshape(scope_, from, to_last ? Shape({-1, 1, 1, channels}) : Shape({-1, channels, 1, 1}));
}

Output Importer::Materialise(const ExtentList& extents) {
  std::vector<Output> parts;
  for (const MaybeExtent& extent : extents.list) {
    if (!extent) {
      Fail(absl::UnimplementedError("an extent is a function of several open ones, which it reads as a number"));
      return Output();
    }
    parts.push_back(NumberOfExtent(scope_, *extent));
  }
  if (parts.empty()) return ops::Const(scope_, Tensor(DType::kInt64, {0}));
  const Output all = parts.size() == 1 ? parts[0] : ops::Concat(scope_, parts, 0);
  return ops::Cast(scope_, extents.scalar ? ops::Reshape(scope_, all, Shape()) : all, extents.dtype);
}

Output Importer::Parameter(int i, absl::Span<const int64_t> perm) {
  Value* const value = Find(i);
  if (value == nullptr) return Output();
  const bool fresh = value->parameter && value->initializer->dims_size() == static_cast<int>(perm.size());
  if (fresh && (perm.size() > 2 || readers_[node_->input(i)] == 1)) MakeVariable(*value, perm, true);
  if (value->variable.valid() && absl::MakeConstSpan(value->stored) == perm) return value->variable;
  if (value->constant && value->constant->shape().rank() == static_cast<int>(perm.size())) {
    Copied(value->constant->bytes());
    return ops::Const(scope_, Permuted(*value->constant, perm));
  }
  const Output x = Get(*value, Order::kOnnx);
  if (x.valid() && x.shape().rank() != static_cast<int>(perm.size())) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("input ", i, " must have ", perm.size(), " axes, but is ", x.shape().ToString())));
    return Output();
  }
  return Transposed(scope_, x, perm);
}

std::pair<Output, bool> Importer::Matrix(int i, bool transposed) {
  constexpr int64_t kSwapped[] = {1, 0};
  Value* const value = Find(i);
  if (value == nullptr) return {};
  const bool fresh = value->parameter && value->initializer->dims_size() == 2;
  const bool read_once = readers_[node_->input(i)] == 1;
  if (fresh && transposed && read_once) MakeVariable(*value, kSwapped, true);
  if (value->variable.valid() && absl::MakeConstSpan(value->stored) == absl::MakeConstSpan(kSwapped)) {
    return {value->variable, !transposed};
  }
  return {Get(*value, Order::kOnnx), transposed};
}

Output Importer::Statistic(int i) {
  Value* const value = Find(i);
  if (value != nullptr && value->parameter) MakeVariable(*value, Counted(value->initializer->dims_size()), false);
  return In(i);
}

const Tensor* Importer::Constant(int i) {
  Value* const value = Find(i);
  if (value == nullptr) return nullptr;
  if (value->initializer != nullptr && !value->parameter) ReadInitializer(*value);
  return value->constant ? &*value->constant : nullptr;
}

absl::StatusOr<Tensor> Importer::Known(int i) {
  if (const Tensor* const constant = Constant(i)) return *constant;
  RETURN_IF_ERROR(error_);
  const Value& value = *Find(i);
  if (value.initializer != nullptr) return tensors_.Read(*value.initializer);
  return absl::UnimplementedError(absl::StrCat("input ", i,
                                               " depends on inputs of the model, or on weights, and must "
                                               "be a constant"));
}

absl::StatusOr<std::vector<int64_t>> Importer::KnownInts(int i) {
  ASSIGN_OR_RETURN(const Tensor tensor, Known(i));
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < tensor.elements(); ++k) {
    switch (tensor.dtype()) {
      case DType::kInt64: numbers.push_back(tensor.data<int64_t>()[k]); break;
      case DType::kInt32: numbers.push_back(tensor.data<int32_t>()[k]); break;
      case DType::kUInt8: numbers.push_back(tensor.data<uint8_t>()[k]); break;
      default: return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be of integers"));
    }
  }
  return numbers;
}

absl::StatusOr<double> Importer::KnownNumber(int i) {
  ASSIGN_OR_RETURN(const Tensor tensor, Known(i));
  if (tensor.elements() == 1) return tensor.ToDoubles()[0];
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be one number, not ", tensor.shape().ToString()));
}

absl::StatusOr<std::vector<int64_t>> Importer::IntsOf(absl::string_view attribute, int i,
                                                      const std::vector<int64_t>& otherwise) {
  if (Attribute(attribute) != nullptr) return Ints(attribute);
  if (Has(i)) return KnownInts(i);
  return otherwise;
}

bool Importer::IsComputedExtents(int i) const {
  return Has(i) && values_.find(node_->input(i))->second.extents.has_value();
}

std::optional<ExtentList> Importer::ExtentsIn(int i) {
  if (IsComputedExtents(i)) return values_.find(node_->input(i))->second.extents;
  const Tensor* const tensor = Constant(i);
  if (tensor == nullptr || tensor->shape().rank() > 1) return std::nullopt;
  const absl::StatusOr<std::vector<int64_t>> numbers = KnownInts(i);
  if (!numbers.ok()) return std::nullopt;
  ExtentList list{.scalar = tensor->shape().rank() == 0, .dtype = tensor->dtype()};
  for (const int64_t number : *numbers) list.list.emplace_back(number);
  return list;
}

void Importer::Out(Output value, Order order, int k) {
  if (!value.valid() || k >= node_->output_size() || node_->output(k).empty()) return;
  Value& held = values_[node_->output(k)];
  (order == Order::kOnnx ? held.onnx : held.channels_last) = value;
  const bool constant = value.node->op().kind == OpKind::kConst && order == Order::kOnnx;
  if (constant) held.constant = value.node->attrs().Get<Tensor>("value");
}

void Importer::OutExtents(ExtentList extents) {
  const bool known = std::all_of(extents.list.begin(), extents.list.end(), [](const MaybeExtent& extent) {
    return extent && (!extent->taken() || extent->size() != Shape::kUnknown);
  });
  if (node_->output_size() == 0 || node_->output(0).empty()) return;
  if (extents.list.size() > kMaxExtents) return Fail(absl::UnimplementedError("a shape has more than 256 extents"));
  Value& held = values_[node_->output(0)];
  if (!known) {
    held.extents = std::move(extents);
    return;
  }
  std::vector<int64_t> numbers;
  for (const MaybeExtent& extent : extents.list) numbers.push_back(extent->size());
  const Shape shape = extents.scalar ? Shape() : Shape({static_cast<int64_t>(numbers.size())});
  held.constant = Tensor::Of<int64_t>(absl::MakeConstSpan(numbers), shape);
  if (extents.dtype == DType::kInt64) return;
  const std::vector<int32_t> narrow(numbers.begin(), numbers.end());
  held.constant = Tensor::Of<int32_t>(absl::MakeConstSpan(narrow), shape);
}

void Importer::Copied(size_t bytes) {
  copied_bytes_ += bytes;
  if (copied_bytes_ > kMaxCopiedBytes) Fail(absl::UnimplementedError("copies of weights take more than 1 GiB"));
}

void Importer::SameAs(int i) {
  Value* const value = Find(i);
  if (value == nullptr || node_->output_size() == 0) return;
  const std::string& name = node_->output(0);
  const bool weight = value->parameter || value->variable.valid();
  if (!weight && value->initializer != nullptr) ReadInitializer(*value);
  const Value copy = weight ? ValueOf(*value->source, name) : *value;
  if (weight) Copied(BytesOf(*value->source));
  values_[name] = copy;
}

// Replaces what is computed of constants alone by its value.
void Importer::Fold() {
  for (const std::string& input : node_->input()) {
    if (!input.empty() && !values_.find(input)->second.constant) return;
  }
  for (const std::string& output : node_->output()) {
    const auto found = values_.find(output);
    if (output.empty() || found == values_.end() || found->second.constant || found->second.extents) continue;
    const Output value = Get(found->second, Order::kOnnx);
    if (!value.valid() || folded_bytes_ > kMaxFoldedBytes) continue;
    const absl::StatusOr<Tensor> tensor = Evaluate(value);
    if (!tensor.ok()) continue;
    folded_bytes_ += tensor->bytes();
    found->second = Value();
    found->second.constant = *tensor;
  }
  evaluated_.clear();
}

absl::StatusOr<Tensor> Importer::Evaluate(const Output& output) {
  if (const auto found = evaluated_.find(output); found != evaluated_.end()) return found->second;
  const Node& node = *output.node;
  if (node.op().kind == OpKind::kConst) return node.attrs().Get<Tensor>("value");
  if (node.op().stateful || node.op().kind == OpKind::kPlaceholder || node.op().kind == OpKind::kVariable) {
    return absl::FailedPreconditionError("no constant");
  }
  if (!IsCheap(node)) return absl::FailedPreconditionError("too large");
  std::vector<Tensor> inputs;
  for (const Output& input : node.inputs()) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), Evaluate(input));
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, RunOp(node.op(), node.attrs(), inputs));
  for (size_t k = 0; k < outputs.size(); ++k) evaluated_[node.output(static_cast<int>(k))] = outputs[k];
  return outputs[static_cast<size_t>(output.index)];
}

}  // namespace belfry::onnx
