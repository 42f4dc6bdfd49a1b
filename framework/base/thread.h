// Threads: starting them, which the system may refuse, and their turns on a core.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// A thread that runs `body`. ResourceExhausted if the system has none left, or no memory for it; the error says what it
// is for, "to write checkpoints".
absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body);

// ResourceExhausted unless `count` more threads can run at the same time. Asked for threads that a library starts
// later, since OpenMP ends the program if it gets none. On return the system no longer counts those that it tried.
absl::Status TryThreads(int count);

// Gives the calling thread turns of at most 0.1 ms on its core, beside the 3 ms or so of others, and ends its sleeps to
// the microsecond. Its share of the core stays the same, but it gets a turn as soon as it wakes: for a thread that
// seldom works, and then should not wait for one that computes. Needs no rights. Turns stay as they are before
// Linux 6.12, or if the system refuses.
void UseShortTimeSlices();

}  // namespace belfry
