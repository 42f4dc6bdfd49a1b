// Layer norm and RMS norm of one row, for CPU kernels. `centred` is true for layer norm, which subtracts the mean.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/shape.h"
#include "framework/graph/kernel.h"
#include "ops/common/row_pieces_impl.h"
#include "ops/common/square_range_impl.h"

namespace belfry::ops {

// x viewed as [rows, n], where n is the number of normalised elements: those of `scale`, input 1.
struct NormRows {
  int64_t rows, n;
  double epsilon;

  explicit NormRows(const KernelSpec& spec) {
    const Shape &x = spec.inputs[0].shape, &scale = spec.inputs[1].shape;
    n = scale.elements();
    rows = x.elements(0, x.rank() - scale.rank());
    epsilon = spec.attrs.Float("epsilon");
  }
};

// The shape of x, of which `scale` must have the last axes; `names` says what has that shape, for errors.
absl::StatusOr<Shape> TrailingNormShape(const Shape& x, const Shape& scale, absl::string_view names);

// A row is normalised through a view (square_range_impl.h), Unscaled unless its squares are out of range. Then it is
// scaled, and so is epsilon, which gives the same results.
template <class T>
Scaled<Compute<T>> ScaledView(const T* row, const NormRows& r) {
  using C = Compute<T>;
  C largest = std::sqrt(static_cast<C>(r.epsilon));
  ForRowPieces(row, r.n, [&](int64_t, int64_t n, const C* x) {
    for (int64_t i = 0; i < n; ++i) largest = LargerMagnitude(largest, x[i]);
  });
  return {SquareScale(largest)};
}
template <class C>
C EpsilonIn(const Unscaled&, double epsilon) {
  return static_cast<C>(epsilon);
}
template <class C>
C EpsilonIn(const Scaled<C>& view, double epsilon) {
  return static_cast<C>(epsilon) * view.scale * view.scale;
}

template <class C>
struct RowMoments {
  C mean, divisor;  // divisor: mean of (x - mean)^2 + epsilon
};

template <bool centred, class T, class View>
RowMoments<Compute<T>> MomentsOfRow(const T* row, const NormRows& r, const View& view) {
  using C = Compute<T>;
  C mean = 0, squares = 0;
  if (centred) {
    ForRowPieces(row, r.n,
                 [&](int64_t, int64_t n, const C* x) { mean += SimdSum<C>(n, [=](int64_t i) { return view(x[i]); }); });
    mean /= static_cast<C>(r.n);
  }
  ForRowPieces(row, r.n, [&](int64_t, int64_t n, const C* x) {
    squares += SimdSum<C>(n, [=](int64_t i) { return (view(x[i]) - mean) * (view(x[i]) - mean); });
  });
  return {mean, squares / static_cast<C>(r.n) + EpsilonIn<C>(view, r.epsilon)};
}

// y = (x - mean) / sqrt(divisor) scale + offset. `offset` is null for RMS norm.
template <bool centred, class T, class View>
void NormalizeRowBy(const RowMoments<Compute<T>>& moments, const NormRows& r, const View& view, const T* row,
                    const T* scale, const T* offset, T* y) {
  using C = Compute<T>;
  PieceBuffer<T> scales, offsets, results;
  ForRowPieces(row, r.n, [&, moments, view](int64_t first, int64_t n, const C* x) {
    const C inverse = 1 / std::sqrt(moments.divisor);
    const C* a = scales.Read(scale + first, n);
    C* to = results.Target(y + first);
    if constexpr (centred) {
      const C* b = offsets.Read(offset + first, n);
      const C mean = moments.mean;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i] = (view(x[i]) - mean) * inverse * a[i] + b[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i] = view(x[i]) * inverse * a[i];
    }
    results.Write(y + first, n);
  });
}
// Normalises a row whose squares are out of range. Kept out of line, so that the compiler inlines the usual case into
// NormalizeRow.
template <bool centred, class T>
[[gnu::noinline]] void NormalizeScaledRow(const NormRows& r, const T* row, const T* scale, const T* offset, T* y) {
  const auto view = ScaledView(row, r);
  NormalizeRowBy<centred>(MomentsOfRow<centred>(row, r, view), r, view, row, scale, offset, y);
}
template <bool centred, class T>
void NormalizeRow(const NormRows& r, const T* row, const T* scale, const T* offset, T* y) {
  const auto moments = MomentsOfRow<centred>(row, r, Unscaled());
  if (!SquaresInRange(moments.divisor)) return NormalizeScaledRow<centred>(r, row, scale, offset, y);
  NormalizeRowBy<centred>(moments, r, Unscaled(), row, scale, offset, y);
}

// With g = dy scale and z = x normalised: dx = (g - mean(g) - z mean(g z)) inverse; RMS norm has no mean(g). The
// gradients of a row in three passes: Sums, of what needs no mean; Products, of what needs no variance; and Results.
// All three take the same view of the row, and `mean` and `inverse` are those of what it shows.
template <bool centred, class T>
class NormGradient {
 public:
  using C = Compute<T>;
  struct Facts {
    C mean = 0, divisor = 0, inverse = 0, g_mean = 0, gz_mean = 0;
  };

  NormGradient(const NormRows& rows, const T* scale) : r_(rows), share_(1 / static_cast<C>(rows.n)), scale_(scale) {}

  template <class View>
  void Sums(const View& view, const T* row, const T* dy, Facts& facts) {
    ForRowPieces(row, r_.n, [&](int64_t first, int64_t n, const C* x) {
      const C *a = scales_.Read(scale_ + first, n), *slope = slopes_.Read(dy + first, n);
      C sum = 0, g = 0;
#pragma omp simd reduction(+ : sum, g)
      for (int64_t i = 0; i < n; ++i) {
        sum += view(x[i]);
        g += slope[i] * a[i];
      }
      facts.mean += sum * share_;
      facts.g_mean += g * share_;
    });
  }
  template <class View>
  void Products(const View& view, const T* row, const T* dy, Facts& facts) {
    C squares = 0, products = 0;
    ForRowPieces(row, r_.n, [&, mean = facts.mean](int64_t first, int64_t n, const C* x) {
      const C *a = scales_.Read(scale_ + first, n), *slope = slopes_.Read(dy + first, n);
      C square = 0, product = 0;
#pragma omp simd reduction(+ : square, product)
      for (int64_t i = 0; i < n; ++i) {
        const C difference = view(x[i]) - mean;
        square += difference * difference;
        product += slope[i] * a[i] * difference;
      }
      squares += square;
      products += product;
    });
    facts.divisor = squares * share_ + EpsilonIn<C>(view, r_.epsilon);
    facts.inverse = 1 / std::sqrt(facts.divisor);
    facts.gz_mean = products * facts.inverse * share_;
  }
  // Adds the row to dscale and, if centred, doffset. dx may be `row` or dy.
  template <class View>
  void Results(const View& view, const T* row, const T* dy, const Facts& facts, T* dx, C* dscale, C* doffset) {
    const C slope_of_z = view(facts.inverse);  // dz / dx, apart from the moments
    ForRowPieces(row, r_.n, [&, f = facts, slope_of_z](int64_t first, int64_t n, const C* x) {
      const C *a = scales_.Read(scale_ + first, n), *slope = slopes_.Read(dy + first, n);
      C *to = results_.Target(dx + first), *da = dscale + first, *db = centred ? doffset + first : nullptr;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const C z = (view(x[i]) - f.mean) * f.inverse;
        da[i] += slope[i] * z;
        if (centred) db[i] += slope[i];
        to[i] = (slope[i] * a[i] - f.g_mean - z * f.gz_mean) * slope_of_z;
      }
      results_.Write(dx + first, n);
    });
  }
  // The three passes over a row whose squares are out of range.
  [[gnu::noinline]] void ScaledRow(const T* row, const T* dy, T* dx, C* dscale, C* doffset) {
    const auto view = ScaledView(row, r_);
    Facts facts;
    if (centred) Sums(view, row, dy, facts);
    Products(view, row, dy, facts);
    Results(view, row, dy, facts, dx, dscale, doffset);
  }

 private:
  const NormRows& r_;
  const C share_;
  const T* scale_;
  PieceBuffer<T> scales_, slopes_, results_;
};

// Rows [begin, end) of x, dy and dx. A few rows share each pass, since the next one waits for its sums.
template <bool centred, class T>
void NormGradientOfRows(const NormRows& r, int64_t begin, int64_t end, const T* x, const T* scale, const T* dy, T* dx,
                        Compute<T>* dscale, Compute<T>* doffset) {
  constexpr int64_t kTogether = 4;
  NormGradient<centred, T> gradient(r, scale);
  for (int64_t row = begin; row < end; row += kTogether) {
    typename NormGradient<centred, T>::Facts facts[kTogether];
    const int64_t count = std::min(kTogether, end - row);
    const auto for_rows = [&](const auto& body) {
      for (int64_t k = 0; k < count; ++k) body((row + k) * r.n, facts[k]);
    };
    if (centred) for_rows([&](int64_t at, auto& f) { gradient.Sums(Unscaled(), x + at, dy + at, f); });
    for_rows([&](int64_t at, auto& f) { gradient.Products(Unscaled(), x + at, dy + at, f); });
    for_rows([&](int64_t at, auto& f) {
      if (!SquaresInRange(f.divisor)) return gradient.ScaledRow(x + at, dy + at, dx + at, dscale, doffset);
      gradient.Results(Unscaled(), x + at, dy + at, f, dx + at, dscale, doffset);
    });
  }
}

}  // namespace belfry::ops
