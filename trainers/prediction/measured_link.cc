#include "trainers/prediction/measured_link.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/thread.h"
#include "framework/collective/collective.h"

namespace belfry {
namespace {

constexpr size_t kSmallest = 4, kLargest = size_t{4} << 20;
constexpr size_t kLarge = size_t{256} << 10;  // from here on fewer exchanges are as steady
constexpr int kExchanges = 15, kLargeExchanges = 5, kWarmUp = 2;
constexpr absl::Duration kCalibration = absl::Milliseconds(50);
constexpr double kNoTime = 1e-9;  // s; a table's times must be positive

int TaskOfAnotherMachine(const World& world) {
  for (int r = 1; r < world.size(); ++r) {
    if (world.processes()[r].host != world.processes()[0].host) return r;
  }
  return 1;
}

double Now() { return static_cast<double>(absl::ToUnixNanos(SteadyNow())) * 1e-9; }

double MiddleOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Threads that compute without end, and count what they do.
class Computing {
 public:
  explicit Computing(int threads) : done_(static_cast<size_t>(threads)) {
    for (auto& done : done_) threads_.emplace_back([this, &done] { Compute(done.count); });
    const double begin = Now(), before = Done();
    absl::SleepFor(kCalibration);
    seconds_ = (Now() - begin) * threads / std::max(Done() - before, 1.0);
  }

  ~Computing() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Seconds of one thread's computing, since the start, as they would be if nothing disturbed it.
  double Computed() const { return Done() * seconds_; }

 private:
  // On a line of the cache of its own.
  struct alignas(64) Count {
    std::atomic<int64_t> count{0};
  };

  double Done() const {
    int64_t sum = 0;
    for (const Count& done : done_) sum += done.count.load(std::memory_order_relaxed);
    return static_cast<double>(sum);
  }

  // A unit takes about a microsecond, and its data half of a first cache.
  void Compute(std::atomic<int64_t>& done) const {
    std::vector<float> values(4096, 1);
    constexpr size_t kUnit = 1024;
    for (size_t at = 0; !stop_.load(std::memory_order_relaxed); at = (at + kUnit) % values.size()) {
      for (size_t i = 0; i < kUnit; ++i) values[at + i] = values[at + i] * 0.999F + 0.001F;
      done.fetch_add(1, std::memory_order_relaxed);
    }
  }

  std::vector<Count> done_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  double seconds_ = 0;  // of a unit, in one thread
};

struct Cost {
  double seconds = 0, processor = 0;  // medians
};

// `computing` may be null.
absl::StatusOr<Cost> CostOfMessage(World& world, int tag, int other, size_t bytes, const Computing* computing,
                                   int threads, absl::Time deadline) {
  std::string sent(bytes, 'x'), received(bytes, ' ');
  Transfers transfers;
  transfers.Send(other, sent);
  transfers.Receive(other, absl::MakeSpan(received));
  std::vector<double> seconds, lost;
  const int exchanges = bytes < kLarge ? kExchanges : kLargeExchanges;
  for (int i = -kWarmUp; i < exchanges; ++i) {
    const double before = computing != nullptr ? computing->Computed() : 0, begin = Now();
    RETURN_IF_ERROR(world.Exchange(tag, transfers, deadline, nullptr));
    const double took = Now() - begin;
    if (i < 0) continue;
    seconds.push_back(took);
    if (computing == nullptr) continue;
    const double all = took * threads;
    lost.push_back(std::clamp(all - (computing->Computed() - before), 0.0, all));
  }
  return Cost{MiddleOf(seconds), lost.empty() ? 0 : MiddleOf(lost)};
}

// By the code that adds up slices.
absl::StatusOr<double> SecondsOfSum() {
  constexpr int64_t kElements = 1 << 18;
  std::vector<float> first(kElements, 1), second(kElements, 2);
  float one = 1;
  const CollectiveSpec spec{.name = "probe",
                            .elements = kElements,
                            .ranks = {{.data = first.data(), .weight = &one}, {.data = second.data(), .weight = &one}}};
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < kExchanges; ++i) {
    const double begin = Now();
    RETURN_IF_ERROR(ReduceOnHost(spec, spec.ranks, 0, 1, 0, kElements));
    if (i >= 0) seconds.push_back(Now() - begin);
  }
  return MiddleOf(seconds) / static_cast<double>(2 * kElements * sizeof(float));
}

absl::Status MeasureAs(World& world, int other, int threads, absl::Time deadline, int tag, MeasuredLink& measured) {
  if (world.several_machines()) UseShortTimeSlices();  // as the averaging thread does
  ASSIGN_OR_RETURN(measured.sum, SecondsOfSum());
  for (size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    ASSIGN_OR_RETURN(const Cost cost, CostOfMessage(world, tag, other, bytes, nullptr, threads, deadline));
    measured.alone.push_back({static_cast<double>(bytes), cost.seconds});
  }
  const Computing computing(threads);
  for (size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    ASSIGN_OR_RETURN(const Cost cost, CostOfMessage(world, tag, other, bytes, &computing, threads, deadline));
    measured.beside.push_back({static_cast<double>(bytes), cost.seconds});
    measured.processor.push_back({static_cast<double>(bytes), std::max(cost.processor, kNoTime)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MeasuredLink> MeasureLink(World& world, int computing, absl::Time deadline) {
  if (world.size() == 1) {
    return absl::FailedPreconditionError("a link is measured between two processes; start them by mpirun -n 2");
  }
  const int tag = world.NewTag(), other = TaskOfAnotherMachine(world);
  MeasuredLink measured;
  if (world.rank() == 0 || world.rank() == other) {
    absl::Status status;
    const auto measure = [&] {
      status = MeasureAs(world, world.rank() == 0 ? other : 0, computing, deadline, tag, measured);
    };
    ASSIGN_OR_RETURN(std::thread thread, StartThread("to measure the link", measure));
    thread.join();
    RETURN_IF_ERROR(status);
  }
  std::string own(reinterpret_cast<const char*>(&measured.sum), sizeof(measured.sum));
  for (const auto* points : {&measured.alone, &measured.beside, &measured.processor}) {
    own.append(reinterpret_cast<const char*>(points->data()), points->size() * sizeof(LinkPoint));
  }
  ASSIGN_OR_RETURN(const std::string text, world.Broadcast(own, deadline));
  std::memcpy(&measured.sum, text.data(), sizeof(measured.sum));
  const size_t third = (text.size() - sizeof(measured.sum)) / 3;
  const char* from = text.data() + sizeof(measured.sum);
  for (auto* points : {&measured.alone, &measured.beside, &measured.processor}) {
    points->resize(third / sizeof(LinkPoint));
    std::memcpy(points->data(), from, third);
    from += third;
  }
  return measured;
}

absl::Status SetLink(const MeasuredLink& measured, Exchange& exchange) {
  ASSIGN_OR_RETURN(exchange.link, LinkTable::Interpolate(measured.alone));
  ASSIGN_OR_RETURN(exchange.beside, LinkTable::Interpolate(measured.beside));
  ASSIGN_OR_RETURN(exchange.processor, LinkTable::Interpolate(measured.processor));
  exchange.sum = measured.sum;
  return absl::OkStatus();
}

}  // namespace belfry
