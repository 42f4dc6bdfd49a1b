// Feeds and fetches in memory of the program.
#pragma once

#include <cstddef>

#include "framework/runtime/binding.h"

namespace belfry {

// True if `elements` and the memory of the program that a feed or fetch has, if any, have bytes in common.
bool Overlaps(const HostCopy& copy, const void* elements, size_t bytes);

// Lets the step read feed `feed` at `elements`, or else copies them from there at each run: on devices with memory of
// their own, where an op works in place on the feed, where they are not aligned to kAlignment, and where they overlap a
// fetch that the step writes there. `rebinds`: whether addresses of the plan may change. No run may be under way.
void BindFeed(BoundPlan& bound, int feed, const void* elements, bool rebinds);
// Lets the step write fetch `fetch` to `elements`, or else copies it there when it is read: besides the cases above,
// where they overlap a feed of the program, and of a fetch that is a variable, a constant, a feed, a part of another
// tensor, or of a collective's.
void BindFetch(BoundPlan& bound, int fetch, void* elements, bool rebinds);

}  // namespace belfry
