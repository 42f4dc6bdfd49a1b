// The instructions for tiles, of x86-64 (tile_instructions_x86.cc) and of no other architecture (_none.cc). Internal to
// tiles.cc.
#pragma once

#include <utility>

#include "ops/simd/tiles_impl.h"

namespace belfry::ops::simd {
namespace tile_instructions {

// True if the processor has them and the system lets this process use them, for which it asks. If not, nothing else
// here may be called.
bool Allowed();
// The calling thread's use of its tiles.
void Start();
void End();
void Multiply(const TileBlock& block);
// Rounds 16 sums of `low` and 16 of `high`, plus the 32 of `added`, to 32 elements of `to`.
void Round(const float* low, const float* high, const float* added, BFloat16* to);

}  // namespace tile_instructions

// Sums are in tiles 0 to 3, operands in tiles 4 to 7. `sum` counts the sums.
template <class Machine, int rows, int columns, int... sum>
[[gnu::always_inline]] inline void MultiplyBlockOf(const TileBlock& block,
                                                   std::integer_sequence<int, sum...> /*sums*/) {
  Machine machine;
  if (block.add) {
    (machine.template Load<sum>(block.sums + sum * kTileSums), ...);
  } else {
    (machine.template Zero<sum>(), ...);
  }
  const BFloat16 *a = block.a, *b = block.b;
  for (int64_t step = 0; step < block.steps; ++step, a += kStripStep, b += kStripStep) {
    machine.template Load<4>(a);
    machine.template Load<6>(b);
    if constexpr (columns == 2) machine.template Load<7>(b + kTileElements);
    if constexpr (rows == 2) machine.template Load<5>(a + kTileElements);
    (machine.template Multiply<sum, 4 + sum / columns, 6 + sum % columns>(), ...);
  }
  (machine.template Store<sum>(block.sums + sum * kTileSums), ...);
}

template <class Machine>
[[gnu::always_inline]] inline void MultiplyBlock(const TileBlock& block) {
  const bool wide = block.columns == 2;
  if (block.rows == 2) {
    wide ? MultiplyBlockOf<Machine, 2, 2>(block, std::make_integer_sequence<int, 4>())
         : MultiplyBlockOf<Machine, 2, 1>(block, std::make_integer_sequence<int, 2>());
  } else {
    wide ? MultiplyBlockOf<Machine, 1, 2>(block, std::make_integer_sequence<int, 2>())
         : MultiplyBlockOf<Machine, 1, 1>(block, std::make_integer_sequence<int, 1>());
  }
}

}  // namespace belfry::ops::simd
