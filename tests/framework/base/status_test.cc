#include "framework/base/status.h"

#include <memory>
#include <string>

#include "framework/base/check.h"
#include "framework/base/source_location.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

absl::StatusOr<std::unique_ptr<int>> Positive(int value) {
  if (value <= 0) return absl::InvalidArgumentError("not positive");
  return std::make_unique<int>(value);
}

absl::Status Check(int value, int& evaluations) {
  RETURN_IF_ERROR((++evaluations, Positive(value).status()));
  evaluations += 10;
  return absl::OkStatus();
}

absl::StatusOr<int> Sum(int a, int b) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> x, Positive(a));
  std::unique_ptr<int> y;
  ASSIGN_OR_RETURN(y, Positive(b));
  if (a == b) RETURN_IF_ERROR(absl::AlreadyExistsError("equal"));
  return *x + *y;
}

TEST(StatusMacros, ReturnIfErrorPassesOnErrorsOnly) {
  int evaluations = 0;
  EXPECT_TRUE(Check(1, evaluations).ok());
  EXPECT_EQ(evaluations, 11);
  EXPECT_EQ(Check(0, evaluations), absl::InvalidArgumentError("not positive"));
  EXPECT_EQ(evaluations, 12);
}

TEST(StatusMacros, AssignOrReturnUnwrapsMoveOnlyValues) {
  EXPECT_EQ(Sum(2, 3).value(), 5);
  EXPECT_EQ(Sum(0, 3).status(), absl::InvalidArgumentError("not positive"));
  EXPECT_EQ(Sum(2, 0).status(), absl::InvalidArgumentError("not positive"));
  EXPECT_EQ(Sum(2, 2).status(), absl::AlreadyExistsError("equal"));
}

TEST(Check, PrintsTheConditionAndThePlace) {
  BELFRY_CHECK(1 + 1 == 2);
  EXPECT_DEATH(BELFRY_CHECK(1 + 1 == 3), "CHECK failed: 1 \\+ 1 == 3 at .*status_test\\.cc:[0-9]+");
}

SourceLocation Caller(SourceLocation where = SourceLocation::Current()) { return where; }

TEST(SourceLocation, NamesTheLineOfTheCaller) {
  const int line = __LINE__ + 1;
  const SourceLocation where = Caller();
  EXPECT_EQ(where.line, line);
  EXPECT_EQ(where.ToString(), std::string(__FILE__) + ":" + std::to_string(line));
  EXPECT_TRUE(where.known());
  EXPECT_FALSE(SourceLocation().known());
}

}  // namespace
}  // namespace belfry
