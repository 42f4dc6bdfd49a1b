// The allocations of a whole test program, which replaces malloc and its kin by its own (malloc_hooks.cc). Not with
// sanitizers, which do the same.
#pragma once

namespace belfry {

// Called for each allocation of the process, directly by malloc, calloc and so on, from the thread that asks; true: it
// fails. It must be safe to call at any time, and not allocate or expect that. Null, which is what it is at first: none
// fails. Thread-safe.
using MallocHook = bool (*)();
void SetMallocHook(MallocHook hook);

}  // namespace belfry
