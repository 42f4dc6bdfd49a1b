// Ends a program that starts on a processor without the instructions that libbelfry was compiled with. Compiled for all
// processors of x86-64, unlike everything else.
#include <cpuid.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

// Programs with a static libbelfry name this symbol, so that the linker takes this file from the archive
// (belfry_keep_processor_check in framework/cmake/targets.cmake).
extern "C" {
extern const int belfry_processor_level;
const int belfry_processor_level = BELFRY_LEVEL;
}

namespace belfry {
namespace {

constexpr char kMessage[] =
    "belfry: this libbelfry needs a processor of level x86-64-v%d (2: SSE4.2, 3: AVX2, 4: AVX-512), and this machine's "
    "is of level %d. %s\n";
// The packages have no library for level 1.
constexpr const char* kAdvice =
    BELFRY_LEVEL == 2
        ? "Build it with -D BELFRY_PROCESSOR=x86-64."
        : "Build it with -D BELFRY_PROCESSOR=x86-64-v2, or install the Debian packages, which hold a library for each "
          "level from 2.";

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

// Zeros if the processor does not know the leaf.
Registers Cpuid(uint32_t leaf) {
  Registers r;
  __get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d);
  return r;
}

constexpr uint32_t Bits(auto... positions) { return ((uint32_t{1} << positions) | ...); }
constexpr bool HasAll(uint32_t value, uint32_t bits) { return (value & bits) == bits; }

// The vector registers that the operating system saves; asked only where it lets programs ask.
uint32_t SavedState() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// The level of this processor by the additions of each, "Micro-Architecture Levels" of the x86-64 psABI. Not by
// __builtin_cpu_supports, which lacks some of their names: a virtual machine may hide any one of them.
int Level() {
  const Registers basic = Cpuid(1), more = Cpuid(7), extended = Cpuid(0x80000001);
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF.
  if (!HasAll(basic.c, Bits(0, 9, 13, 19, 20, 23)) || !HasAll(extended.c, Bits(0))) return 1;
  // FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; and the YMM registers.
  if (!HasAll(basic.c, Bits(12, 22, 27, 28, 29)) || !HasAll(more.b, Bits(3, 5, 8)) || !HasAll(extended.c, Bits(5)) ||
      !HasAll(SavedState(), Bits(1, 2))) {
    return 2;
  }
  // AVX512F, DQ, CD, BW, VL; and the mask and ZMM registers.
  return HasAll(more.b, Bits(16, 17, 28, 30, 31)) && HasAll(SavedState(), Bits(5, 6, 7)) ? 4 : 3;
}

// Before the constructors of libbelfry and of the program, which may use the missing instructions. Nothing else is
// initialised yet, not even streams.
[[gnu::constructor(101)]] void CheckProcessor() {
  const int level = Level();
  if (level >= BELFRY_LEVEL) return;
  dprintf(STDERR_FILENO, kMessage, BELFRY_LEVEL, level, kAdvice);
  _exit(1);
}

}  // namespace
}  // namespace belfry
