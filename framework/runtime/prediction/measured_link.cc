#include "framework/runtime/prediction/measured_link.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/time/clock.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

constexpr size_t kSmallest = 4, kLargest = size_t{4} << 20;
constexpr int kExchanges = 15, kWarmUp = 3;

int TaskOfAnotherMachine(const World& world) {
  for (int r = 1; r < world.size(); ++r) {
    if (world.processes()[r].host != world.processes()[0].host) return r;
  }
  return 1;
}

absl::StatusOr<double> MedianSeconds(World& world, int tag, int other, size_t bytes, absl::Time deadline) {
  std::string sent(bytes, 'x'), received(bytes, ' ');
  Transfers transfers;
  transfers.Send(other, sent);
  transfers.Receive(other, absl::MakeSpan(received));
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < kExchanges; ++i) {
    const int64_t begin = absl::GetCurrentTimeNanos();
    RETURN_IF_ERROR(world.Exchange(tag, transfers, deadline, nullptr));
    if (i >= 0) seconds.push_back(static_cast<double>(absl::GetCurrentTimeNanos() - begin) * 1e-9);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kExchanges / 2, seconds.end());
  return seconds[kExchanges / 2];
}

}  // namespace

absl::StatusOr<std::vector<LinkPoint>> MeasureLink(World& world, absl::Time deadline) {
  if (world.size() == 1) {
    return absl::FailedPreconditionError("a link is measured between two processes; start them by mpirun -n 2");
  }
  const int tag = world.NewTag(), other = TaskOfAnotherMachine(world);
  std::vector<LinkPoint> points;
  if (world.rank() == 0 || world.rank() == other) {
    for (size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
      ASSIGN_OR_RETURN(const double seconds, MedianSeconds(world, tag, world.rank() == 0 ? other : 0, bytes, deadline));
      points.push_back({static_cast<double>(bytes), seconds});
    }
  }
  const absl::string_view own(reinterpret_cast<const char*>(points.data()), points.size() * sizeof(LinkPoint));
  ASSIGN_OR_RETURN(const std::string measured, world.Broadcast(own, deadline));
  points.resize(measured.size() / sizeof(LinkPoint));
  std::memcpy(points.data(), measured.data(), measured.size());
  return points;
}

}  // namespace belfry
