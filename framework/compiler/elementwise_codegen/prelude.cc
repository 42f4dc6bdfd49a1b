#include "framework/compiler/elementwise_codegen/prelude.h"

namespace belfry {

absl::string_view KernelPrelude() {
  return R"(
namespace belfry {

// The attributes of a node by name, for code whose constructors take framework/graph/attr.h's.
struct Attrs {
  struct Entry { const char* name; double value; };
  Entry entries[8] = {};
  constexpr double Float(const char* name) const {
    for (const Entry& entry : entries) {
      if (entry.name == nullptr) break;
      const char *a = entry.name, *b = name;
      while (*a != 0 && *a == *b) ++a, ++b;
      if (*a == *b) return entry.value;
    }
    return 0;
  }
  constexpr bool Bool(const char* name) const { return Float(name) != 0; }
  constexpr int64_t Int(const char* name) const { return static_cast<int64_t>(Float(name)); }
};

template <class T> T Widen(T x) { return x; }
template <class T> T NarrowTo(T, T x) { return x; }
template <class S, class C> S Narrow(C x) { return NarrowTo(S(), x); }

// `n` adjacent elements, read and written 16 bytes at a time.
template <class S, int n>
struct alignas(sizeof(S) * n < 16 ? sizeof(S) * n : 16) Pack { S at[n]; };

// Elements [0, lanes) of `from`; the rest is zero. `whole`: all of them are there, and `from` is aligned.
template <int n, class S>
Pack<S, n> Load(const S* from, int lanes, bool whole) {
  if (whole) return *reinterpret_cast<const Pack<S, n>*>(from);
  Pack<S, n> pack = {};
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (j < lanes) pack.at[j] = from[j];
  }
  return pack;
}
template <int n, class S>
void Store(S* to, const Pack<S, n>& pack, int lanes, bool whole) {
  if (whole) {
    *reinterpret_cast<Pack<S, n>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (j < lanes) to[j] = pack.at[j];
  }
}
// The same of a row of `size` elements that repeats, from its element `at` on.
template <int n, int size, class S>
Pack<S, n> LoadRow(const S* row, uint32_t at, int lanes, bool whole) {
  if (size % n == 0) return Load<n>(row + at, lanes, whole);
  Pack<S, n> pack = {};
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (j < lanes) pack.at[j] = row[(at + j) % size];
  }
  return pack;
}
// The same of elements place(j) of `from`.
template <int n, class S, class Place>
Pack<S, n> LoadAt(const S* from, int lanes, const Place& place) {
  Pack<S, n> pack = {};
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (j < lanes) pack.at[j] = from[place(j)];
  }
  return pack;
}
// The same of the transpose of x [rows, columns], from its element `at` on.
template <int n, class S>
Pack<S, n> LoadTransposed(const S* x, uint32_t rows, uint32_t columns, uint32_t at, int lanes) {
  Pack<S, n> pack = {};
  uint32_t column = at / rows, row = at - column * rows;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    if (j < lanes) pack.at[j] = x[row * columns + column];
    if (++row == rows) row = 0, ++column;
  }
  return pack;
}

}  // namespace belfry
)";
}

}  // namespace belfry
