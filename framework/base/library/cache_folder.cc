#include "framework/base/library/cache_folder.h"

#include <cstdlib>
#include <filesystem>

namespace belfry {

std::string CacheFolder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (!variable("BELFRY_CACHE_DIR").empty()) return variable("BELFRY_CACHE_DIR").string();
  if (!variable("XDG_CACHE_HOME").empty()) return (variable("XDG_CACHE_HOME") / "belfry").string();
  return variable("HOME").empty() ? "" : (variable("HOME") / ".cache" / "belfry").string();
}

}  // namespace belfry
