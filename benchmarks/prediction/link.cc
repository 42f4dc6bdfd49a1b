#include "benchmarks/prediction/link.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/collective/collective.h"

namespace belfry::benchmarks {
namespace {

struct NamedLink {
  absl::string_view name;
  double latency, bandwidth;
};

// Bandwidths are what is left of the line for data: TCP carries 1,448 bytes in each 1,538 of Ethernet, 94 %, and at
// 10 Gbit/s rarely all of that; 100 Gbit/s InfiniBand carries some 90 % (nccl-tests on such clusters). Latencies are
// typical of a small message in user space: through the kernel's TCP, and through verbs.
constexpr NamedLink kLinks[] = {{"1gbe", 50e-6, 0.117e9}, {"10gbe", 25e-6, 1.1e9}, {"ib100", 2e-6, 11e9}};

constexpr size_t kSmallest = 4, kLargest = size_t{4} << 20;
constexpr size_t kLarge = size_t{256} << 10;  // from here on fewer exchanges are as steady
constexpr int kExchanges = 15, kLargeExchanges = 5, kWarmUp = 2;
constexpr absl::Duration kCalibration = absl::Milliseconds(50);
constexpr double kNoTime = 1e-9;  // s; what is interpolated must be positive

int TaskOfAnotherMachine(const World& world) {
  for (int r = 1; r < world.size(); ++r) {
    if (world.processes()[r].host != world.processes()[0].host) return r;
  }
  return 1;
}

// A thread that computes without end, and counts what it does.
class Computing {
 public:
  Computing() : thread_([this] { Compute(); }) {
    const Clock::time_point begin = Clock::now();
    const double before = done_;
    absl::SleepFor(kCalibration);
    seconds_ = Seconds(begin) / std::max(done_ - before, 1.0);
  }
  ~Computing() {
    stop_ = true;
    thread_.join();
  }

  // Seconds of computing since the start, as they would be if nothing disturbed it.
  double Computed() const { return done_ * seconds_; }

 private:
  // A unit takes about a microsecond, and its data half of a first cache.
  void Compute() {
    std::vector<float> values(4096, 1);
    constexpr size_t kUnit = 1024;
    for (size_t at = 0; !stop_.load(std::memory_order_relaxed); at = (at + kUnit) % values.size()) {
      for (size_t i = 0; i < kUnit; ++i) values[at + i] = values[at + i] * 0.999F + 0.001F;
      done_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }

  std::atomic<double> done_{0};  // units
  std::atomic<bool> stop_{false};
  double seconds_ = 0;  // of a unit
  std::thread thread_;
};

// `computing` may be null: then only the seconds are measured.
absl::StatusOr<Cost> CostOfMessage(World& world, int tag, int other, size_t bytes, const Computing* computing,
                                   absl::Time deadline) {
  std::string sent(bytes, 'x'), received(bytes, ' ');
  Transfers transfers;
  transfers.Send(other, sent);
  transfers.Receive(other, absl::MakeSpan(received));
  std::vector<double> seconds, lost;
  const int exchanges = bytes < kLarge ? kExchanges : kLargeExchanges;
  for (int i = -kWarmUp; i < exchanges; ++i) {
    const double before = computing != nullptr ? computing->Computed() : 0;
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(world.Exchange(tag, transfers, deadline, nullptr));
    const double took = Seconds(begin);
    if (i < 0) continue;
    seconds.push_back(took);
    lost.push_back(computing == nullptr ? 0 : std::clamp(took - (computing->Computed() - before), 0.0, took));
  }
  return Cost{.seconds = Median(seconds), .processor = std::max(Median(lost), kNoTime)};
}

// The averager's own summation, in seconds per byte read.
absl::StatusOr<double> SecondsOfSum() {
  constexpr int64_t kElements = 1 << 18;
  std::vector<float> first(kElements, 1), second(kElements, 2);
  float one = 1;
  const CollectiveSpec spec{.name = "probe",
                            .elements = kElements,
                            .ranks = {{.data = first.data(), .weight = &one}, {.data = second.data(), .weight = &one}}};
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < kExchanges; ++i) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(ReduceOnHost(spec, spec.ranks, 0, 1, 0, kElements));
    if (i >= 0) seconds.push_back(Seconds(begin));
  }
  return Median(seconds) / static_cast<double>(2 * kElements * sizeof(float));
}

absl::Status MeasureAs(World& world, int other, absl::Time deadline, int tag, std::vector<LinkPoint>& points,
                       double& sum) {
  if (world.several_machines()) UseShortTimeSlices();  // as the averaging thread does
  ASSIGN_OR_RETURN(sum, SecondsOfSum());
  for (size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    ASSIGN_OR_RETURN(const Cost cost, CostOfMessage(world, tag, other, bytes, nullptr, deadline));
    points.push_back({static_cast<double>(bytes), cost});
  }
  const Computing computing;
  for (LinkPoint& point : points) {
    ASSIGN_OR_RETURN(const Cost cost,
                     CostOfMessage(world, tag, other, static_cast<size_t>(point.bytes), &computing, deadline));
    point.cost.beside = cost.seconds;
    point.cost.processor = cost.processor;
  }
  return absl::OkStatus();
}

}  // namespace

Link Link::Linear(double latency, double bandwidth) {
  Link link;
  link.latency_ = latency;
  link.seconds_per_byte_ = 1 / bandwidth;
  return link;
}

absl::StatusOr<Link> Link::Find(absl::string_view name) {
  for (const NamedLink& link : kLinks) {
    if (link.name == name) return Linear(link.latency, link.bandwidth);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is unknown; expected 1gbe, 10gbe, ib100 or measured"));
}

Cost Link::Message(double bytes) const {
  if (points_.empty()) return {.seconds = latency_ + bytes * seconds_per_byte_};
  if (bytes <= points_.front().bytes) return points_.front().cost;
  const Cost& last = points_.back().cost;
  if (const double times = bytes / points_.back().bytes; times >= 1) {
    return {.seconds = last.seconds * times, .beside = last.beside * times, .processor = last.processor * times};
  }
  const auto above = std::upper_bound(points_.begin(), points_.end(), bytes,
                                      [](double size, const LinkPoint& point) { return size < point.bytes; });
  const Cost &from = above[-1].cost, &to = above->cost;
  const double part = std::log(bytes / above[-1].bytes) / std::log(above->bytes / above[-1].bytes);
  const auto between = [part](double low, double high) { return low * std::pow(high / low, part); };
  return {.seconds = between(from.seconds, to.seconds),
          .beside = between(from.beside, to.beside),
          .processor = between(from.processor, to.processor)};
}

Cost Link::Average(double bytes, int64_t processes) const {
  if (processes <= 1) return {};
  const Cost message = Message(bytes / static_cast<double>(processes));
  const double messages = 2 * static_cast<double>(processes - 1), sum = bytes * sum_;
  const double processor = messages * message.processor, seconds = std::max(messages * message.seconds, processor);
  return {.seconds = seconds + sum,
          .beside = std::max(seconds, messages * message.beside) + sum,
          .processor = processor + sum};
}

absl::StatusOr<Link> MeasureLink(World& world, absl::Time deadline) {
  if (world.size() == 1) {
    return absl::FailedPreconditionError("a link is measured between two processes; start them by mpirun -n 2");
  }
  const int tag = world.NewTag(), other = TaskOfAnotherMachine(world);
  std::vector<LinkPoint> points;
  double sum = 0;
  if (world.rank() == 0 || world.rank() == other) {
    absl::Status status;
    const auto measure = [&] { status = MeasureAs(world, world.rank() == 0 ? other : 0, deadline, tag, points, sum); };
    ASSIGN_OR_RETURN(std::thread thread, StartThread("to measure the link", measure));
    thread.join();
    RETURN_IF_ERROR(status);
  }
  points.push_back({.bytes = sum});  // sent with the points
  const absl::string_view own(reinterpret_cast<const char*>(points.data()), points.size() * sizeof(LinkPoint));
  ASSIGN_OR_RETURN(const std::string text, world.Broadcast(std::string(own), deadline));
  points.resize(text.size() / sizeof(LinkPoint));
  std::memcpy(points.data(), text.data(), points.size() * sizeof(LinkPoint));
  sum = points.back().bytes;
  points.pop_back();
  return Link(std::move(points), sum);
}

}  // namespace belfry::benchmarks
