// A module that was linked with a library in a folder where the loader does not look.
#include <cstring>

extern "C" int belfry_stub_number();

extern "C" const void* belfry_needs_stub_module(const char* part) {
  static const int number = belfry_stub_number();
  if (std::strcmp(part, "version") == 0) return BELFRY_BUILD;
  return std::strcmp(part, "number") == 0 ? &number : nullptr;
}
