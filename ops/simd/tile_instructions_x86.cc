#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "framework/base/machine/processor.h"
#include "ops/simd/tile_instructions_impl.h"

namespace belfry::ops::simd::tile_instructions {
namespace {

// The operand of LDTILECFG: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::array<uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
  std::array<uint8_t, 16> rows = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Configuration kConfiguration;

// Written as assembly since the intrinsics take tile numbers as literals only. Inlined into a function for processors
// with tiles.
struct Instructions {
  template <int tile>
  [[gnu::always_inline]] void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  template <int tile>
  [[gnu::always_inline]] void Load(const void* from) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(tile), "r"(from), "r"(int64_t{64}) : "memory");
  }
  template <int tile>
  [[gnu::always_inline]] void Store(void* to) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(tile), "r"(to), "r"(int64_t{64}) : "memory");
  }
  template <int sums, int a, int b>
  [[gnu::always_inline]] void Multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
  }
};

}  // namespace

bool Allowed() {
  const std::vector<std::string> flags = absl::StrSplit(ProcessorField("flags"), ' ');
  for (const char* needed : {"amx_tile", "amx_bf16", "avx512_bf16"}) {
    if (std::find(flags.begin(), flags.end(), needed) == flags.end()) return false;
  }
  // Linux's ARCH_REQ_XCOMP_PERM for the state of tiles, which threads that exist and later ones may have from then on.
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

[[gnu::target("amx-tile")]] void Start() { asm volatile("ldtilecfg %0" ::"m"(kConfiguration)); }
[[gnu::target("amx-tile")]] void End() { asm volatile("tilerelease"); }
[[gnu::target("amx-tile,amx-bf16")]] void Multiply(const TileBlock& block) { MultiplyBlock<Instructions>(block); }

// 32 sums, rounded by the instruction for it. Processors with tiles have it.
[[gnu::target("avx512f,avx512bf16")]] void Round(const float* low, const float* high, const float* added,
                                                 BFloat16* to) {
  using Lanes [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
  const Lanes x = *reinterpret_cast<const Lanes*>(low) + *reinterpret_cast<const Lanes*>(added);
  const Lanes y = *reinterpret_cast<const Lanes*>(high) + *reinterpret_cast<const Lanes*>(added + kTileRows);
  Lanes both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(x), "v"(y));
  std::memcpy(static_cast<void*>(to), &both, sizeof(both));
}

}  // namespace belfry::ops::simd::tile_instructions
