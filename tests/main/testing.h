// What most tests include: GoogleTest with its matchers, the values of StatusOr, and the seed of the run.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
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

}  // namespace belfry
