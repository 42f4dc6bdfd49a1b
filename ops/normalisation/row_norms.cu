#include <algorithm>
#include <string>

#include "ops/gpu/divider_impl.h"
#include "ops/normalisation/normalisation_ops.h"
#include "ops/normalisation/row_norm_gpu_impl.h"
#include "ops/normalisation/row_norm_grad_gpu_impl.h"

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
    SetSize(size);
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
  BELFRY_GPU bool Holds(int lanes) const { return size % lanes == 0; }
  GroupLayout InPacks(int lanes) const {
    GroupLayout packs = *this;
    packs.n /= lanes;
    packs.columns /= lanes;
    packs.SetSize(size / lanes);
    return packs;
  }
  bool Divides(int lanes) const { return size % lanes == 0; }

 private:
  void SetSize(int64_t channels) {
    size = channels;
    by_size = Divider(std::max<int64_t>(size, 1), std::max<int64_t>(std::max(n, columns), 1));
  }
};

// Adds the kernels of a norm, for all float dtypes, and of its gradient, "<name>Grad".
template <bool centred, class Layout>
void AddNormGpuKernels(KernelTable& table, const std::string& name) {
  table.AddKernels(name, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormKernel<T, centred>(spec, Layout(spec));
                     };
                   }));
  table.AddKernels(name + "Grad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     using T = typename decltype(tag)::type;
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormGradKernel<T, centred, /*adds=*/false>(spec, Layout(spec));
                     };
                   }));
}

// Adds the kernels of "Add<name>" and "<name>AddGrad", which add something before and after.
template <bool centred>
void AddResidualNormGpuKernels(KernelTable& table, const std::string& name) {
  table.AddKernels("Add" + name, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return AddNormKernel<typename decltype(tag)::type, centred>(spec);
                     };
                   }));
  table.AddKernels(name + "AddGrad", Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) -> KernelFactory {
                     return [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                       return NormGradKernel<typename decltype(tag)::type, centred, /*adds=*/true>(spec,
                                                                                                   RowLayout(spec));
                     };
                   }));
}

}  // namespace

void AddRowNormGpuKernels(KernelTable& table) {
  AddNormGpuKernels</*centred=*/true, RowLayout>(table, "LayerNorm");
  AddNormGpuKernels</*centred=*/false, RowLayout>(table, "RmsNorm");
  AddResidualNormGpuKernels</*centred=*/true>(table, "LayerNorm");
  AddResidualNormGpuKernels</*centred=*/false>(table, "RmsNorm");
  AddNormGpuKernels</*centred=*/true, GroupLayout>(table, "GroupNorm");
}

}  // namespace belfry::ops
