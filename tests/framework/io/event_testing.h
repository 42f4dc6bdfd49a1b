// What the tests of event files share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "absl/strings/escaping.h"

namespace belfry::io {

// A folder that is there as long as this.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = testing::TempDir() + "belfry_io_XXXXXX";
    path_ = mkdtemp(path.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// A generator with a seed that is new in each run and is shown when the test fails.
class FreshRandom {
 public:
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  double Uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  std::string Bytes(size_t n) {
    std::string bytes(n, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Between(0, 255));
    return bytes;
  }

 private:
  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 engine_{seed_};
  testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

inline std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline std::string FromHex(const std::string& hex) { return absl::HexStringToBytes(hex); }

// One event of each kind as TensorBoard's own classes serialise them.
inline constexpr char kVersionHex[] = "09000000000000f83f1a0d627261696e2e4576656e743a32";
inline constexpr char kSummaryHex[] =
    "09000000000000f83f10072a84010a080a016115000020400a660a01682a6109000000000000f0bf1100000000000008401900000000000010"
    "4"
    "0210000000000001440290000000000002e40321800000000000000c0000000000000f03f00000000000010403a18000000000000000000000"
    "0"
    "000000f03f00000000000008400a100a0169220b0802100518032203706e67";
inline constexpr char kStartHex[] = "10093a020801";
inline constexpr char kGraphHex[] = "22026764";
inline constexpr char kTensorValueHex[] = "2a0d0a0b0a016142062a040000803f";

}  // namespace belfry::io
