// Compiled kernels on disk.
#pragma once

#include <filesystem>
#include <string>

#include "absl/strings/string_view.h"

namespace belfry {

// The machine code of `source` for capability major.minor in a cache folder, in a file named by a hash of these, of the
// compiler's options and of what stands before every source. The compiler's version is not part of the name: one
// machine may compile for another. Thread-safe; several processes may use the same file.
class CubinFile {
 public:
  // An empty folder keeps nothing. The folder need not exist.
  CubinFile(const std::string& folder, absl::string_view source, int major, int minor);
  // Empty if there is none, or not a whole one.
  std::string Read() const;
  // False if it cannot be written, in which case nothing is left behind.
  bool Write(const std::string& cubin) const;

 private:
  std::filesystem::path path_;  // empty: nothing is kept
};

}  // namespace belfry
