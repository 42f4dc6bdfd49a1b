#include "tests/simulation/scheduler.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "framework/base/check.h"

namespace belfry::simulation {
namespace {

// The longest wait of a thread that lost its turn.
constexpr Nanoseconds kLongestWait = 200 * kMicrosecond;
constexpr Nanoseconds kLongestBurial = 3600 * kSecond;

}  // namespace

constinit thread_local Scheduler* Scheduler::current = nullptr;
constinit thread_local uint64_t Scheduler::mutexes = 0;

Scheduler::Scheduler(Stacks& stacks, uint64_t seed, int switch_every, Nanoseconds slack, Nanoseconds laziness)
    : stacks_(stacks), random_(seed), switch_every_(switch_every), slack_(slack), laziness_(laziness) {
  until_switch_ = switch_every == 0 ? std::numeric_limits<int64_t>::max() : random_.Between(1, 2 * switch_every);
}

Scheduler::~Scheduler() = default;

int Scheduler::AddProcess(Nanoseconds at, std::function<void()> main) {
  Process& process = *processes_.emplace_back(std::make_unique<Process>());
  process.number = static_cast<int>(processes_.size()) - 1;
  Thread& thread = NewThread(process, [&process, main = std::move(main)] {
    main();
    process.end = End::kReturned;
    process.ended_at = process.now;
  });
  Schedule(thread, at);
  return process.number;
}

void Scheduler::At(Nanoseconds time, std::function<void()> action) {
  actions_.push({time, ++events_so_far_, std::move(action)});
}

void Scheduler::Run(Nanoseconds limit) {
  limit_ = limit;
  current = this;
  Thread* const first = Next();
  if (first != nullptr) {
    Fiber::Switch(host_, *first->fiber);
    FreeEnded();
  }
  current = nullptr;
}

void Scheduler::Bury() {
  burying_ = true;
  Nanoseconds last = 0;
  for (const auto& process : processes_) {
    for (const Event& event : process->put_off) events_.push(event);
    process->put_off.clear();
    last = std::max(last, process->now);
  }
  Run(std::max(limit_, last) + kLongestBurial);
}

void Scheduler::Crash(int process) {
  if (processes_[process]->end == End::kNone) processes_[process]->crashed = true;
}

void Scheduler::Stop(int process, Nanoseconds until) {
  if (processes_[process]->end == End::kNone) processes_[process]->stopped_until = until;
}

Scheduler::Thread& Scheduler::NewThread(Process& process, std::function<void()> body) {
  Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
  thread.number = static_cast<int>(threads_.size());
  thread.process = &process;
  thread.fiber = std::make_unique<Fiber>(stacks_.Take(), [this, &thread, body = std::move(body)] {
    FreeEnded();
    body();
    EndThread(thread);
    Leave();
  });
  return thread;
}

void Scheduler::EndThread(Thread& thread) {
  thread.done = true;
  Wake(&thread, /*all=*/true);
}

void Scheduler::FreeEnded() {
  if (ended_ == nullptr) return;
  stacks_.Return(ended_->fiber->TakeStack());
  ended_->fiber.reset();
  ended_ = nullptr;
}

void Scheduler::Schedule(Thread& thread, Nanoseconds time) {
  thread.due = ++events_so_far_;
  events_.push({time, thread.due, &thread});
}

Scheduler::Thread* Scheduler::Next() {
  while (!events_.empty()) {
    const Event event = events_.top();
    if (event.time > limit_) return nullptr;
    if (!actions_.empty() && actions_.top().time <= event.time) {
      const std::function<void()> act = actions_.top().act;
      actions_.pop();
      act();
      continue;
    }
    events_.pop();
    Thread& thread = *event.thread;
    if (thread.due != event.number) continue;
    Process& process = *thread.process;
    if (!burying_) {
      if (process.crashed || process.end != End::kNone || process.stopped_until == kNever) {
        process.put_off.push_back(event);
        continue;
      }
      if (process.stopped_until > event.time) {
        events_.push({process.stopped_until, event.number, &thread});
        continue;
      }
    }
    thread.due = 0;
    process.now = std::max(process.now, event.time);
    running_ = &thread;
    return &thread;
  }
  return nullptr;
}

void Scheduler::Leave() {
  Thread* const self = running_;
  Thread* const next = Next();
  if (next == self) return;
  ++switches_;
  if (self->done) ended_ = self;
  Fiber::Switch(*self->fiber, next == nullptr ? host_ : *next->fiber);
  FreeEnded();
}

void Scheduler::Block(const void* object, Nanoseconds until) {
  Thread& self = *running_;
  if (until != kNever) Schedule(self, until);
  self.waits = object;
  waiting_[object].push_back(&self);
  Leave();
  if (self.waits == nullptr) return;
  // The time came first.
  self.waits = nullptr;
  std::deque<Thread*>& others = waiting_[object];
  others.erase(std::find(others.begin(), others.end(), &self));
  if (others.empty()) waiting_.erase(object);
}

void Scheduler::Wake(const void* object, bool all) {
  const auto found = waiting_.find(object);
  if (found == waiting_.end()) return;
  do {
    Thread& thread = *found->second.front();
    found->second.pop_front();
    thread.waits = nullptr;
    Schedule(thread, now());
  } while (all && !found->second.empty());
  if (found->second.empty()) waiting_.erase(found);
}

void Scheduler::SleepUntil(Nanoseconds time) {
  Schedule(*running_, time);
  Leave();
}

void Scheduler::Sleep(Nanoseconds time) {
  Thread& self = *running_;
  self.earliest = now() + time + slack_;
  if (laziness_ == 0) return SleepUntil(self.earliest);
  const Nanoseconds news = self.process->took_in ? 0 : self.process->arrival;
  self.latest = std::min(self.earliest + laziness_, std::max(self.earliest, news));
  self.process->took_in = false;
  std::vector<Thread*>& sleepers = self.process->sleepers;
  sleepers.push_back(&self);
  SleepUntil(self.latest);
  std::erase(sleepers, &self);
}

void Scheduler::SetArrival(int process, Nanoseconds arrival) {
  Process& of = *processes_[process];
  of.took_in |= arrival > of.arrival;
  of.arrival = arrival;
  for (Thread* const thread : of.sleepers) {
    const Nanoseconds end = std::max(thread->earliest, arrival);
    if (end >= thread->latest) continue;
    thread->latest = end;
    Schedule(*thread, end);
  }
}

void Scheduler::GiveTurn() {
  until_switch_ = random_.Between(1, 2 * switch_every_);
  SleepUntil(now() + random_.Below(kLongestWait));
}

int Scheduler::Create(pthread_t* id, void* (*start)(void*), void* argument) {
  Thread& thread = NewThread(*running_->process, [start, argument] { start(argument); });
  *id = static_cast<pthread_t>(thread.number);
  Schedule(thread, now());
  return 0;
}

int Scheduler::Join(pthread_t id) {
  const Thread& thread = *threads_[id - 1];
  while (!thread.done) Block(&thread, kNever);
  return 0;
}

// Only those words of a mutex are used that the C library uses for the same purposes, so a mutex may be locked in turn
// inside and outside of a run. __lock is 0 when free, 2 if threads wait.
int Scheduler::Lock(pthread_mutex_t& mutex) {
  if (--until_switch_ == 0) GiveTurn();
  auto& data = mutex.__data;
  if (data.__lock != 0 && data.__kind == PTHREAD_MUTEX_RECURSIVE_NP && data.__owner == running_->number) {
    ++data.__count;
    return 0;
  }
  // The order is recorded before the wait, so that one that leads to a deadlock is known.
  if (!running_->held.empty()) lock_order_.Add(running_->held, NumberOf(mutex));
  while (data.__lock != 0) {
    data.__lock = 2;
    ++lock_waiters_;
    Block(&mutex, kNever);
    --lock_waiters_;
  }
  Hold(mutex);
  return 0;
}

void Scheduler::Hold(pthread_mutex_t& mutex) {
  auto& data = mutex.__data;
  data.__lock = 1;
  data.__owner = running_->number;
  if (lock_waiters_ > 0 && waiting_.contains(&mutex)) data.__lock = 2;
  running_->held.push_back(NumberOf(mutex));
}

// The number is in a word that the C library uses for robust mutexes only, and that a new mutex in the same place has
// set to 0.
uint64_t Scheduler::NumberOf(pthread_mutex_t& mutex) {
  auto& word = mutex.__data.__list.__next;
  if (word == nullptr) word = reinterpret_cast<__pthread_internal_list*>(++mutexes);
  return reinterpret_cast<uint64_t>(word);
}

// It does not wait, so it adds nothing to the order.
int Scheduler::TryLock(pthread_mutex_t& mutex) {
  if (mutex.__data.__lock == 0) {
    Hold(mutex);
    return 0;
  }
  const bool recursive = mutex.__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP;
  return recursive && mutex.__data.__owner == running_->number ? Lock(mutex) : EBUSY;
}

int Scheduler::Unlock(pthread_mutex_t& mutex) {
  auto& data = mutex.__data;
  if (data.__count > 0) {
    --data.__count;
    return 0;
  }
  // Mostly the last one.
  std::vector<uint64_t>& held = running_->held;
  const auto found = std::find(held.rbegin(), held.rend(), NumberOf(mutex));
  if (found != held.rend()) held.erase(std::next(found).base());
  data.__owner = 0;
  if (std::exchange(data.__lock, 0) == 2) Wake(&mutex, /*all=*/false);
  return 0;
}

int Scheduler::Wait(const pthread_cond_t& condition, pthread_mutex_t& mutex, Nanoseconds until) {
  Unlock(mutex);
  const Nanoseconds begin = now();
  Block(&condition, std::max(until, begin));
  const bool late = now() >= until;
  Lock(mutex);
  return late ? ETIMEDOUT : 0;
}

void Scheduler::Notify(const void* object, bool all) { Wake(object, all); }

int Scheduler::WaitForChange(const uint32_t& word, uint32_t value, Nanoseconds until) {
  if (word != value) return EAGAIN;
  const Nanoseconds begin = now();
  Block(&word, std::max(until, begin));
  return now() >= until ? ETIMEDOUT : 0;
}

void Scheduler::Exit() {
  running_->process->end = End::kReturned;
  running_->process->ended_at = now();
  EndThread(*running_);
  Leave();
  std::abort();
}

}  // namespace belfry::simulation
