#include "framework/base/time_slice.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace belfry {
namespace {

// What Linux takes and returns (sched_setattr(2)). The headers of older systems have neither functions nor a type that
// could be used beside <sched.h>.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;  // ns
};

constexpr uint64_t kShortestSlice = 100'000;  // ns; Linux gives no shorter ones
constexpr unsigned long kTimerSlack = 1'000;  // ns

}  // namespace

void UseShortTimeSlices() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  attributes.runtime = kShortestSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace belfry
