// Compares the sizes of the top folders with budget.txt.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "tests/main/testing.h"

namespace belfry::layering {
namespace {

namespace fs = std::filesystem;

// A folder that has fewer lines than its budget by more than this should lower it.
constexpr int64_t kSlack = 400;

int64_t LinesOf(const fs::path& folder) {
  constexpr std::array kSources = {".h", ".hpp", ".c", ".cc", ".cu", ".cuh", ".py", ".sh", ".cmake"};
  int64_t lines = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || std::find(kSources.begin(), kSources.end(), extension) == kSources.end()) continue;
    std::ifstream file(entry.path());
    lines += std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  }
  return lines;
}

std::map<std::string, int64_t> Budget() {
  std::map<std::string, int64_t> budget;
  std::ifstream file(fs::path(BELFRY_SOURCE_DIR) / "tests/layering/budget.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string folder;
    int64_t lines = 0;
    if (line[0] != '#' && words >> folder >> lines) budget[folder] = lines;
  }
  return budget;
}

TEST(Budget, EveryTopFolderKeepsItsNumberOfLines) {
  const std::map<std::string, int64_t> budget = Budget();
  for (const char* folder : {"benchmarks", "examples", "framework", "models", "ops", "optim", "tests", "trainers"}) {
    ASSERT_TRUE(budget.contains(folder)) << folder << " has no line in tests/layering/budget.txt";
    const int64_t lines = LinesOf(fs::path(BELFRY_SOURCE_DIR) / folder), allowed = budget.at(folder);
    EXPECT_LE(lines, allowed) << folder << " has grown past its budget. Remove what is no longer needed, or raise the "
                              << "number in tests/layering/budget.txt and say why in the commit message";
    EXPECT_GE(lines, allowed - kSlack) << folder << " has shrunk: lower its number in tests/layering/budget.txt";
  }
}

}  // namespace
}  // namespace belfry::layering
