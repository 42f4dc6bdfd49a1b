#include "tests/ops/harness/instance.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/main/seed.h"

namespace belfry::harness {
namespace {

template <class T>
Tensor Rounded(const Array& values) {
  Tensor tensor(kDTypeOf<T>, values.shape);
  for (int64_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      tensor.data<T>()[i] = T(static_cast<float>(values[i]));
    } else {
      tensor.data<T>()[i] = static_cast<T>(values[i]);
    }
  }
  return tensor;
}

// Values on a shuffled grid, each moved so little that they remain distinct and away from 0.
void DrawApart(const Input& input, PhiloxStream& random, Array& values) {
  const int64_t n = values.size();
  const double spacing = (input.high - input.low) / static_cast<double>(n + 2);
  const double gap = std::min(input.gap, spacing / 2);
  std::vector<double> grid;
  for (int64_t i = 0; static_cast<int64_t>(grid.size()) < n; ++i) {
    const double x = input.low + (static_cast<double>(i) + 0.5) * spacing;
    if (std::abs(x) >= spacing / 2) grid.push_back(x + (random.NextFloat() - 0.5) * (spacing - gap) / 2);
  }
  for (int64_t i = n; i-- > 1;) std::swap(grid[i], grid[random.NextBelow(static_cast<uint32_t>(i + 1))]);
  values.values = grid;
}

Array Draw(const Input& input, const Shape& shape, DType dtype, PhiloxStream& random) {
  Array values(shape);
  if (!input.values.empty() && static_cast<int64_t>(input.values.size()) == values.size()) {
    values.values = input.values;
  } else if (input.gap > 0 && values.size() > 0) {
    DrawApart(input, random, values);
  } else {
    for (double& x : values.values) {
      x = input.low + (input.high - input.low) * random.NextFloat();
      if (!IsFloating(dtype)) x = std::floor(x);
    }
  }
  return values;
}

}  // namespace

std::vector<Output> Instance::Differentiable(const OpCase& op_case) const {
  std::vector<Output> xs;
  for (size_t i = 0; i < ins.size(); ++i) {
    const Input& input = op_case.inputs[i];
    if (input.differentiable && !input.variable && IsFloating(ins[i].dtype())) xs.push_back(ins[i]);
  }
  return xs;
}

std::vector<std::vector<Shape>> ShapeSets(const OpCase& op_case) {
  std::vector<std::vector<Shape>> sets(1);
  for (const Input& input : op_case.inputs) sets[0].push_back(input.shape);
  sets.insert(sets.end(), op_case.more_shapes.begin(), op_case.more_shapes.end());
  return sets;
}

absl::StatusOr<Instance> MakeInstance(const OpCase& op_case, DType dtype, const std::vector<Shape>& shapes,
                                      int unknown_axis) {
  BELFRY_CHECK(shapes.size() == op_case.inputs.size());
  Instance instance;
  instance.graph = std::make_unique<Graph>(BuiltinOps());
  const Scope scope(*instance.graph);
  PhiloxStream random(RandomKey(TestSeed(), op_case.name), 0);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Input& input = op_case.inputs[i];
    const DType type = input.dtype.value_or(dtype);
    const Tensor value = MakeTensor(type, Draw(input, shapes[i], type, random));
    if (input.variable) {
      const Variable variable = GetVariable(scope, absl::StrCat("variable_", i), shapes[i], ZerosInitializer(), {type});
      instance.ins.push_back(variable);
    } else {
      Shape declared = shapes[i];
      if (unknown_axis >= 0 && unknown_axis < declared.rank()) declared.set_dim(unknown_axis, Shape::kUnknown);
      instance.ins.push_back(ops::Placeholder(scope, type, declared));
    }
    RETURN_IF_ERROR(scope.status());
    instance.feeds.emplace_back(instance.ins.back(), value);
    instance.arrays.push_back(ToArray(value));
  }
  instance.outs = op_case.build(scope, instance.ins);
  RETURN_IF_ERROR(scope.status());
  for (const Output& out : instance.outs) {
    if (!out.valid()) return absl::InternalError("build() returned an invalid Output without an error");
  }
  return instance;
}

Tensor MakeTensor(DType dtype, const Array& values) {
  switch (dtype) {
    case DType::kFloat32: return Rounded<float>(values);
    case DType::kFloat64: return Rounded<double>(values);
    case DType::kFloat16: return Rounded<Half>(values);
    case DType::kBFloat16: return Rounded<BFloat16>(values);
    case DType::kInt32: return Rounded<int32_t>(values);
    case DType::kInt64: return Rounded<int64_t>(values);
    case DType::kUInt8: return Rounded<uint8_t>(values);
    case DType::kBool: return Rounded<bool>(values);
  }
  return Tensor();
}

Array ToArray(const Tensor& tensor) {
  Array array(tensor.shape());
  array.values = tensor.ToDoubles();
  return array;
}

double Rounding(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return 1e-6;
    case DType::kFloat64: return 1e-13;
    case DType::kFloat16: return 2e-3;
    case DType::kBFloat16: return 1.6e-2;
    default: return 0;
  }
}

}  // namespace belfry::harness
