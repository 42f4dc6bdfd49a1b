#include "framework/collective/reach.h"

#include "framework/device/cuda/native.h"

namespace belfry {

bool Reaches(const Device& from, const Device& to) { return CanReach(from, to); }

}  // namespace belfry
