// Processes and their threads in virtual time, as fibers of one thread.
//
// While a scheduler runs, the functions of the C library by which the code under test starts threads, waits and reads
// the clock are those of interpose.cc, which come here: what is simulated is the production code as it was built,
// without a line for simulation in it. (The simulators madsim and Shadow interpose on the C library in the same way.)
//
// One fiber runs at a time, and leaves the processor only where it waits, so a run depends on nothing but its seed.
// Time passes where something waits, and a little at each call of MPI and look at a clock, since some loops end by the
// clock alone. Each process has a clock of its own, ahead of that of the others by what its running thread has done
// since it last waited: processes compute side by side, and the threads of one share a core.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tests/simulation/fiber.h"
#include "tests/simulation/lock_order.h"
#include "tests/simulation/random.h"

namespace belfry::simulation {

// Virtual time since the beginning of a run.
using Nanoseconds = int64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
inline constexpr Nanoseconds kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;

// The end of a process.
enum class End {
  kNone,     // it still waits: it hangs, is stopped, or has crashed
  kReturned  // its main function returned, or it called _exit
};

class Scheduler {
 public:
  // `switch_every`: the mean number of locked mutexes after which a thread loses its turn; 0: never. `slack`: by so
  // much a sleep is longer than asked for. `laziness`: by so much it may be longer still, if no message arrives in its
  // process: polls that would find nothing take most of the time of a thousand ranks. Borrows `stacks`.
  Scheduler(Stacks& stacks, uint64_t seed, int switch_every, Nanoseconds slack = 0, Nanoseconds laziness = 0);
  ~Scheduler();

  // A process that calls `main` at that time. Returns its number, from 0.
  int AddProcess(Nanoseconds at, std::function<void()> main);
  // Calls `action` at that time; it may call the functions below.
  void At(Nanoseconds time, std::function<void()> action);
  // Runs the processes until all have ended, or wait for nothing that comes before `limit`.
  void Run(Nanoseconds limit);
  // Lets processes that have not ended go on, each as fast as it can, so that they free what they own. MPI's calls fail
  // in them (doomed).
  void Bury();

  // No thread of the process runs any more.
  void Crash(int process);
  // None runs until then; kNever: for good.
  void Stop(int process, Nanoseconds until);
  End end(int process) const { return processes_[process]->end; }
  Nanoseconds ended_at(int process) const { return processes_[process]->ended_at; }
  bool crashed(int process) const { return processes_[process]->crashed; }
  // The time until which it is stopped; 0: never was.
  Nanoseconds stopped_until(int process) const { return processes_[process]->stopped_until; }
  // The arrival of the first message that the process has not taken in; kNever: none.
  Nanoseconds arrival(int process) const { return processes_[process]->arrival; }
  void SetArrival(int process, Nanoseconds arrival);
  bool doomed() const { return burying_; }
  int64_t switches() const { return switches_; }
  const LockOrder& lock_order() const { return lock_order_; }

  // These are for running threads. `Current` is null outside of Run and Bury.
  static Scheduler* Current() { return current; }
  int process() const { return running_->process->number; }
  Nanoseconds now() const { return running_->process->now; }
  void Spend(Nanoseconds time) { running_->process->now += time; }
  void Compute(Nanoseconds time) { SleepUntil(now() + time); }
  void Sleep(Nanoseconds time);

  // The functions of pthreads(7), with their results.
  int Create(pthread_t* id, void* (*start)(void*), void* argument);
  int Join(pthread_t id);
  int Lock(pthread_mutex_t& mutex);
  int TryLock(pthread_mutex_t& mutex);
  int Unlock(pthread_mutex_t& mutex);
  int Wait(const pthread_cond_t& condition, pthread_mutex_t& mutex, Nanoseconds until);
  // Wakes threads that wait for a condition, or for a word to change.
  void Notify(const void* object, bool all);
  // FUTEX_WAIT of futex(2): waits for Notify, unless the word has another value already. Returns 0 or an errno.
  int WaitForChange(const uint32_t& word, uint32_t value, Nanoseconds until);
  // Ends the running process.
  [[noreturn]] void Exit();

 private:
  struct Process;
  struct Thread {
    int number = 0;
    Process* process = nullptr;
    std::unique_ptr<Fiber> fiber;
    uint64_t due = 0;             // the number of the event that wakes it; 0: none
    const void* waits = nullptr;  // the mutex, condition or thread that it waits for
    bool done = false;
    Nanoseconds earliest = 0, latest = 0;  // the end of its sleep
    std::vector<uint64_t> held{};          // mutexes
  };
  struct Event {
    Nanoseconds time;
    uint64_t number;
    Thread* thread;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : number > other.number; }
  };
  struct Process {
    int number = 0;
    Nanoseconds now = 0, ended_at = kNever, stopped_until = 0, arrival = kNever;
    bool crashed = false;
    bool took_in = false;  // a message since a thread went to sleep
    End end = End::kNone;
    std::vector<Event> put_off{};     // events that came while it was stopped for good or had crashed
    std::vector<Thread*> sleepers{};  // threads that a message wakes
  };
  struct Action {
    Nanoseconds time;
    uint64_t number;
    std::function<void()> act;
    bool operator>(const Action& other) const { return time != other.time ? time > other.time : number > other.number; }
  };

  Thread& NewThread(Process& process, std::function<void()> body);
  void Schedule(Thread& thread, Nanoseconds time);
  // Wakes threads that wait for `object`.
  void Wake(const void* object, bool all);
  // Takes a mutex that is free.
  void Hold(pthread_mutex_t& mutex);
  static uint64_t NumberOf(pthread_mutex_t& mutex);
  // Waits until the running thread is woken for `object` or at the time.
  void Block(const void* object, Nanoseconds until);
  void SleepUntil(Nanoseconds time);
  void Leave();
  // The thread that runs next; null if there is none before the limit.
  Thread* Next();
  void EndThread(Thread& thread);
  // Frees the stack of the thread that ran before, if it has ended.
  void FreeEnded();
  // Lets others run in the middle of what the running thread does.
  void GiveTurn();

  static constinit thread_local Scheduler* current;
  static constinit thread_local uint64_t mutexes;  // the number of mutexes that have a number, in all runs

  Stacks& stacks_;
  Random random_;
  const int switch_every_;
  const Nanoseconds slack_, laziness_;
  int64_t until_switch_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::priority_queue<Action, std::vector<Action>, std::greater<>> actions_;
  std::unordered_map<const void*, std::deque<Thread*>> waiting_;  // never iterated: its order is that of addresses
  int lock_waiters_ = 0;                                          // threads that wait for a mutex
  uint64_t events_so_far_ = 0;
  int64_t switches_ = 0;
  LockOrder lock_order_;
  Nanoseconds limit_ = 0;
  bool burying_ = false;
  Thread* running_ = nullptr;
  Thread* ended_ = nullptr;  // its stack is free once another one runs
  Fiber host_;
};

}  // namespace belfry::simulation
