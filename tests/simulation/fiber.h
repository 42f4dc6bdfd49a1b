// Fibers: functions with stacks of their own that take turns on one thread.
#pragma once

#include <ucontext.h>
#include <csetjmp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace belfry::simulation {

// The memory of a fiber's stack, above a page that may not be touched.
class Stack {
 public:
  Stack();
  ~Stack();
  Stack(Stack&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Stack& operator=(Stack&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }

  void* begin() const;
  static size_t size();

 private:
  void* memory_;
};

// Stacks that are used again and again, since the system takes longer to give one than a short run takes.
class Stacks {
 public:
  Stack Take();
  void Return(Stack stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<Stack> free_;
};

// A place where a thread or a fiber goes on. Switching costs some nanoseconds: ucontext(3) begins a fiber, but is not
// used to switch, since it calls the system to save the signal mask.
class Fiber {
 public:
  // The thread that calls it.
  Fiber() = default;
  // A fiber that runs `body` once something switches to it. `body` must not return; the fiber ends by switching for the
  // last time.
  Fiber(Stack stack, std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, which calls it, and goes on at `to`; returns when something switches to `from`.
  static void Switch(Fiber& from, Fiber& to);
  // REQUIRES: the fiber never runs again.
  Stack TakeStack() { return std::move(*stack_); }

 private:
  static void Begin(unsigned high, unsigned low);

  std::unique_ptr<Stack> stack_;  // null: that of a thread
  std::function<void()> body_;
  bool began_ = true;
  std::unique_ptr<ucontext_t> start_;
  std::jmp_buf registers_;
};

}  // namespace belfry::simulation
