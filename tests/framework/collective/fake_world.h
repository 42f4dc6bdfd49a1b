// Worlds of threads in one process, for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world.h"
#include "tests/framework/collective/fake_mpi.h"

namespace belfry {

inline absl::Time In(absl::Duration duration) { return SteadyNow() + duration; }

struct Ranks {
  std::vector<FakeMpiOptions> options;  // by rank; the rest have none
  std::vector<std::string> builds;      // likewise; the rest are "1"
  bool notice_ends = false;             // FakeNetwork::End
  bool tell_failures = false;           // World::Fail with the error of `body`
  absl::Duration patience = absl::Seconds(60);
  absl::Duration warn_after = absl::Seconds(60);
};

// Runs `body` on a thread for each of `size` ranks, in a world of them, and returns the status of each.
std::vector<absl::Status> RunRanks(int size, const Ranks& ranks, const std::function<absl::Status(World&)>& body);

}  // namespace belfry
