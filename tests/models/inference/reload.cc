// reload LIBRARY MODEL: loads the library, opens the model, closes it and unloads the library again and again, and
// fails if memory stays in use.
#include <dlfcn.h>
#include <malloc.h>

#include <cstdio>

int main(int, char** arguments) {
  constexpr int kFirst = 5, kTimes = 40;
  constexpr size_t kBytes = 16 << 10;  // of the loader and the C library, each time
  size_t before = 0;
  for (int i = 0; i < kFirst + kTimes; ++i) {
    if (i == kFirst) before = mallinfo2().uordblks;
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    const auto open = reinterpret_cast<void* (*)(const char*, int, char**)>(dlsym(library, "belfry_model_open"));
    const auto close = reinterpret_cast<void (*)(void*)>(dlsym(library, "belfry_model_close"));
    void* const model = open(arguments[2], 1, nullptr);
    if (model == nullptr) return std::fprintf(stderr, "%s does not open\n", arguments[2]), 1;
    close(model);
    dlclose(library);
  }
  const size_t after = mallinfo2().uordblks, grown = after > before ? after - before : 0;
  std::printf("%zu bytes more after %d times\n", grown, kTimes);
  return grown < kTimes * kBytes ? 0 : 1;
}
