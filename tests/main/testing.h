// Common helpers of tests: GoogleTest with matchers, values of StatusOr, temporary folders, the seed of the run.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "tests/main/seed.h"

// ASSERT_OK_AND_ASSIGN(auto value, MakeStatusOr()): unwraps the value. Without one the test fails with the status, and
// the enclosing function returns.
#define ASSERT_OK_AND_ASSIGN(declaration, ...) \
  BELFRY_ASSERT_OK_AND_ASSIGN(BELFRY_CONCAT(belfry_status_or_, __LINE__), declaration, __VA_ARGS__)
#define BELFRY_ASSERT_OK_AND_ASSIGN(status_or, declaration, ...) \
  auto status_or = (__VA_ARGS__);                                \
  ASSERT_TRUE(status_or.ok()) << status_or.status();             \
  declaration = *std::move(status_or)

// ASSIGN_OR_SKIP(declaration, MakeStatusOr()): likewise, and the test is skipped for the reason that the error gives.
#define ASSIGN_OR_SKIP(declaration, ...) \
  BELFRY_ASSIGN_OR_SKIP(BELFRY_CONCAT(belfry_status_or_, __LINE__), declaration, __VA_ARGS__)
#define BELFRY_ASSIGN_OR_SKIP(status_or, declaration, ...)           \
  auto status_or = (__VA_ARGS__);                                    \
  if (!status_or.ok()) GTEST_SKIP() << status_or.status().message(); \
  declaration = *std::move(status_or)

// Prints absl::string_view as text. GoogleTest prints it letter by letter where it is not std::string_view.
namespace absl {
inline void PrintTo(string_view text, std::ostream* out) { *out << '"' << text << '"'; }
}  // namespace absl

namespace belfry {

// The value. Without one the test fails with the status, and goes on with a default-constructed value if the type has
// one.
template <class T>
T ValueOf(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  if constexpr (std::is_default_constructible_v<T>) {
    if (!value.ok()) return T();
  }
  return std::move(value).value();
}

// A status of this code, whose message matches.
MATCHER_P2(StatusIs, code, message, "") {
  const absl::Status& status = arg;
  *result_listener << "which is " << status;
  return status.code() == code && testing::Matches(message)(std::string(status.message()));
}

// A folder that exists as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = testing::TempDir() + "belfry_XXXXXX";
    path_ = mkdtemp(path.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  void Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

inline std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace belfry
