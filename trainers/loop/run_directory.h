// The directory of a run.
#pragma once

#include <filesystem>
#include <string>

namespace belfry::trainers {

// The folder of checkpoints in the directory of a run.
inline std::string CheckpointFolder(const std::string& directory) {
  return (std::filesystem::path(directory) / "checkpoints").string();
}

}  // namespace belfry::trainers
