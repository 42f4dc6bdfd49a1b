// Group norm. Statistics of long groups are found down the columns of each example, so that neighbouring threads read
// neighbouring addresses however few channels a group has; short groups are rows of row_norm_gpu_impl.h. For .cu files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "ops/common/square_range_impl.h"
#include "ops/gpu/columns_gpu_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/tickets.h"
#include "ops/normalisation/row_norm_gpu_impl.h"
#include "ops/normalisation/row_norm_grad_gpu_impl.h"

namespace belfry::ops {

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

  int64_t examples() const { return rows / groups; }
  // False if a warp reads each group.
  bool ByColumns() const { return rows > 0 && n > gpu::kLongestRowOfWarp; }

 private:
  void SetSize(int64_t channels) {
    size = channels;
    by_size = Divider(std::max<int64_t>(size, 1), std::max<int64_t>(std::max(n, columns), 1));
  }
};

// Moments, and the sums of some g that belong to the values, and of g times the value's difference from the mean.
template <class C>
struct SlopedMoments : Moments<C> {
  C g = 0, gx = 0;

  friend BELFRY_GPU SlopedMoments operator+(const SlopedMoments& a, const SlopedMoments& b) {
    const Moments<C>&first = a, &second = b;
    SlopedMoments both{first + second};
    both.g = a.g + b.g;
    both.gx = a.gx + b.gx + (a.mean - both.mean) * a.g + (b.mean - both.mean) * b.g;
    return both;
  }
};

// Sums of the elements of an example in columns of `lanes` channels of one group, for WalkPart; if `sloped`, with
// g = dy scale. A slot's elements are shifted by its first one.
template <class T, bool sloped, int lanes>
struct GroupColumns {
  using C = gpu::Compute<T>;
  using S = gpu::Stored<T>;
  using Pack = PackOf<T, lanes>;
  using Partial = std::conditional_t<sloped, SlopedMoments<C>, Moments<C>>;
  using Sum = Sums<C, sloped ? 4 : 2>;
  static constexpr int kLanes = 1;  // of a Partial
  struct In {
    Pack x, dy;
  };
  struct Column {
    Pack scale;
    C first;
  };
  const S *x, *scale, *dy;  // of the example; scale and dy if `sloped`

  BELFRY_GPU Column Begin(int64_t c, int64_t at) const {
    Column column{{}, FiniteOrZero(x[at * lanes])};
    if constexpr (sloped) column.scale = PackAt<T, lanes>(scale + c * lanes);
    return column;
  }
  BELFRY_GPU In Read(int64_t at, int64_t) const {
    In in{PackAt<T, lanes>(x + at * lanes), {}};
    if constexpr (sloped) in.dy = PackAt<T, lanes>(dy + at * lanes);
    return in;
  }
  BELFRY_GPU void Take(const Column& column, const In& in, int64_t, Sum& sum) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const C difference = gpu::Widen(in.x.at[j]) - column.first;
      sum.of[0] += difference;
      sum.of[1] += difference * difference;
      if constexpr (sloped) {
        const C g = gpu::Widen(in.dy.at[j]) * gpu::Widen(column.scale.at[j]);
        sum.of[2] += g;
        sum.of[3] += g * difference;
      }
    }
  }
  BELFRY_GPU Partial Finish(const Column& column, const Sum& sum, int, int64_t count) const {
    const int64_t n = count * lanes;
    const C mean = sum.of[0] / static_cast<C>(n);
    const Moments<C> moments{column.first + mean, sum.of[1] - sum.of[0] * mean, n};
    if constexpr (sloped) {
      return {moments, sum.of[2], sum.of[3] - mean * sum.of[2]};
    } else {
      return moments;
    }
  }
};

// Finds the NormFacts of all groups in one launch; without `sloped` their moments only. A block sums a part of an
// example, and the last one of an example what all have left, in place: first the parts of each column, then the
// columns of each group.
template <class T, bool sloped, int lanes>
struct GroupFacts {
  using C = gpu::Compute<T>;
  using Columns = GroupColumns<T, sloped, lanes>;
  using Partial = typename Columns::Partial;
  GroupLayout at;
  ColumnParts parts;  // of an example
  NormFactsOutput<T, true> output;
  Partial* partials;

  BELFRY_GPU Columns Of(int64_t example) const {
    const int64_t first = example * at.places * at.columns;
    return {output.x + first, output.scale, sloped ? output.dy + first : nullptr};
  }
  // The partial of a part of a column, where those of the next parts follow, parts.width apart.
  BELFRY_GPU Partial& Slot(int64_t example, int64_t column) const {
    const int64_t group = column / parts.width;
    return partials[example * parts.partials() + group * parts.parts * parts.width + (column - group * parts.width)];
  }
  BELFRY_GPU void SumPartOf(int64_t example, int64_t index, const gpu::Team& team, void* shared) const {
    const int64_t group = index / parts.parts, part = index - group * parts.parts;
    SumPart(parts, group, part, team, Of(example), static_cast<Partial*>(shared),
            &Slot(example, group * parts.width) + part * parts.width);
  }
  BELFRY_GPU void Last(int64_t example, const gpu::Team& team) const {
    for (int64_t c = team.rank; c < parts.columns; c += team.size) {
      Partial& sum = Slot(example, c);
      for (int64_t part = 1; part < parts.parts; ++part) sum = sum + (&sum)[part * parts.width];
    }
    const int64_t of_group = at.size / lanes;
    int64_t half = 1;
    while (half < of_group) half *= 2;
    while ((half /= 2) > 0) {
      team.Wait();
      for (int64_t c = team.rank; c < parts.columns; c += team.size) {
        const int64_t k = c - at.by_size.Quotient(c * lanes) * of_group;
        if (k < half && k + half < of_group) Slot(example, c) = Slot(example, c) + Slot(example, c + half);
      }
    }
    team.Wait();
    const int64_t first = example * at.groups;
    for (int64_t group = team.rank; group < at.groups; group += team.size) {
      Store(first + group, Slot(example, group * of_group));
    }
    team.Wait();
    for (int64_t row = first; row < first + at.groups; ++row) {
      if (output.facts[row].moments.by == 0) Rescan(row, team);
    }
  }
  // Sets moments.by = 0 if squares are out of range, or something is infinite or NaN.
  BELFRY_GPU void Store(int64_t row, const Partial& whole) const {
    const C n = static_cast<C>(whole.count);
    const C divisor = whole.squares / n + static_cast<C>(output.epsilon), inverse = 1 / std::sqrt(divisor);
    bool in_range = SquaresInRange(divisor);
    NormFacts<C> facts{{1, whole.mean, inverse}, 0, 0};
    if constexpr (sloped) {
      facts.g_mean = whole.g / n;
      facts.gz_mean = whole.gx * inverse / n;
      in_range = in_range && facts.g_mean - facts.g_mean == 0 && facts.gz_mean - facts.gz_mean == 0;
    }
    if (!in_range) facts.moments.by = 0;
    output.facts[row] = facts;
  }
  BELFRY_GPU void Rescan(int64_t row, const gpu::Team& team) const {
    if constexpr (sloped) {
      FindNormFacts<T, true, 1, GroupLayout>{output, at}(row, team);
    } else {
      const SpreadRow<T, 1, GroupLayout, gpu::Team> elements{output.x, at, row, team};
      const auto moments = NormMomentsOf<C, true>(elements, at.n, output.epsilon, team);
      if (team.rank == 0) output.facts[row].moments = moments;
    }
  }
};

// y = (by x - mean) inverse scale + offset, for WalkColumn over the rows of an example.
template <class T, int lanes>
struct NormalizeColumns {
  using C = gpu::Compute<T>;
  using S = gpu::Stored<T>;
  using In = PackOf<T, lanes>;
  struct Column {
    C by[lanes], mean[lanes], factor[lanes], offset[lanes];
  };
  Divider by_size;
  const NormFacts<C>* facts;  // of the example's groups, as are x and y of the example
  const S *x, *scale, *offset;
  S* y;

  BELFRY_GPU Column Begin(int64_t c, int64_t) const {
    const In scales = PackAt<T, lanes>(scale + c * lanes), offsets = PackAt<T, lanes>(offset + c * lanes);
    Column column;
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const NormMoments<C> moments = facts[by_size.Quotient(c * lanes + j)].moments;
      column.by[j] = moments.by;
      column.mean[j] = moments.mean;
      column.factor[j] = moments.inverse * gpu::Widen(scales.at[j]);
      column.offset[j] = gpu::Widen(offsets.at[j]);
    }
    return column;
  }
  BELFRY_GPU In Read(int64_t at, int64_t) const { return PackAt<T, lanes>(x + at * lanes); }
  BELFRY_GPU void Take(const Column& column, In in, int64_t at, NoSum&) const {
    BELFRY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      const C centred = gpu::Widen(in.at[j]) * column.by[j] - column.mean[j];
      in.at[j] = gpu::Narrow<T>(centred * column.factor[j] + column.offset[j]);
    }
    StorePack<T, lanes>(y + at * lanes, in);
  }
};

template <class T, bool sloped, int lanes>
absl::Status FindGroupFacts(Stream& stream, const GroupFacts<T, sloped, lanes>& facts, uint32_t* tickets) {
  const ColumnParts& p = facts.parts;
  return gpu::ForEachBlockThenLast(
      stream, facts.at.examples(), p.groups * p.parts, sizeof(*facts.partials) * ColumnParts::kSlots, tickets,
      [=] BELFRY_GPU(int64_t example, int64_t index, const gpu::Team& team, void* shared) {
        facts.SumPartOf(example, index, team, shared);
      },
      [=] BELFRY_GPU(int64_t example, const gpu::Team& team, void*) { facts.Last(example, team); });
}

// `f` is of the first example.
template <class T, int lanes>
absl::Status NormalizeByColumns(Stream& stream, const GroupLayout& layout, const ColumnSlices& s,
                                const NormalizeColumns<T, lanes>& f) {
  const int64_t elements = layout.places * layout.columns, groups = layout.groups;
  const Divider by_threads(s.threads, layout.examples() * s.threads);
  return gpu::ForEach(stream, layout.examples() * s.threads, [=] BELFRY_GPU(int64_t i) {
    const int64_t example = by_threads.Quotient(i), thread = i - example * s.threads;
    const int64_t slice = s.column_count.Quotient(thread);
    NormalizeColumns<T, lanes> own = f;
    own.facts += example * groups;
    own.x += example * elements;
    own.y += example * elements;
    WalkColumn<NoSum>(s, thread, slice, own.Begin(thread - slice * s.columns, thread), own);
  });
}

// Calls run(std::integral_constant<int, lanes>()) with the most lanes, a power of two up to `most`, that divide n.
template <int most, class Run>
absl::Status WithDividingLanes(int64_t n, const Run& run) {
  if constexpr (most > 1) {
    if (n % most != 0) return WithDividingLanes<most / 2>(n, run);
  }
  return run(std::integral_constant<int, most>());
}

// The work of GroupFacts for packs of 16 bytes, or what there is of them in a group, and for single elements.
template <class T, bool sloped>
struct GroupFactsPlan {
  using Partial = typename GroupColumns<T, sloped, 1>::Partial;
  GroupLayout layout;
  ColumnParts packed, single;

  static ColumnParts PartsOf(const GroupLayout& layout, int most) {
    int lanes = most;
    while (!layout.Divides(lanes)) lanes /= 2;
    return ColumnParts(layout.places, layout.columns / lanes, layout.examples());
  }
  explicit GroupFactsPlan(const GroupLayout& l) : layout(l), packed(PartsOf(l, kWideLanes<T>)), single(PartsOf(l, 1)) {}

  size_t partial_bytes() const {
    const int64_t most = std::max(packed.partials(), single.partials());
    return static_cast<size_t>(layout.examples() * most) * sizeof(Partial);
  }
  absl::Status Run(Stream& stream, const NormFactsOutput<T, true>& output, void* partials, uint32_t* tickets) const {
    const bool aligned = AreAligned({output.x, output.scale, output.dy});
    return WithDividingLanes<kWideLanes<T>>(aligned ? layout.size : 1, [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const ColumnParts& p = aligned ? packed : single;
      return FindGroupFacts(stream, GroupFacts<T, sloped, kLanes>{layout, p, output, static_cast<Partial*>(partials)},
                            tickets);
    });
  }
};

// Inputs x, scale, offset.
template <class T>
absl::StatusOr<Kernel> GroupNormKernel(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const GroupLayout layout(spec);
  if (!layout.ByColumns()) return NormKernel<T, true>(spec, layout);
  const GroupFactsPlan<T, false> plan(layout);
  ASSIGN_OR_RETURN(std::shared_ptr<uint32_t> tickets, TakeTickets(*spec.device, layout.examples()));
  return Kernel{
      [plan, tickets = std::move(tickets), slices = SlicesOf<T>(layout.places, layout.columns),
       epsilon = spec.attrs.Float("epsilon")](const KernelContext& at) -> absl::Status {
        const GroupLayout& layout = plan.layout;
        const S *x = at.input<S>(0), *scale = at.input<S>(1), *offset = at.input<S>(2);
        S* y = at.output<S>(0);
        auto* facts = reinterpret_cast<NormFacts<C>*>(static_cast<unsigned char*>(at.workspace) + plan.partial_bytes());
        RETURN_IF_ERROR(plan.Run(*at.stream, {epsilon, x, nullptr, nullptr, facts}, at.workspace, tickets.get()));
        return WithLanes<T>(slices.whole && AreAligned({x, scale, offset, y}), [&](auto lanes) {
          constexpr int kLanes = decltype(lanes)::value;
          return NormalizeByColumns(*at.stream, layout, slices.template Of<kLanes>(),
                                    NormalizeColumns<T, kLanes>{layout.by_size, facts, x, scale, offset, y});
        });
      },
      plan.partial_bytes() + static_cast<size_t>(layout.rows) * sizeof(NormFacts<C>)};
}

// Inputs x, scale, dy; outputs dx, dscale, doffset.
template <class T>
absl::StatusOr<Kernel> GroupNormGradKernel(const KernelSpec& spec) {
  const GroupLayout layout(spec);
  if (!layout.ByColumns()) return NormGradKernel<T, true, /*adds=*/false>(spec, layout);
  const GroupFactsPlan<T, true> plan(layout);
  return NormGradKernel<T, true, /*adds=*/false>(
      spec, layout, plan.partial_bytes(), layout.examples(),
      [plan](Stream& stream, const NormFactsOutput<T, true>& output, void* partials, uint32_t* tickets) {
        return plan.Run(stream, output, partials, tickets);
      });
}

}  // namespace belfry::ops
