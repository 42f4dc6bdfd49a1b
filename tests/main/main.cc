// The main function of every test program: GoogleTest's, and besides
// - prints the seed of the run (seed.h), at the start for a test that crashes, and after each test that fails;
// - runs death tests in a process of their own;
// - gives the process a folder of its own for testing::TempDir(), and removes it with whatever tests leave there;
// - ends with the number of skipped tests for each reason, which `./dev test` collects;
// - exits with status 77, which CTest counts as skipped, when no test failed and none passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "tests/main/seed.h"

namespace belfry {
namespace {

constexpr int kNothingTested = 77;

class Reporter : public testing::EmptyTestEventListener {
 public:
  // Ends with the lines "Skipped COUNT: REASON".
  void OnTestProgramEnd(const testing::UnitTest&) override {
    for (const auto& [reason, count] : skipped_) std::printf("Skipped %d: %s\n", count, reason.c_str());
  }

  void OnTestIterationStart(const testing::UnitTest&, int) override {
    DrawTestSeed();
    PrintSeed();
  }
  void OnTestStart(const testing::TestInfo&) override { RestartTestRandom(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.skipped()) return;
    const std::string message = result.message();
    ++skipped_[message.substr(0, message.find('\n'))];
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed()) PrintSeed();
  }

 private:
  static void PrintSeed() {
    std::printf("BELFRY_TEST_SEED=%u\n", TestSeed());
    std::fflush(stdout);
  }

  std::map<std::string, int> skipped_;
};

// Inherited by death tests, which a signal may end before they could remove one of theirs.
constexpr char kFolderVariable[] = "BELFRY_TEST_FOLDER";

class OwnFolder {
 public:
  OwnFolder() {
    if (std::getenv(kFolderVariable) != nullptr) return;
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "belfry_tests_XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) return;  // tests then share the system's
    path_ = path;
    owner_ = getpid();
    setenv(kFolderVariable, path.c_str(), 1);
    setenv("TEST_TMPDIR", (path + "/").c_str(), 1);
  }
  ~OwnFolder() {
    std::error_code error;
    if (owner_ == getpid()) std::filesystem::remove_all(path_, error);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

 private:
  std::filesystem::path path_;
  pid_t owner_ = -1;
};

int Run() {
  testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  tests.listeners().Append(new Reporter);  // which takes it over
  const int status = RUN_ALL_TESTS();
  if (status != 0 || tests.successful_test_count() > 0 || testing::GTEST_FLAG(list_tests)) return status;
  if (tests.total_test_count() == 0) {
    std::printf("The program has no tests.\n");
    return 1;
  }
  std::printf("Nothing was tested: tests %d, skipped %d.\n", tests.test_to_run_count(), tests.skipped_test_count());
  return kNothingTested;
}

}  // namespace
}  // namespace belfry

int main(int argc, char** argv) {
  // Earlier cases of the process may have started threads, which a plain fork does not survive.
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  testing::InitGoogleMock(&argc, argv);
  const belfry::OwnFolder folder;
  return belfry::Run();
}
