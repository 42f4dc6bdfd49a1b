// Row-wise kernels, for .cu files: a row is worked on by a team, or by one thread where rows are short or many lie side
// by side.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/device/cuda/launch.h"

namespace belfry::ops {

// gpu::Team of one thread.
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

// body(row, team) for rows of n elements. Body has a template operator() for any kind of team.
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

// Several sums at a time.
template <class C, int n>
struct Sums {
  C of[n] = {};
  friend constexpr Sums operator+(Sums a, const Sums& b) {
    for (int i = 0; i < n; ++i) a.of[i] += b.of[i];
    return a;
  }
};

// The largest of some numbers, and the sum of exp((x - top) scale), in one pass. As in two passes, the top passes over
// NaN and the sum becomes NaN by NaN and by +infinity; so do all probabilities if -infinity is all there is.
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
  template <class Team>
  BELFRY_GPU TopAndSum OfTeam(const Team& team, C scale) const {
    TopAndSum all;
    all.top = team.Reduce(top, [](C a, C b) { return a < b ? b : a; });
    all.sum = team.Sum(top == all.top ? sum : sum * std::exp((top - all.top) * scale));
    return all;
  }
};

}  // namespace belfry::ops
