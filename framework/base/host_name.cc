#include "framework/base/host_name.h"

#include <unistd.h>

namespace belfry {

std::string HostName() {
  char name[256];
  if (gethostname(name, sizeof(name)) != 0) return "localhost";
  name[sizeof(name) - 1] = '\0';
  return name;
}

}  // namespace belfry
