// The headers that programs include: belfry.h has all, and none is installed without its code.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"

namespace belfry::layering {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = BELFRY_SOURCE_DIR;

std::string Text(const std::string& path) {
  std::ifstream file(kRoot / path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void AddIncludes(const std::string& header, std::set<std::string>& all) {
  if (!all.insert(header).second) return;
  const std::string text = Text(header);
  const std::regex include("#include \"([^\"]+)\"");
  for (std::sregex_iterator i(text.begin(), text.end(), include), end; i != end; ++i) {
    if (fs::exists(kRoot / std::string((*i)[1]))) AddIncludes((*i)[1], all);
  }
}

bool IsInternal(const std::string& header) {
  return absl::EndsWith(header, "_impl.h") || absl::StrContains(header, "/cuda/") || absl::StrContains(header, "/mpi/");
}

TEST(PublicHeaders, BelfryHasAll) {
  std::set<std::string> there;
  AddIncludes("trainers/belfry.h", there);
  ASSERT_GT(there.size(), 50u);
  // Parts of others, which a program that trains has no use for.
  const std::set<std::string> exempt = {"framework/data/table/csv_rows.h",
                                        "models/towers/averaging.h",
                                        "models/towers/following.h",
                                        "models/towers/series.h",
                                        "models/towers/tower_builder.h",
                                        "models/towers/tower_updates.h",
                                        "ops/element_code.h",
                                        "ops/only_if.h",
                                        "ops/schedule.h",
                                        "optim/root_scope.h",
                                        "trainers/datasets/cifar10_files.h",
                                        "trainers/datasets/texture_image.h"};
  for (const char* folder : {"framework/data", "framework/data/table", "framework/data/text", "models/layers",
                             "models/networks", "models/onnx", "models/towers", "ops", "optim", "trainers/datasets"}) {
    for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".h") continue;
      const std::string header = absl::StrCat(folder, "/", entry.path().filename().string());
      EXPECT_TRUE(IsInternal(header) || exempt.contains(header) || there.contains(header)) << header;
    }
  }
  // Headers that the user's pages name.
  for (const char* page : {"README.md", "docs/README.md", "docs/towers.md", "docs/training.md", "docs/machines.md",
                           "docs/checkpoints.md", "docs/determinism.md", "docs/limits.md", "docs/scenarios.md"}) {
    const std::string text = Text(page);
    ASSERT_FALSE(text.empty()) << page;
    const std::regex name("[a-z_]+(?:/[a-z_0-9]+)+\\.h");
    for (std::sregex_iterator i(text.begin(), text.end(), name), end; i != end; ++i) {
      const std::string header = i->str();
      EXPECT_TRUE(!fs::exists(kRoot / header) || IsInternal(header) || there.contains(header))
          << page << " names " << header;
    }
  }
}

// Headers in the folder trainers itself belong to the programs, whose code is not in the library.
TEST(PublicHeaders, ThoseOfProgramsAreNotInstalled) {
  const std::set<std::string> kOfLibrary = {"callbacks", "datasets", "ledger", "loop", "prediction", "program"};
  const std::string install = Text("framework/cmake/install.cmake");
  int headers = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "trainers")) {
    const std::string folder = entry.path().parent_path().filename().string(), name = entry.path().filename().string();
    const bool of_library = kOfLibrary.count(folder) > 0 || name == "belfry.h";
    if (entry.path().extension() != ".h" || of_library) continue;
    ++headers;
    const std::string excluded = folder == "trainers" ? name : absl::StrCat("trainers/", folder);
    EXPECT_TRUE(std::regex_search(install, std::regex(absl::StrCat("\"(?:trainers/)?", excluded, "\" EXCLUDE"))) ||
                std::regex_search(install, std::regex(absl::StrCat("\"", excluded, "\"\\s+EXCLUDE"))))
        << entry.path() << " is installed";
  }
  EXPECT_GT(headers, 10);
}

}  // namespace
}  // namespace belfry::layering
