#include "framework/base/machine/contention.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace belfry {
namespace {

// Daemons of a quiet machine take a core for some ms every now and then, a quarter of one interval, so the mean of the
// last intervals counts, with weights that fall by an eighth from each to the one before. Two limits, since a mean
// about one limit would go to and fro.
constexpr double kWeight = 1.0 / 8, kMuch = 0.2, kLittle = 0.1;
// A thread that was ready for less says nothing.
constexpr int64_t kEnough = 5'000'000;  // ns

}  // namespace

std::optional<ThreadTimes> ReadThreadTimes(pid_t thread) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", static_cast<int>(thread));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[128];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  ThreadTimes times;
  if (std::sscanf(text, "%" SCNd64 " %" SCNd64, &times.running, &times.waiting) != 2) return std::nullopt;
  return times;
}

void Contention::Add(absl::Span<const pid_t> threads) {
  for (const pid_t thread : threads) {
    // A team that grows has its former threads.
    if (std::any_of(threads_.begin(), threads_.end(), [&](const Thread& known) { return known.id == thread; }))
      continue;
    const auto times = ReadThreadTimes(thread);
    if (times.has_value()) threads_.push_back({.id = thread, .start = *times, .last = *times});
  }
}

bool Contention::Look() {
  bool ran = false;
  double largest = -1;
  std::erase_if(threads_, [&](Thread& thread) {
    const auto now = ReadThreadTimes(thread.id);
    if (!now.has_value()) return true;
    ran |= now->running > thread.last.running;
    thread.last = *now;
    const int64_t running = now->running - thread.start.running, waiting = now->waiting - thread.start.waiting;
    if (running + waiting < kEnough) return false;
    thread.start = *now;
    largest = std::max(largest, static_cast<double>(waiting) / static_cast<double>(running + waiting));
    return false;
  });
  if (largest >= 0) Observe(largest);
  return ran;
}

void Contention::Observe(double share) {
  mean_ += kWeight * (share - mean_);
  if (mean_ > kMuch) found_ = true;
  if (mean_ < kLittle) found_ = false;
}

}  // namespace belfry
