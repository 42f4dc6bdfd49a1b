// The length of a thread's turns on its core.
#pragma once

namespace belfry {

// Gives the calling thread turns of at most 0.1 ms on its core, beside the 3 ms or so of others, and ends its sleeps to
// the microsecond. Its share of the core stays the same, but it gets a turn as soon as it wakes: for a thread that
// seldom works, and then should not wait for one that computes. Needs no rights. Turns stay as they are before
// Linux 6.12, or if the system refuses.
void UseShortTimeSlices();

}  // namespace belfry
