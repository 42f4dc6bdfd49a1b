// Maximum pooling by windows that do not overlap, of float32 and bfloat16 images in NHWC. Internal.
#pragma once

#include <cstdint>

#include "ops/onednn/pooling.h"

namespace belfry::ops {

// True for windows side by side, of at most 255 elements.
bool IsDisjoint(const onednn::Pool2DShape& pool);

// The maxima, and the positions in the window that they are from. Ties go to the first element; any number beats NaN.
// REQUIRES: IsDisjoint(pool).
template <class T>
void DisjointMaxPool(const onednn::Pool2DShape& pool, const T* x, T* y, uint8_t* winners);
// dx is dy where the winners are, otherwise 0. REQUIRES: IsDisjoint(pool).
template <class T>
void DisjointMaxPoolGrad(const onednn::Pool2DShape& pool, const uint8_t* winners, const T* dy, T* dx);

}  // namespace belfry::ops
