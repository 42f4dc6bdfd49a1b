// The gradients of layer norm, RMS norm and group norm. For .cu files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/gpu/packed_rows_gpu_impl.h"
#include "ops/normalisation/row_norm_gpu_impl.h"

namespace belfry::ops {

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse, where mean(g) is 0 unless centred,
// and over the rows dscale = sum dy z and doffset = sum dy. A first launch computes the constants of each row, a second
// one all results on one pass down the columns, so dx may be x, dy or what is added to it.
template <class C>
struct NormFacts {
  NormMoments<C> moments;
  C g_mean, gz_mean;
};

template <class T, bool centred>
struct NormFactsOutput {
  using C = gpu::Compute<T>;
  using S = gpu::Stored<T>;
  double epsilon;
  const S *x, *scale, *dy;
  NormFacts<C>* facts;

  // Adds an element's g and g z to their sums.
  BELFRY_GPU static void Add(const NormMoments<C>& moments, S x, S scale, S dy, Sums<C, 2>& sum) {
    const C g = gpu::Widen(dy) * gpu::Widen(scale);
    sum.of[0] += g;
    sum.of[1] += g * moments(gpu::Widen(x));
  }
  template <class Team>
  BELFRY_GPU void Store(int64_t row, int64_t n, const NormMoments<C>& moments, Sums<C, 2> sum, const Team& team) const {
    sum = team.Sum(sum);
    if (team.rank != 0) return;
    facts[row] = {moments, centred ? sum.of[0] / static_cast<C>(n) : C(0), sum.of[1] / static_cast<C>(n)};
  }
};

template <class T, bool centred, int lanes, class Layout>
struct FindNormFacts : NormFactsOutput<T, centred> {
  using C = gpu::Compute<T>;
  Layout at;  // of packs

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const SpreadRow<T, lanes, Layout, Team> elements{this->x, at, row, team};
    const auto moments = NormMomentsOf<C, centred>(elements, at.n * lanes, this->epsilon, team);
    Sums<C, 2> sum;
    for (int64_t i = team.rank; i < at.n; i += team.size) {
      const int64_t from = at.At(row, i) * lanes;
      const PackOf<T, lanes> in = PackAt<T, lanes>(this->x + from), slopes = PackAt<T, lanes>(this->dy + from),
                             scales = PackAt<T, lanes>(this->scale + at.Column(row, i) * lanes);
      BELFRY_UNROLL
      for (int j = 0; j < lanes; ++j) this->Add(moments, in.at[j], scales.at[j], slopes.at[j], sum);
    }
    this->Store(row, at.n * lanes, moments, sum, team);
  }
};

template <class T, bool centred, int packs>
struct FindKeptNormFacts : NormFactsOutput<T, centred> {
  using C = gpu::Compute<T>;
  using Row = KeptRow<T, packs>;
  int n;

  template <class Team>
  BELFRY_GPU void operator()(int64_t row, const Team& team) const {
    const Row kept(this->x + row * n, n, team), slopes(this->dy + row * n, n, team);
    const auto moments = NormMomentsOf<C, centred>(kept, n, this->epsilon, team);
    Sums<C, 2> sum;
    kept.ForEachPackWith(slopes, [this, &moments, &sum](const WidePack<T>& in, const WidePack<T>& slope, int i) {
      const WidePack<T> scales = PackAt<T, Row::kLanes>(this->scale + i);
      BELFRY_UNROLL
      for (int j = 0; j < Row::kLanes; ++j) this->Add(moments, in.at[j], scales.at[j], slope.at[j], sum);
    });
    this->Store(row, n, moments, sum, team);
  }
};

template <class T, class Layout, bool adds, int lanes>
struct NormGradient {
  using C = gpu::Compute<T>;
  using Pack = PackOf<T, lanes>;
  using Sum = PerLane<Sums<C, 2>, lanes>;
  using Partial = Sums<C, 2>;
  static constexpr int kLanes = lanes;
  struct In {
    Pack x, dy, addend;
    int64_t row;
  };
  struct Column {
    Pack scale;
    int64_t first;
  };
  Layout at;
  const gpu::Stored<T>*x, *scale, *dy;
  const NormFacts<C>* facts;
  gpu::Stored<T>* dx;
  const gpu::Stored<T>* addend;  // if `adds`

  BELFRY_GPU Column Begin(int64_t c, int64_t) const { return {PackAt<T, lanes>(scale + c * lanes), c * lanes}; }
  BELFRY_GPU In Read(int64_t from, int64_t row) const {
    return {PackAt<T, lanes>(x + from * lanes), PackAt<T, lanes>(dy + from * lanes),
            PackAt<T, lanes>((adds ? addend : dy) + from * lanes), row};
  }
  BELFRY_GPU void Take(const Column& column, In in, int64_t to, Sum& sum) const {
    NormFacts<C> row = facts[at.Row(in.row, column.first)];
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      if (j > 0 && !at.Holds(lanes)) row = facts[at.Row(in.row, column.first + j)];
      const C z = row.moments(gpu::Widen(in.x.at[j])), slope = gpu::Widen(in.dy.at[j]);
      sum.of[j].of[0] += slope * z;
      sum.of[j].of[1] += slope;
      C sloped = (slope * gpu::Widen(column.scale.at[j]) - row.g_mean - z * row.gz_mean) *
                 (row.moments.inverse * row.moments.by);
      if (adds) sloped += gpu::Widen(in.addend.at[j]);
      in.x.at[j] = gpu::Narrow<T>(sloped);
    }
    StorePack<T, lanes>(dx + to * lanes, in.x);
  }
  BELFRY_GPU Partial Finish(const Column&, const Sum& sum, int lane, int64_t) const { return sum.of[lane]; }
};

template <class T>
struct StoreNormGradients {
  gpu::Stored<T>*dscale, *doffset;  // doffset: null if there is none

  BELFRY_GPU void operator()(int64_t c, const Sums<gpu::Compute<T>, 2>& sum) const {
    dscale[c] = gpu::Narrow<T>(sum.of[0]);
    if (doffset != nullptr) doffset[c] = gpu::Narrow<T>(sum.of[1]);
  }
};

template <class T, bool centred, class Layout>
absl::Status RunNormFacts(Stream& stream, const Layout& layout, int packs, const NormFactsOutput<T, centred>& output) {
  const bool aligned = AreAligned({output.x, output.scale, output.dy});
  return WithPacks<T>(
      aligned ? packs : 0,
      [&](auto kept) {
        constexpr int kPacks = decltype(kept)::value;
        return ForEachRowInTeams(stream, layout.rows, layout.n,
                                 FindKeptNormFacts<T, centred, kPacks>{output, static_cast<int>(layout.n)});
      },
      [&] {
        return WithLanes<T>(aligned && layout.Divides(kWideLanes<T>), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          return ForEachRowOf(stream, layout.rows, layout.n,
                              FindNormFacts<T, centred, kLanes, Layout>{output, layout.InPacks(kLanes)});
        });
      });
}

// Inputs x, scale, dy and, if `adds`, what is added to dx; outputs dx, dscale and, if centred, doffset. `find` enqueues
// what sets the facts of an output: find(stream, output, workspace, tickets), for which there are `bytes` bytes of
// workspace and as many tickets as it says.
template <class T, bool centred, bool adds, class Layout, class Find>
absl::StatusOr<Kernel> NormGradKernel(const KernelSpec& spec, const Layout& layout, size_t bytes,
                                      int64_t tickets_of_find, const Find& find) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  using Sum = Sums<C, 2>;
  auto parts = PartsOf<T>(layout.matrix_rows, layout.columns);
  parts.groups = std::max(parts.groups, tickets_of_find);
  const size_t facts_at = std::max(static_cast<size_t>(parts.partials()) * sizeof(Sum), bytes);
  ASSIGN_OR_RETURN(
      Kernel kernel,
      ColumnSumsKernel<Sum>(
          spec, parts,
          [layout, parts, find, facts_at, epsilon = spec.attrs.Float("epsilon")](const KernelContext& at, Sum* partials,
                                                                                 uint32_t* tickets) {
            const S *x = at.input<S>(0), *scale = at.input<S>(1), *dy = at.input<S>(2);
            auto* facts = reinterpret_cast<NormFacts<C>*>(static_cast<unsigned char*>(at.workspace) + facts_at);
            S* doffset = nullptr;
            if constexpr (centred) doffset = at.output<S>(2);
            RETURN_IF_ERROR(
                find(*at.stream, NormFactsOutput<T, centred>{epsilon, x, scale, dy, facts}, at.workspace, tickets));
            const S* const addend = adds ? at.input<S>(3) : nullptr;
            return WithLanes<T>(parts.whole && AreAligned({x, scale, dy, addend, at.output<S>(0)}), [&](auto lanes) {
              constexpr int kLanes = decltype(lanes)::value;
              return GpuColumnSums(
                  *at.stream, parts.template Of<kLanes>(), partials, tickets,
                  NormGradient<T, Layout, adds, kLanes>{layout, x, scale, dy, facts, at.output<S>(0), addend},
                  StoreNormGradients<T>{at.output<S>(1), doffset});
            });
          }));
  kernel.workspace_bytes = facts_at + static_cast<size_t>(layout.rows) * sizeof(NormFacts<C>);
  return kernel;
}

template <class T, bool centred, bool adds, class Layout>
absl::StatusOr<Kernel> NormGradKernel(const KernelSpec& spec, const Layout& layout) {
  return NormGradKernel<T, centred, adds>(
      spec, layout, 0, 0,
      [layout, packs = PacksToKeep<T>(layout)](Stream& stream, const NormFactsOutput<T, centred>& output, void*,
                                               uint32_t*) { return RunNormFacts(stream, layout, packs, output); });
}

}  // namespace belfry::ops
