#include <algorithm>

#include "ops/gpu/divider_impl.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_gpu_impl.h"

namespace belfry::ops {
namespace {

// x [N, .., C] as [N, places, groups, size]: a row is an example's group.
struct GroupLayout {
  int64_t rows, n, matrix_rows, columns, places, groups, size;
  Divider by_size, by_groups, by_places;

  explicit GroupLayout(const KernelSpec& spec) {
    const Shape& x = spec.inputs[0].shape;
    columns = x[-1];
    groups = spec.attrs.Int("groups");
    size = columns / groups;
    places = x.elements(1, x.rank() - 1);
    n = places * size;
    rows = n == 0 ? 0 : x[0] * groups;
    matrix_rows = n == 0 ? 0 : x[0] * places;
    by_size = Divider(std::max<int64_t>(size, 1), std::max<int64_t>(std::max(n, columns), 1));
    by_groups = Divider(groups, std::max<int64_t>(rows, 1));
    by_places = Divider(std::max<int64_t>(places, 1), std::max<int64_t>(matrix_rows, 1));
  }
  BELFRY_GPU int64_t At(int64_t row, int64_t i) const {
    const int64_t place = by_size.Quotient(i), example = by_groups.Quotient(row);
    return (example * places + place) * columns + Column(row, i);
  }
  BELFRY_GPU int64_t Column(int64_t row, int64_t i) const {
    const int64_t group = row - by_groups.Quotient(row) * groups;
    return group * size + (i - by_size.Quotient(i) * size);
  }
  BELFRY_GPU int64_t Row(int64_t matrix_row, int64_t column) const {
    return by_places.Quotient(matrix_row) * groups + by_size.Quotient(column);
  }
};

}  // namespace

void AddRowNormGpuKernels(KernelTable& table) {
  AddNormGpuKernels</*centred=*/true, RowLayout>(table, "LayerNorm");
  AddNormGpuKernels</*centred=*/false, RowLayout>(table, "RmsNorm");
  AddNormGpuKernels</*centred=*/true, GroupLayout>(table, "GroupNorm");
}

}  // namespace belfry::ops
