// Helpers shared by the tests of files.
#pragma once

#include <random>
#include <string>

#include "absl/status/status.h"
#include "tests/main/testing.h"

namespace belfry {

// A random generator whose seed is new in each run and is printed if the test fails.
class FreshRandom {
 public:
  uint64_t seed() const { return seed_; }
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  double Uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  std::string Bytes(size_t n) {
    std::string bytes(n, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Between(0, 255));
    return bytes;
  }

 private:
  const uint64_t seed_ = TestRandom()();
  std::mt19937_64 engine_{seed_};
};

// Checks that the status has this code and that its message contains each of `parts`.
template <class... Parts>
void ExpectError(const absl::Status& status, absl::StatusCode code, const Parts&... parts) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : {std::string(parts)...}) {
    EXPECT_THAT(status.message(), testing::HasSubstr(part));
  }
}

}  // namespace belfry
