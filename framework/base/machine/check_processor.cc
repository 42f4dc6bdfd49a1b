// Ends a program that starts on a processor without the instructions that libbelfry was compiled with. Compiled for all
// processors of x86-64, unlike everything else.
#include <unistd.h>

namespace belfry {
namespace {

// The additions of each level of x86-64 to the one before it.
bool HasLevel2() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
bool HasLevel3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
bool HasLevel4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

constexpr int kLevel = BELFRY_LEVEL;
constexpr char kMessage[] =
    "belfry: this libbelfry needs a processor of level x86-64-v" BELFRY_LEVEL_TEXT
    " (2: SSE4.2, 3: AVX2, 4: AVX-512), which this machine does not have. Build it with "
    "-D BELFRY_PROCESSOR=x86-64-v2, or install the Debian packages, which hold a library for each level.\n";

// Before the constructors of libbelfry and of the program, which may use the missing instructions. Nothing else is
// initialised yet, not even streams.
[[gnu::constructor(101)]] void CheckProcessor() {
  __builtin_cpu_init();
  if ((kLevel < 2 || HasLevel2()) && (kLevel < 3 || HasLevel3()) && (kLevel < 4 || HasLevel4())) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(1);
}

}  // namespace
}  // namespace belfry
