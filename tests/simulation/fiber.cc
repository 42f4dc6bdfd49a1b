#include "tests/simulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "framework/base/check.h"

namespace belfry::simulation {
namespace {

// Sessions compile plans on them. Pages that are not touched take no memory.
constexpr size_t kStack = size_t{512} << 10, kGuard = size_t{4} << 10;

}  // namespace

Stack::Stack()
    : memory_(mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  BELFRY_CHECK(memory_ != MAP_FAILED);
  BELFRY_CHECK(mprotect(memory_, kGuard, PROT_NONE) == 0);
}

Stack::~Stack() {
  if (memory_ != nullptr) munmap(memory_, kStack);
}

void* Stack::begin() const { return static_cast<char*>(memory_) + kGuard; }

size_t Stack::size() { return kStack - kGuard; }

Stack Stacks::Take() {
  if (free_.empty()) return {};
  Stack stack = std::move(free_.back());
  free_.pop_back();
  return stack;
}

Fiber::Fiber(Stack stack, std::function<void()> body)
    : stack_(std::make_unique<Stack>(std::move(stack))),
      body_(std::move(body)),
      began_(false),
      start_(std::make_unique<ucontext_t>()) {
  BELFRY_CHECK(getcontext(start_.get()) == 0);
  start_->uc_stack.ss_sp = stack_->begin();
  start_->uc_stack.ss_size = Stack::size();
  start_->uc_link = nullptr;
  // makecontext hands over ints only.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(start_.get(), reinterpret_cast<void (*)()>(&Fiber::Begin), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

void Fiber::Begin(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low)->body_();
  std::abort();
}

void Fiber::Switch(Fiber& from, Fiber& to) {
  if (_setjmp(from.registers_) != 0) return;
  if (std::exchange(to.began_, true)) _longjmp(to.registers_, 1);
  setcontext(to.start_.get());
}

}  // namespace belfry::simulation
