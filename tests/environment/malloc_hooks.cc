#include "tests/environment/malloc_hooks.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace belfry {
namespace {

std::atomic<MallocHook> malloc_hook{nullptr};

// Inline, so that the hook finds the caller of malloc two frames above itself.
[[gnu::always_inline]] inline bool Fails() {
  const MallocHook hook = malloc_hook.load(std::memory_order_relaxed);
  return hook != nullptr && hook();
}

void* NoMemory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

void SetMallocHook(MallocHook hook) { malloc_hook.store(hook); }

}  // namespace belfry

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) { return belfry::Fails() ? belfry::NoMemory() : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return belfry::Fails() ? belfry::NoMemory() : __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) {
  return belfry::Fails() ? belfry::NoMemory() : __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return belfry::Fails() ? belfry::NoMemory() : __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  return belfry::Fails() ? belfry::NoMemory() : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = belfry::Fails() ? nullptr : __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
