#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::onnx {
namespace {

// The averages and weights of a batch norm are of 32 or 64 bits.
Output Wide(const Scope& scope, Output value, DType dtype) {
  if (!value.valid()) return value;
  return ops::Cast(scope, value, dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
}

absl::Status BatchNormalization(Importer& to) {
  if (to.Int("training_mode", 0) != 0 || to.IsUsed(1)) {
    return absl::UnimplementedError("it is in training mode; export the model in evaluation mode");
  }
  const int rank = to.ShapeOf(0).rank();
  Output x;
  if (rank == 2) {
    x = to.In(0);
  } else {
    ASSIGN_OR_RETURN(x, to.Images(0));
  }
  if (!x.valid()) return absl::OkStatus();
  const Scope& scope = to.scope();
  const Output scale = Wide(scope, to.In(1), x.dtype()), offset = Wide(scope, to.In(2), x.dtype());
  const Output mean = Wide(scope, to.Statistic(3), x.dtype()), variance = Wide(scope, to.Statistic(4), x.dtype());
  const Output y = ops::BatchNormInference(scope, x, scale, offset, mean, variance, to.Float("epsilon", 1e-5));
  if (rank == 2) {
    to.Out(y);
  } else {
    to.OutImages(y, rank);
  }
  return absl::OkStatus();
}

// Each channel is a group.
absl::Status InstanceNormalization(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  ASSIGN_OR_RETURN(const Output x, to.Images(0));
  if (!x.valid()) return absl::OkStatus();
  const int64_t channels = x.shape()[3];
  if (channels == Shape::kUnknown) return absl::UnimplementedError("its number of channels is open");
  const Output y = ops::GroupNorm(to.scope(), x, to.In(1), to.In(2), channels, to.Float("epsilon", 1e-5));
  to.OutImages(y, rank);
  return absl::OkStatus();
}

absl::Status GroupNormalization(Importer& to) {
  const int rank = to.ShapeOf(0).rank();
  const Scope& scope = to.scope();
  ASSIGN_OR_RETURN(const Output x, to.Images(0));
  if (!x.valid()) return absl::OkStatus();
  const int64_t channels = x.shape()[3], groups = to.Int("num_groups", 0);
  if (channels == Shape::kUnknown || groups < 1 || channels % groups != 0) {
    return absl::InvalidArgumentError("its groups do not divide the channels, or these are open");
  }
  // Before opset 21 scale and offset were those of groups.
  const auto of_channels = [&](int i) {
    const Output value = to.In(i);
    if (to.opset() >= 21 || !value.valid()) return value;
    const Output repeated =
        ops::BroadcastTo(scope, ops::Reshape(scope, value, Shape({groups, 1})), Shape({groups, channels / groups}));
    return ops::Reshape(scope, repeated, Shape({channels}));
  };
  to.OutImages(ops::GroupNorm(scope, x, of_channels(1), of_channels(2), groups, to.Float("epsilon", 1e-5)), rank);
  return absl::OkStatus();
}

absl::Status LayerNormalization(Importer& to) {
  if (to.IsUsed(1) || to.IsUsed(2)) return absl::UnimplementedError("its mean or deviation is read");
  const Output x = to.In(0), scale = to.In(1);
  if (!x.valid() || !scale.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(Order::kOnnx, to.Int("axis", -1), x.shape().rank()));
  if (scale.shape().rank() != x.shape().rank() - axis) {
    return absl::UnimplementedError("its scale does not have all axes that are normalised");
  }
  const Output offset = to.Has(2) ? to.In(2) : ops::ZerosLike(to.scope(), scale);
  to.Out(ops::LayerNorm(to.scope(), x, scale, offset, to.Float("epsilon", 1e-5)));
  return absl::OkStatus();
}

absl::Status Lrn(Importer& to) {
  const int64_t size = to.Int("size", 0);
  if (size < 1 || size % 2 == 0 || size > 1 << 20) return absl::UnimplementedError("its size is no odd number");
  const ops::LrnOptions options = {.depth_radius = size / 2,
                                   .bias = to.Float("bias", 1),
                                   .alpha = to.Float("alpha", 1e-4) / static_cast<double>(size),
                                   .beta = to.Float("beta", 0.75)};
  to.Out(ops::LocalResponseNormalization(to.scope(), to.In(0, Order::kChannelsLast), options), Order::kChannelsLast);
  return absl::OkStatus();
}

absl::Status LpNormalization(Importer& to) {
  if (to.Int("p", 2) != 2) return absl::UnimplementedError("p is not 2");
  to.Out(ops::L2Normalize(to.scope(), to.In(0), {to.Int("axis", -1)}));
  return absl::OkStatus();
}

constexpr ImportRule kNorms[] = {
    {"BatchNormalization", BatchNormalization},
    {"InstanceNormalization", InstanceNormalization},
    {"GroupNormalization", GroupNormalization},
    {"LayerNormalization", LayerNormalization},
    {"LRN", Lrn},
    {"LpNormalization", LpNormalization},
};

}  // namespace

absl::Span<const ImportRule> NormImports() { return kNorms; }

}  // namespace belfry::onnx
