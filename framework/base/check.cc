#include "framework/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace belfry {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "CHECK failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace belfry
