#include "framework/compiler/generated/prelude.h"

namespace belfry {

absl::string_view KernelPrelude() {
  return R"(
#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
using size_t = unsigned long;
namespace std {
using ::size_t;
template <bool, class A, class> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
template <class, class> inline constexpr bool is_same_v = false;
template <class T> inline constexpr bool is_same_v<T, T> = true;
template <class T> inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T> inline constexpr bool is_integral_v =
    is_same_v<T, bool> || is_same_v<T, unsigned char> || is_same_v<T, int> || is_same_v<T, unsigned> ||
    is_same_v<T, long long> || is_same_v<T, unsigned long long>;
template <class T> inline constexpr bool is_unsigned_v = is_integral_v<T> && T(-1) > T(0);
template <class T> struct make_unsigned { using type = unsigned; };
template <> struct make_unsigned<long long> { using type = unsigned long long; };
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
  static constexpr int max_exponent = 128;
  static constexpr float max() { return 0x1.fffffep+127f; }
  static constexpr float min() { return 0x1p-126f; }
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fffffff); }
};
template <> struct numeric_limits<double> {
  static constexpr int max_exponent = 1024;
  static constexpr double max() { return 0x1.fffffffffffffp+1023; }
  static constexpr double min() { return 0x1p-1022; }
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000); }
};
template <> struct numeric_limits<int> {
  static constexpr int max() { return 0x7fffffff; }
  static constexpr int min() { return -0x7fffffff - 1; }
};
template <> struct numeric_limits<long long> {
  static constexpr long long max() { return 0x7fffffffffffffffll; }
  static constexpr long long min() { return -0x7fffffffffffffffll - 1; }
};
template <> struct numeric_limits<unsigned char> {
  static constexpr unsigned char max() { return 255; }
  static constexpr unsigned char min() { return 0; }
};
#define BELFRY_MATH_1(name) \
  constexpr float name(float x) { return ::name##f(x); } \
  constexpr double name(double x) { return ::name(x); }
#define BELFRY_MATH_2(name) \
  constexpr float name(float x, float y) { return ::name##f(x, y); } \
  constexpr double name(double x, double y) { return ::name(x, y); }
BELFRY_MATH_1(exp) BELFRY_MATH_1(expm1) BELFRY_MATH_1(log) BELFRY_MATH_1(log1p) BELFRY_MATH_1(tanh)
BELFRY_MATH_1(sqrt) BELFRY_MATH_1(sin) BELFRY_MATH_1(cos) BELFRY_MATH_1(tan) BELFRY_MATH_1(asin)
BELFRY_MATH_1(acos) BELFRY_MATH_1(atan) BELFRY_MATH_1(sinh) BELFRY_MATH_1(cosh) BELFRY_MATH_1(erf)
BELFRY_MATH_1(erfc) BELFRY_MATH_1(floor) BELFRY_MATH_1(ceil) BELFRY_MATH_1(nearbyint)
BELFRY_MATH_2(pow) BELFRY_MATH_2(atan2) BELFRY_MATH_2(fmod) BELFRY_MATH_2(copysign)
constexpr float abs(float x) { return ::fabsf(x); }
constexpr double abs(double x) { return ::fabs(x); }
constexpr float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
constexpr double fma(double x, double y, double z) { return ::fma(x, y, z); }
constexpr float ldexp(float x, int e) { return ::ldexpf(x, e); }
constexpr double ldexp(double x, int e) { return ::ldexp(x, e); }
}  // namespace std
#else
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#endif

namespace belfry {

struct Half { uint16_t bits; };
struct BFloat16 { uint16_t bits; };

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

#ifdef __CUDACC_RTC__
inline float Widen(Half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
inline float Widen(BFloat16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
inline Half NarrowTo(Half, float x) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
inline BFloat16 NarrowTo(BFloat16, float x) {
  BFloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#else
inline float Widen(Half x) {
  _Float16 y;
  std::memcpy(&y, &x, 2);
  return y;
}
inline float Widen(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float y;
  std::memcpy(&y, &bits, 4);
  return y;
}
inline Half NarrowTo(Half, float x) {
  const auto y = static_cast<_Float16>(x);
  Half h;
  std::memcpy(&h, &y, 2);
  return h;
}
inline BFloat16 NarrowTo(BFloat16, float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (x != x) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
#endif
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
