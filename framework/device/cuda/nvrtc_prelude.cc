#include "framework/device/cuda/nvrtc_prelude.h"

namespace belfry {

absl::string_view NvrtcPrelude() {
  return R"(
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
namespace belfry {
struct Half { uint16_t bits; };
struct BFloat16 { uint16_t bits; };
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
}  // namespace belfry
)";
}

}  // namespace belfry
