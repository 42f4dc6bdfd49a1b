// Helpers shared by fuzz targets. A target defines LLVMFuzzerTestOneInput (LLVM's libFuzzer): it passes arbitrary bytes
// to a parser and, through BELFRY_CHECK, ends the process if an invariant does not hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace belfry::fuzz {

// Takes values off the front of an input. Past its end, values are 0.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return left_.empty(); }
  uint8_t Byte() {
    if (left_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(left_[0]);
    left_.remove_prefix(1);
    return byte;
  }
  // At most `count` bytes.
  absl::string_view Bytes(size_t count) {
    const absl::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(bytes.size());
    return bytes;
  }
  absl::string_view Rest() { return Bytes(left_.size()); }

 private:
  absl::string_view left_;
};

// An empty folder for this process, in memory if the system has /dev/shm; removed with the object.
class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const bool in_memory = std::filesystem::is_directory(memory, error);
    std::string path = ((in_memory ? memory : std::filesystem::temp_directory_path()) / "belfry_fuzz_XXXXXX").string();
    BELFRY_CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return path_.string(); }
  std::string operator/(absl::string_view name) const { return (path_ / std::string(name)).string(); }
  void Write(absl::string_view name, absl::string_view bytes) const {
    std::ofstream file(*this / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    BELFRY_CHECK(file.good());
  }

 private:
  std::filesystem::path path_;
};

}  // namespace belfry::fuzz
