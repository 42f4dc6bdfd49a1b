// Short summary of a folder of benchmark results, from the JSON files in it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "nlohmann/json.hpp"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const fs::path folder = argc > 1 ? argv[1] : "build/bench";
  std::error_code error;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (error || paths.empty()) {
    std::fprintf(stderr, "Error: no benchmark has written a JSON file to %s\n", folder.c_str());
    return EXIT_FAILURE;
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    std::ifstream file(path);
    const auto report = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!report.is_object() || !report.contains("summary")) {
      std::fprintf(stderr, "Error: %s is not a benchmark report\n", path.c_str());
      return EXIT_FAILURE;
    }
    std::printf("%s (%s, %s)\n", path.stem().c_str(), report.value("date", "no date").c_str(),
                report.value("machine", "no machine").c_str());
    for (const auto& line : report["summary"]) {
      if (line.is_string()) std::printf("  %s\n", line.get_ref<const std::string&>().c_str());
    }
  }
}
