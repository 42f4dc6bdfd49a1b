// The folder of results that are slow to recompute: measured choices and compiled kernels.
#pragma once

#include <string>

namespace belfry {

// The folder BELFRY_CACHE_DIR, else XDG_CACHE_HOME/belfry, else HOME/.cache/belfry; empty if none of them is set. It
// may not exist.
std::string CacheFolder();

}  // namespace belfry
