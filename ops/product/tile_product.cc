#include "ops/product/tile_product_impl.h"

#include <algorithm>

#include "framework/base/parallel.h"
#include "ops/common/compute_impl.h"
#include "ops/simd/parts_impl.h"

namespace belfry::ops {
namespace {

constexpr int64_t kBlockSums = simd::kStripWidth * simd::kStripWidth;
// A task multiplies blocks of k of kTaskSteps steps. If sums are made of several blocks, they are kept between them.
constexpr int64_t kTaskSteps = 16;
// Up to kFewRows rows are one task, which packs its part of b, too, of up to kTaskPanels panels; with more rows, b is
// packed first, and a task has kTaskRows. What a task packs and keeps has at most 2 MiB, the L2 cache of Sapphire
// Rapids.
constexpr int64_t kFewRows = 512, kTaskRows = 256, kTaskPanels = 16;

// Floats that take as much room as 16-bit elements.
int64_t FloatsFor(int64_t elements) { return elements / 2; }

}  // namespace

simd::Tiles TileProduct::Tiles(int64_t m, int64_t n, int64_t k, bool transpose_a) {
  constexpr double kSmall = 1 << 26;
  if (k == 0) return simd::Tiles::kNone;
  if (simd::EmulatesTiles()) return simd::Tiles::kEmulation;
  const bool wide = m <= kFewRows && n >= k && !transpose_a;
  const bool small = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < kSmall;
  return small || wide || k < simd::kTileDepth ? simd::Tiles::kNone : simd::AvailableTiles();
}

TileProduct::TileProduct(simd::Tiles tiles, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                         const ElementLoops& f)
    : tiles_(tiles),
      m_(m),
      n_(n),
      k_(k),
      transpose_a_(transpose_a),
      transpose_b_(transpose_b),
      f_(f),
      panels_(Parts(n, simd::kStripWidth)),
      steps_(Parts(k, simd::kTileDepth)) {
  row_tasks_ = m <= kFewRows ? 1 : Parts(m, kTaskRows);
  rows_ = Parts(Parts(m, row_tasks_), simd::kStripWidth) * simd::kStripWidth;
  depth_ = Parts(steps_, Parts(steps_, kTaskSteps));
  const bool whole = depth_ == steps_;
  const int64_t least = whole && row_tasks_ > 1 ? 1 : Parts(panels_, kTaskPanels);
  const int64_t shared = ParallelThreads() == 1 ? 1 : Parts(4 * ParallelThreads(), row_tasks_);
  panel_tasks_ = std::max(least, std::min(panels_, shared));
  threads_ = std::min<int64_t>(ParallelThreads(), row_tasks_ * panel_tasks_);
  const int64_t panels = Parts(panels_, panel_tasks_);  // of a task
  panel_ = row_tasks_ == 1 ? FloatsFor(panels * depth_ * simd::kStripStep) : 0;
  block_ = FloatsFor(rows_ / simd::kStripWidth * depth_ * simd::kStripStep);
  sums_ = whole ? kBlockSums : rows_ / simd::kStripWidth * panels * kBlockSums;
}

int64_t TileProduct::workspace_elements() const {
  return (panel_ > 0 ? threads_ * panel_ : packed_elements()) + packed_workspace_elements();
}
int64_t TileProduct::packed_elements() const { return FloatsFor(panels_ * steps_ * simd::kStripStep); }
int64_t TileProduct::packed_workspace_elements() const { return threads_ * (block_ + sums_); }

simd::StripSource TileProduct::Rows(const BFloat16* a) const { return {a, transpose_a_ ? m_ : k_, k_, !transpose_a_}; }
simd::StripSource TileProduct::Columns(const BFloat16* b) const {
  return {b, transpose_b_ ? k_ : n_, k_, transpose_b_};
}

// Stores the part of a block of sums that lies within c.
void TileProduct::Finish(const simd::TileScope& tiles, const simd::TileBlock& block, int64_t row, int64_t column,
                         const BFloat16* bias, BFloat16* c) const {
  const int64_t columns = std::min(simd::kStripWidth, n_ - column);
  float added[simd::kStripWidth] = {};
  if (bias != nullptr) ToFloat(bias + column, added, columns);
  if (f_.map != nullptr) {
    const int64_t all = block.rows * block.columns;
    for (int64_t i = 0; i < all; ++i) {
      const float* const own = added + i % block.columns * simd::kTileRows;
      for (int64_t r = 0; r < simd::kTileSums; r += simd::kTileRows) {
        for (int64_t j = 0; j < simd::kTileRows; ++j) block.sums[i * simd::kTileSums + r + j] += own[j];
      }
    }
    f_.map(f_.functor.data(), block.sums, block.sums, all * simd::kTileSums);
    std::fill_n(added, simd::kStripWidth, 0.0f);
  }
  tiles.Store(block, added, std::min(simd::kStripWidth, m_ - row), columns, c + row * n_ + column, n_);
}

void TileProduct::RunTask(int64_t number, const BFloat16* a, const BFloat16* b, const BFloat16* packed,
                          const BFloat16* bias, BFloat16* c, C* scratch) const {
  const int64_t row = number / panel_tasks_ * rows_, task_rows = std::min(rows_, m_ - row);
  const int64_t part = number % panel_tasks_;
  const int64_t begin = panels_ * part / panel_tasks_, end = panels_ * (part + 1) / panel_tasks_;
  auto* const block = reinterpret_cast<BFloat16*>(scratch + sums_);
  auto* const own = reinterpret_cast<BFloat16*>(scratch + sums_ + block_);
  const int64_t row_blocks = Parts(task_rows, simd::kStripWidth);
  const simd::TileScope tiles(tiles_);
  for (int64_t step = 0; step < steps_; step += depth_) {
    const int64_t steps = std::min(depth_, steps_ - step);
    const int64_t p = step * simd::kTileDepth, strip = (packed == nullptr ? steps : steps_) * simd::kStripStep;
    simd::PackA(Rows(a), {row, row + task_rows, p, steps, steps * simd::kStripStep}, block);
    if (packed == nullptr) {
      const int64_t last = std::min(n_, end * simd::kStripWidth);
      simd::PackB(Columns(b), {begin * simd::kStripWidth, last, p, steps, strip}, own);
    }
    const BFloat16* const panels = packed == nullptr ? own : packed + begin * strip + step * simd::kStripStep;
    for (int64_t panel = begin; panel < end; ++panel) {
      for (int64_t i = 0; i < row_blocks; ++i) {
        float* const sums = depth_ == steps_ ? scratch : scratch + ((panel - begin) * row_blocks + i) * kBlockSums;
        const int64_t rows = std::min(simd::kStripWidth, task_rows - i * simd::kStripWidth);
        BFloat16* const to = c + (row + i * simd::kStripWidth) * n_ + panel * simd::kStripWidth;
        const simd::TileBlock product{
            .rows = Parts(rows, simd::kTileRows),
            .columns = Parts(std::min(simd::kStripWidth, n_ - panel * simd::kStripWidth), simd::kTileRows),
            .steps = steps,
            .a = block + i * steps * simd::kStripStep,
            .b = panels + (panel - begin) * strip,
            .sums = sums,
            .add = step > 0};
        const bool last = step + steps == steps_;
        // Without these, stores of whole lines that are in no cache go past the caches to memory.
        for (int64_t r = 0; last && r < rows; ++r) __builtin_prefetch(to + r * n_, /*rw=*/1);
        tiles.Multiply(product);
        if (!last) continue;
        Finish(tiles, product, row + i * simd::kStripWidth, panel * simd::kStripWidth, bias, c);
      }
    }
  }
}

void TileProduct::Pack(const BFloat16* b, C* packed) const {
  auto* const to = reinterpret_cast<BFloat16*>(packed);
  const int64_t strip = steps_ * simd::kStripStep;
  ParallelFor(panels_, static_cast<double>(k_ * simd::kStripWidth) / 4, [=, this](int64_t begin, int64_t end) {
    const int64_t last = std::min(n_, end * simd::kStripWidth);
    simd::PackB(Columns(b), {begin * simd::kStripWidth, last, 0, steps_, strip}, to + begin * strip);
  });
}

void TileProduct::Run(const BFloat16* a, const BFloat16* b, const BFloat16* bias, BFloat16* c, C* workspace) const {
  if (panel_ > 0) return RunTasks(a, b, nullptr, bias, c, workspace);
  Pack(b, workspace);
  RunPacked(a, workspace, bias, c, workspace + packed_elements());
}

void TileProduct::RunPacked(const BFloat16* a, const C* packed, const BFloat16* bias, BFloat16* c, C* workspace) const {
  RunTasks(a, nullptr, reinterpret_cast<const BFloat16*>(packed), bias, c, workspace);
}

void TileProduct::RunTasks(const BFloat16* a, const BFloat16* b, const BFloat16* packed, const BFloat16* bias,
                           BFloat16* c, C* workspace) const {
  const int64_t tasks = row_tasks_ * panel_tasks_;
  const double cost = static_cast<double>(m_ * n_) * static_cast<double>(k_) / static_cast<double>(512 * threads_);
  const int64_t own = sums_ + block_ + (packed == nullptr ? panel_ : 0);
  ParallelFor(threads_, cost, [=, this](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      for (int64_t task = tasks * thread / threads_; task < tasks * (thread + 1) / threads_; ++task) {
        RunTask(task, a, b, packed, bias, c, workspace + thread * own);
      }
    }
  });
}

}  // namespace belfry::ops
