// The time for which threads of OpenMP spin between parallel loops before they sleep.
#pragma once

#include <sys/types.h>

#include "absl/types/span.h"

namespace belfry {

// Lets the threads of this process that wait for a parallel loop spin for some ms, as libgomp does by itself, while
// they have their cores to themselves, and for microseconds while others want them, too. A separate thread notices
// that 40 to 250 ms after `team` or an earlier one ran beside others, and half a second after it runs alone again.
// Where the kernel does not tell, they spin for microseconds.
//
// Does nothing if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, which are the user's choice, nor after fork. Threads of
// LLVM's OpenMP that belong to the calling thread sleep at once. Thread-safe.
void LimitSpinning(absl::Span<const pid_t> team);

// True if teams of parallel loops were last seen to share their cores with others, so that a thread may have to wait
// for another one as long as others run. False where LimitSpinning does nothing. Thread-safe.
bool CoresAreShared();

// Call before a parallel loop. One load, unless nothing ran for a while.
void NoteParallelLoop();

}  // namespace belfry
