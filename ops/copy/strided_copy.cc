#include "ops/copy/strided_copy_impl.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/parallel.h"

namespace belfry::ops {
namespace {

// Side of the tiles of a transposition: kTile rows and kTile columns of cache lines fit into the L1 cache together.
constexpr int64_t kTile = 32;
// Elements of a work item: enough to amortise its set-up, few enough to balance threads.
constexpr int64_t kItemElements = 4096;
// Up to this length a loop beats the call of memcpy.
constexpr int64_t kShortRow = 16;

// Drops axes of extent 1, and merges adjacent axes that are contiguous in both arrays: then stepping once along the
// outer one equals stepping `extent` times along the inner one, on either side.
std::vector<CopyAxis> Merge(const std::vector<CopyAxis>& axes) {
  std::vector<CopyAxis> merged;
  for (const CopyAxis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!merged.empty() && merged.back().from == axis.extent * axis.from && merged.back().to == axis.extent * axis.to) {
      merged.back() = {merged.back().extent * axis.extent, axis.from, axis.to};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

template <class U>
void CopyContiguous(const U* from, U* to, int64_t n) {
  if (n > kShortRow) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(U));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

}  // namespace

absl::StatusOr<StridedCopy> StridedCopy::Make(size_t element_size, std::vector<CopyAxis> axes, int64_t from_offset,
                                              int64_t to_offset) {
  StridedCopy copy;
  copy.element_size_ = element_size;
  copy.from_offset_ = from_offset;
  copy.to_offset_ = to_offset;
  copy.elements_ = 1;
  for (const CopyAxis& axis : axes) copy.elements_ *= axis.extent;
  if (copy.elements_ == 0) return copy;

  axes = Merge(axes);
  if (axes.size() > kMaxAxes) {
    return absl::InvalidArgumentError(
        absl::StrCat("moving elements along ", axes.size(), " axes is not supported; at most ", int{kMaxAxes}));
  }
  // Any order of the loops gives the same result, because the elements of the box have distinct places in the
  // destination. Columns, the innermost loop, are the last axis of the destination, so that writes are sequential where
  // the destination is dense.
  copy.columns_ = {1, 1, 1};
  if (!axes.empty()) {
    copy.columns_ = axes.back();
    axes.pop_back();
  }
  // If the source is not sequential along the columns, its unit-stride axis becomes the rows. Copying in tiles of rows
  // and columns then uses every cache line of both arrays fully while it is in the cache.
  if (copy.columns_.from != 0 && copy.columns_.from != 1) {
    const auto unit = std::find_if(axes.begin(), axes.end(), [](const CopyAxis& axis) { return axis.from == 1; });
    if (unit != axes.end()) std::rotate(unit, unit + 1, axes.end());
  }
  if (!axes.empty()) {
    copy.rows_ = axes.back();
    axes.pop_back();
  }
  copy.outer_ = std::move(axes);

  const bool dense = copy.columns_.to == 1;
  copy.inner_ = dense && copy.columns_.from == 1   ? Inner::kContiguous
                : dense && copy.columns_.from == 0 ? Inner::kRepeat
                : dense && copy.rows_.from == 1    ? Inner::kTransposed
                                                   : Inner::kStrided;
  // The outer axes count blocks of rows and columns, last of all, so that items partition the box and threads write
  // disjoint elements. Blocks at the end of an axis may be short.
  CopyAxis &rows = copy.rows_, &columns = copy.columns_;
  copy.block_rows_ = copy.inner_ == Inner::kTransposed
                         ? std::min(kTile, rows.extent)
                         : std::clamp<int64_t>(kItemElements / columns.extent, 1, rows.extent);
  copy.block_columns_ = std::min(columns.extent, kItemElements / copy.block_rows_);
  const auto blocks = [](const CopyAxis& axis, int64_t block) {
    return CopyAxis{(axis.extent + block - 1) / block, block * axis.from, block * axis.to};
  };
  copy.outer_.push_back(blocks(rows, copy.block_rows_));
  copy.outer_.push_back(blocks(columns, copy.block_columns_));
  copy.items_ = 1;
  for (const CopyAxis& axis : copy.outer_) copy.items_ *= axis.extent;
  return copy;
}

template <class U>
void StridedCopy::CopyBlock(const U* from, U* to, int64_t rows, int64_t columns) const {
  const int64_t from_row = rows_.from, to_row = rows_.to, from_step = columns_.from, to_step = columns_.to;
  switch (inner_) {
    case Inner::kContiguous:
      for (int64_t r = 0; r < rows; ++r) CopyContiguous(from + r * from_row, to + r * to_row, columns);
      return;
    case Inner::kRepeat:
      for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * to_row, columns, from[r * from_row]);
      return;
    case Inner::kTransposed:
      // Within a tile, writes run along the columns; the lines read for one row serve the next rows as well.
      for (int64_t begin = 0; begin < columns; begin += kTile) {
        const int64_t end = std::min(columns, begin + kTile);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = begin; c < end; ++c) to[r * to_row + c] = from[r + c * from_step];
        }
      }
      return;
    case Inner::kStrided:
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) to[r * to_row + c * to_step] = from[r * from_row + c * from_step];
      }
      return;
  }
}

template <class U>
void StridedCopy::RunAs(const U* from, U* to) const {
  if (items_ == 1) return CopyBlock(from, to, rows_.extent, columns_.extent);
  ParallelFor(items_, static_cast<double>(block_rows_ * block_columns_), [&](int64_t begin, int64_t end) {
    // An odometer over outer_. Invariant: `source` and `target` are the arrays plus the sum over the axes of at[axis]
    // times the strides, so moving to the next item costs O(1) amortised and no division.
    std::array<int64_t, kMaxAxes> at;
    const U* source = from;
    U* target = to;
    int64_t rest = begin;
    for (size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis].extent) {
      at[axis] = rest % outer_[axis].extent;
      source += at[axis] * outer_[axis].from;
      target += at[axis] * outer_[axis].to;
    }
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = at[outer_.size() - 2] * block_rows_, column = at[outer_.size() - 1] * block_columns_;
      CopyBlock(source, target, std::min(block_rows_, rows_.extent - row),
                std::min(block_columns_, columns_.extent - column));
      for (size_t axis = outer_.size(); axis-- > 0;) {
        source += outer_[axis].from;
        target += outer_[axis].to;
        if (++at[axis] < outer_[axis].extent) break;
        source -= outer_[axis].extent * outer_[axis].from;
        target -= outer_[axis].extent * outer_[axis].to;
        at[axis] = 0;
      }
    }
  });
}

void StridedCopy::Run(const void* from, void* to) const {
  if (elements_ == 0) return;
  const auto run = [&](auto bits) {
    using U = RawElement<decltype(bits)>;
    RunAs(static_cast<const U*>(from) + from_offset_, static_cast<U*>(to) + to_offset_);
  };
  // Elements are moved by size, whatever they mean, so four instantiations serve all dtypes.
  switch (element_size_) {
    case 1: return run(uint8_t());
    case 2: return run(uint16_t());
    case 4: return run(uint32_t());
    case 8: return run(uint64_t());
  }
  BELFRY_CHECK(false);
}

std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank());
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

}  // namespace belfry::ops
