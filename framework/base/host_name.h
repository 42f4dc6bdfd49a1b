// The name of this machine.
#pragma once

#include <string>

namespace belfry {

// As gethostname gives it; "localhost" if that fails.
std::string HostName();

}  // namespace belfry
