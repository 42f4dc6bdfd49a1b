#include "absl/strings/str_cat.h"
#include "ops/array.h"

namespace belfry::ops {
namespace {

// Whether x can be cut into blocks; fails the graph if not.
bool CheckBlocks(const Scope& scope, absl::string_view op, Output x, int64_t block) {
  if (!x.valid()) return scope.Add(op, {x}).valid();  // an error
  if (x.shape().rank() == 4 && block >= 1) return true;
  scope.Fail(absl::InvalidArgumentError(absl::StrCat(op, " takes images [N, H, W, C] and a block of at least 1, not ",
                                                     x.shape().ToString(), " and ", block)));
  return false;
}

}  // namespace

Output DepthToSpace(OpScope scope, Output x, int64_t block) {
  if (!CheckBlocks(scope, "DepthToSpace", x, block)) return Output();
  const Extent n = Extent::Of(x, 0), h = Extent::Of(x, 1), w = Extent::Of(x, 2);
  const Extent c = Extent::Of(x, 3) / block / block;
  const Output blocks = Reshape(scope, x, {n, h, w, block, block, c});
  return Reshape(scope, Transpose(scope, blocks, {0, 1, 3, 2, 4, 5}), {n, h * block, w * block, c});
}

Output SpaceToDepth(OpScope scope, Output x, int64_t block) {
  if (!CheckBlocks(scope, "SpaceToDepth", x, block)) return Output();
  const Extent n = Extent::Of(x, 0), h = Extent::Of(x, 1) / block, w = Extent::Of(x, 2) / block;
  const Extent c = Extent::Of(x, 3);
  const Output blocks = Reshape(scope, x, {n, h, block, w, block, c});
  return Reshape(scope, Transpose(scope, blocks, {0, 1, 3, 2, 4, 5}), {n, h, w, c * block * block});
}

}  // namespace belfry::ops
