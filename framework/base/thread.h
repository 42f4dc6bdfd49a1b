// Threads that the system may refuse.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// A thread that runs `body`. ResourceExhausted if the system has none left; the error says what it is for, "to write
// checkpoints".
absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body);

// ResourceExhausted unless `count` more threads can run at the same time. Asked for threads that a library starts
// later, since OpenMP ends the program if it gets none.
absl::Status TryThreads(int count);

}  // namespace belfry
