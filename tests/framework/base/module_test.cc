#include "framework/base/module.h"

#include <cstring>

#include "framework/base/version.h"
#include "tests/main/testing.h"

// Modules that this program defines itself: one that works, and one of another version.
extern "C" const void* belfry_sound_module(const char* part) {
  static constexpr int kTable = 7;
  if (std::strcmp(part, "version") == 0) return belfry::kBuild;
  return std::strcmp(part, "numbers") == 0 ? &kTable : nullptr;
}
extern "C" const void* belfry_outdated_module(const char* part) {
  return std::strcmp(part, "version") == 0 ? "0.0.1" : nullptr;
}

namespace belfry {
namespace {

using testing::HasSubstr;

TEST(Module, GivesTheTablesThatItHas) {
  ASSERT_OK_AND_ASSIGN(const Module module, Module::Load("sound"));
  const int* const table = module.Find<int>("numbers");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(*table, 7);
  EXPECT_EQ(module.Find<int>("letters"), nullptr);
}

TEST(Module, OfAnotherVersionIsRefused) {
  EXPECT_THAT(Module::Load("outdated").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was built for Belfry 0.0.1, but this is")));
}

TEST(Module, ThatIsNotThereSaysWhereItWasLookedFor) {
  EXPECT_THAT(Module::Load("no_such").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("libbelfry_no_such.so")));
}

}  // namespace
}  // namespace belfry
