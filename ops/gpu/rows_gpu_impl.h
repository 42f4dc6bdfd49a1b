// Row-wise kernels. A row is processed by a team of threads, or by a single thread if rows are short, or many lie side
// by side. For .cu files.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/device/cuda/launch.h"

namespace belfry::ops {

// A gpu::Team of one thread.
struct Solo {
  static constexpr int rank = 0, size = 1;
  template <class T, class Op>
  BELFRY_GPU T Reduce(T value, Op) const {
    return value;
  }
  template <class T>
  BELFRY_GPU T Sum(T value) const {
    return value;
  }
  BELFRY_GPU void Wait() const {}
};

inline constexpr int64_t kRowForOneThread = 16;

// Calls body(row, team) for rows of n elements. `body` has a templated operator() that takes any kind of team.
template <class Body>
absl::Status ForEachRowAlone(Stream& stream, int64_t rows, const Body& body) {
  return gpu::ForEach(stream, rows, [=] BELFRY_GPU(int64_t row) { body(row, Solo()); });
}
template <class Body>
absl::Status ForEachRowInTeams(Stream& stream, int64_t rows, int64_t n, const Body& body) {
  return gpu::ForEachRow(stream, rows, n, [=] BELFRY_GPU(int64_t row, const gpu::Team& team) { body(row, team); });
}
template <class Body>
absl::Status ForEachRowOf(Stream& stream, int64_t rows, int64_t n, const Body& body) {
  return n <= kRowForOneThread ? ForEachRowAlone(stream, rows, body) : ForEachRowInTeams(stream, rows, n, body);
}

// Several sums accumulated together.
template <class C, int n>
struct Sums {
  C of[n] = {};
  friend constexpr Sums operator+(Sums a, const Sums& b) {
    for (int i = 0; i < n; ++i) a.of[i] += b.of[i];
    return a;
  }
};

// The maximum of some numbers, and the sum of exp((x - top) scale), in one pass. As in the two-pass form, NaN does not
// affect the maximum, the sum becomes NaN if there is a NaN or +infinity, and all probabilities are NaN if all numbers
// are -infinity.
template <class C>
struct TopAndSum {
  C top = -std::numeric_limits<C>::infinity(), sum = 0;

  constexpr void Add(C x, C scale) {
    const C e = x == top ? C(1) : std::exp((x < top ? x - top : top - x) * scale);
    if (x > top) {
      sum = sum * e + (C(1) + (x - x));
      top = x;
    } else {
      sum += e;
    }
  }
  // The same for several numbers, with a single change of `top`.
  template <int n>
  constexpr void Add(const C (&x)[n], C scale) {
    C largest = top;
    for (int j = 0; j < n; ++j) largest = x[j] > largest ? x[j] : largest;
    if (largest > top) sum *= std::exp((top - largest) * scale);
    top = largest;
    const C shift = largest == -std::numeric_limits<C>::infinity() ? C(0) : largest;
    for (int j = 0; j < n; ++j) sum += std::exp((x[j] - shift) * scale);
  }
  template <class Team>
  BELFRY_GPU TopAndSum OfTeam(const Team& team, C scale) const {
    TopAndSum all;
    all.top = team.Reduce(top, [](C a, C b) { return a < b ? b : a; });
    all.sum = team.Sum(top == all.top ? sum : sum * std::exp((top - all.top) * scale));
    return all;
  }
};

}  // namespace belfry::ops
