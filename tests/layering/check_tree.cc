#include "tests/layering/check_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/layering/comments.h"
#include "tests/layering/literals.h"
#include "tests/layering/sizes.h"

namespace belfry::layering {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLines = 500, kMaxSources = 35, kMaxFunctionLines = 60, kMaxMembers = 25;

// From bottom to top: a file may include files of its own folder and of those listed before it. In ops, "ops" are the
// headers for users, which lie in the folder itself, "ops/families" all folders that are not listed, and "ops/lists"
// the lists of all ops (kOpLists). Towers are made of any model, so they know no network; a network is a function of
// one tower's batch.
constexpr absl::string_view kLayers[] = {
    "framework/base",
    "framework/device",
    "framework/io",
    "framework/graph",
    "framework/data",
    "framework/collective",
    "framework/compiler",
    "framework/runtime",
    "ops",
    "ops/simd",
    "ops/common",
    "ops/onednn",
    "ops/winograd",
    "ops/gpu",
    "ops/cublas",
    "ops/cudnn",
    "ops/families",
    "ops/lists",
    "models/inference",
    "models/onnx",
    "optim",
    "models/layers",
    "models/towers",
    "models/networks",
    "models",
    "trainers/datasets",
    "trainers/prediction",
    "trainers/callbacks",
    "trainers/loop",
    "trainers/ledger",
    "trainers/program",
    "trainers/flags",
    "trainers/audit",
    "trainers",
    "examples",
    "benchmarks",
    "tests",
};

constexpr absl::string_view kOpLists[] = {"ops/builtin_ops.", "ops/module/", "ops/CMakeLists.txt"};

// The families that a family of ops may include. A family's rows come before those that let others include it, so that
// no two lean on each other.
struct FamilyInclude {
  absl::string_view from, to, why;
};
constexpr FamilyInclude kFamilyIncludes[] = {
    {"resize", "copy", "extents as inputs"},
    {"random", "copy", "extents as inputs"},
    {"convolution", "copy", "extents as inputs"},
    {"index", "copy", "Gather and OneHot move bytes of any dtype, and take extents"},
    {"elementwise", "copy", "Select moves bytes of any dtype"},
    {"training", "index", "rows of sparse gradients are sorted as those of Gather's"},
    {"state", "elementwise", "updates of variables by Add and Sub"},
    {"reduction", "elementwise", "the functors that reductions join elements with, and definitions of unary ops"},
    {"product", "elementwise", "batches broadcast; integers wrap around as in Mul"},
    {"losses", "elementwise", "a loss is an element-wise op before it is summed"},
    {"activation", "elementwise", "an activation is an element-wise op"},
    {"convolution", "reduction", "sums over columns"},
    {"normalisation", "reduction", "sums over columns"},
    {"losses", "reduction", "a loss is a sum"},
    {"activation", "reduction", "the bias gradient is a sum over columns"},
    {"losses", "activation", "the functors of cross entropies, which share theirs with softplus"},
    {"pooling", "activation", "the ReLU's gradient under a pool"},
    {"normalisation", "activation", "the ReLU in the same kernel, and its gradient"},
    {"product", "activation", "epilogues"},
    {"convolution", "activation", "epilogues: bias and activation in the same kernel; and gradients of both"},
    {"convolution", "product", "a convolution with a filter of 1 x 1 is a product of matrices"},
    {"recurrent", "product", "cells multiply matrices by the kernels of MatMul on GPUs"},
    {"recurrent", "copy", "ReverseSequence moves bytes of any dtype"},
};
constexpr bool HasCircle() {
  for (size_t i = 0; i < std::size(kFamilyIncludes); ++i) {
    for (size_t k = i; k < std::size(kFamilyIncludes); ++k) {
      if (kFamilyIncludes[k].from == kFamilyIncludes[i].to) return true;
    }
  }
  return false;
}
static_assert(!HasCircle(), "a family's rows come before those that let others include it");

bool MayInclude(absl::string_view from, absl::string_view to) {
  return from == to || std::any_of(std::begin(kFamilyIncludes), std::end(kFamilyIncludes),
                                   [&](const FamilyInclude& row) { return row.from == from && row.to == to; });
}

// "convolution" of "ops/convolution/conv2d.cc".
absl::string_view FamilyOf(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, absl::MaxSplits('/', 2));
  return parts.size() < 3 ? "" : parts[1];
}

size_t IndexOf(absl::string_view layer) {
  return static_cast<size_t>(std::find(std::begin(kLayers), std::end(kLayers), layer) - std::begin(kLayers));
}

// The index in kLayers of the layer that contains `path`.
std::optional<size_t> LayerOf(absl::string_view path) {
  for (const absl::string_view list : kOpLists) {
    if (absl::StartsWith(path, list)) return IndexOf("ops/lists");
  }
  const bool op = absl::StartsWith(path, "ops/");
  if (op && FamilyOf(path).empty()) return IndexOf("ops");
  for (size_t i = 0; i < std::size(kLayers); ++i) {
    if (kLayers[i] != "ops" && absl::StartsWith(path, absl::StrCat(kLayers[i], "/"))) return i;
  }
  return op ? std::optional<size_t>(IndexOf("ops/families")) : std::nullopt;
}

// Files that read the wall clock, because they write a date; the tests that set it; and those of this check.
constexpr absl::string_view kReadDates[] = {"framework/io/summary_writer.cc", "benchmarks/report.cc",
                                            "tests/environment/", "tests/layering/"};

bool ReadsDates(absl::string_view path) {
  return std::any_of(std::begin(kReadDates), std::end(kReadDates),
                     [&](absl::string_view reader) { return absl::StartsWith(path, reader); });
}

bool IsHeader(absl::string_view path) { return absl::EndsWith(path, ".h") || absl::EndsWith(path, ".cuh"); }
bool IsSource(absl::string_view path) { return absl::EndsWith(path, ".cc") || absl::EndsWith(path, ".cu"); }

// True for headers that may expose Eigen or oneDNN, which public headers must not include.
bool IsInternal(absl::string_view path) {
  return path == "framework/base/half.h" || absl::StartsWith(path, "ops/onednn/") || absl::EndsWith(path, "_impl.h");
}

bool IsPublicHeader(absl::string_view path) {
  const bool for_users = !absl::StartsWith(path, "tests/") && !absl::StartsWith(path, "benchmarks/");
  return IsHeader(path) && for_users && !IsInternal(path);
}

bool IsHeavy(absl::string_view included) {
  return absl::StartsWith(included, "Eigen/") || absl::StartsWith(included, "unsupported/Eigen/") ||
         absl::StartsWith(included, "dnnl") || absl::StartsWith(included, "oneapi/dnnl");
}

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The libraries that a CMakeLists.txt defines, each with the libraries that it links: the targets called belfry_*.
std::map<std::string, std::vector<std::string>> FindLibraries(const std::string& lists) {
  static const std::regex kLibrary(R"re(belfry_(?:library|objects)\(\s*(belfry_\w+)([^)]*)\))re");
  std::map<std::string, std::vector<std::string>> libraries;
  for (std::sregex_iterator at(lists.begin(), lists.end(), kLibrary), end; at != end; ++at) {
    std::vector<std::string>& links = libraries[(*at)[1]];
    for (const absl::string_view word : absl::StrSplit((*at)[2].str(), absl::ByAnyChar(" \t\n"))) {
      if (absl::StartsWith(word, "belfry_")) links.emplace_back(word);
    }
  }
  return libraries;
}

// "direct" for a file of that engine in ops/convolution/engines; empty for other files, and for what engines share.
absl::string_view EngineOf(absl::string_view path) {
  if (!absl::ConsumePrefix(&path, "ops/convolution/engines/")) return "";
  const absl::string_view engine = path.substr(0, path.find_first_of("_."));
  return engine == "engine" || engine == "taps" ? "" : engine;
}

class Checker {
 public:
  Checker(const fs::path& root, std::set<std::string> op_names, std::set<std::string> code_names)
      : root_(root), op_names_(std::move(op_names)), code_names_(std::move(code_names)) {}

  void CheckFile(const std::string& path) {
    path_ = path;
    line_ = 0;
    layer_ = LayerOf(path);
    if (!layer_) Fail("lies in none of the project's folders; move it, or add its folder to the layers");
    if (IsSource(path) && !IsListed()) Fail("is in no CMakeLists.txt; list it under SOURCES, or delete it");
    const std::string text = ReadFile(root_ / path);
    if (absl::StartsWith(path, "framework/")) CheckLiterals(text);
    if (absl::StartsWith(path, "trainers/")) CheckFlags(text);
    for (const CommentName& unknown : FindUnknownNames(text, code_names_)) {
      line_ = unknown.line;
      Fail(absl::StrCat("a comment names ", unknown.name,
                        ", which no code has; name what there is, or add it to the known names (comments.cc)"));
    }
    for (const char* product : {"framework/", "models/", "ops/", "optim/", "trainers/"}) {
      if (absl::StartsWith(path, product)) CheckSizes(text);
    }
    line_ = 0;
    std::vector<std::string> lines = absl::StrSplit(text, '\n');
    if (lines.back().empty()) lines.pop_back();
    if (lines.size() > kMaxLines)
      Fail(absl::StrCat("has ", lines.size(), " lines, more than ", kMaxLines, "; split it"));
    CheckLines(lines);
  }

  // `owners` is the folder of each library.
  void CheckLinks(const std::string& lists, const std::map<std::string, std::string>& owners) {
    path_ = lists;
    line_ = 0;
    for (const auto& [library, links] : FindLibraries(ReadFile(root_ / lists))) {
      for (const std::string& link : links) {
        const auto owner = owners.find(link);
        if (owner == owners.end()) continue;
        const std::optional<size_t> from = LayerOf(lists), to = LayerOf(owner->second + "/CMakeLists.txt");
        if (from && to && *to > *from) {
          Fail(absl::StrCat(library, " links ", link, ", but ", kLayers[*to], " stands above ", kLayers[*from]));
        }
      }
    }
  }

  // `sources` is the number of headers and sources that lie in the folder itself.
  void CheckFolder(const std::string& folder, size_t sources) {
    path_ = folder;
    line_ = 0;
    if (sources <= kMaxSources) return;
    Fail(absl::StrCat("holds ", sources, " sources, more than ", kMaxSources,
                      "; part it into folders of one thing each"));
  }

  std::vector<std::string> TakeBreaches() { return std::move(breaches_); }

 private:
  void CheckSizes(const std::string& text) {
    for (const Size& size : FindLarge(text, kMaxFunctionLines, kMaxMembers)) {
      line_ = size.line;
      Fail(absl::StrCat(size.text, " has ", size.size, size.is_class ? " data members" : " lines", ", more than ",
                        size.is_class ? kMaxMembers : kMaxFunctionLines, "; part it"));
    }
  }

  void CheckLiterals(const std::string& text) {
    for (const Literal& literal : FindLiterals(text)) {
      line_ = literal.line;
      if (!op_names_.contains(literal.text)) continue;
      Fail(absl::StrCat("names the op \"", literal.text, "\"; make it a rewrite of its family, or ask for a role"));
    }
  }

  void CheckLines(const std::vector<std::string>& lines) {
    static const std::regex kDirective(R"re(\s*#\s*(\w+)\s*(.*))re");
    bool has_pragma_once = false;
    const bool reads_dates = ReadsDates(path_);
    for (line_ = 1; line_ <= lines.size(); ++line_) {
      if (!reads_dates) CheckClock(lines[line_ - 1]);
      std::smatch match;
      if (!std::regex_match(lines[line_ - 1], match, kDirective)) continue;
      const std::string name = match[1], rest = match[2];
      if (name == "pragma" && absl::StartsWith(rest, "once")) has_pragma_once = true;
      if (name == "include") CheckInclude(rest);
      const bool guards_a_macro =
          name == "ifndef" && line_ < lines.size() && absl::StartsWith(lines[line_], absl::StrCat("#define ", rest));
      const bool conditional = (name == "if" || name == "ifdef" || name == "ifndef") && !guards_a_macro;
      // C headers are C++ as well.
      if (conditional && rest != "__cplusplus" && !absl::StartsWith(path_, "framework/device/cuda/")) {
        Fail(absl::StrCat("#", name, " outside framework/device/cuda; let CMake choose between two source files"));
      }
    }
    line_ = 1;
    if (IsHeader(path_) && !has_pragma_once) Fail("a header without #pragma once");
  }

  void CheckClock(const std::string& line) {
    for (const char* clock : {"absl::Now(", "GetCurrentTimeNanos", "system_clock", "gettimeofday"}) {
      if (!absl::StrContains(line, clock)) continue;
      Fail(absl::StrCat("reads the wall clock (", clock, "), which may be set in between; use SteadyNow"));
    }
  }

  // A name has one row, so it has one meaning in all programs.
  void CheckFlags(const std::string& text) {
    static const std::regex kRow(R"re(\.Add\(\s*"([a-z0-9_]+)",\s*&)re");
    for (std::sregex_iterator row(text.begin(), text.end(), kRow), end; row != end; ++row) {
      const auto [first, added] = flags_.emplace((*row)[1], path_);
      if (!added) Fail(absl::StrCat("adds the flag --", first->first, ", as ", first->second, " does; share the row"));
    }
  }

  // `spec` is the text after #include.
  void CheckInclude(const std::string& spec) {
    static const std::regex kName(R"re(["<]([^">]+)[">].*)re");
    std::smatch match;
    if (!std::regex_match(spec, match, kName)) return Fail("an #include that names no file");
    const std::string included = match[1];
    if (absl::StrContains(included, "..")) return Fail("an #include with \"..\"; write the path from the root");
    if (IsPublicHeader(path_) && (IsHeavy(included) || IsInternal(included))) {
      Fail(absl::StrCat("a public header includes ", included,
                        "; include it in the .cc file, or call the header *_impl.h"));
    }
    const std::optional<size_t> other = LayerOf(included);
    if (!layer_ || !other) return;
    const absl::string_view from = kLayers[*layer_], to = kLayers[*other];
    if (*other > *layer_) Fail(absl::StrCat("includes ", included, ", but ", to, " stands above ", from));
    if (from == "ops/families" && to == from && !MayInclude(FamilyOf(path_), FamilyOf(included))) {
      Fail(absl::StrCat("includes ", included, ", but ops/", FamilyOf(path_), " does not know ops/", FamilyOf(included),
                        "; move what both need to ops/common, or state why (kFamilyIncludes)"));
    }
    if (const absl::string_view other_engine = EngineOf(included);
        !EngineOf(path_).empty() && !other_engine.empty() && other_engine != EngineOf(path_)) {
      Fail(absl::StrCat("includes ", included,
                        ", but no engine of convolutions knows another; the order of engines is ",
                        "in ops/convolution/engines.cc"));
    }
    if (from == "framework/graph" && to == "framework/device") {
      Fail(absl::StrCat("includes ", included, ", but graph and device do not know each other"));
    }
  }

  // True if a CMakeLists.txt in the file's folder or above lists the file by its relative path.
  bool IsListed() const {
    for (fs::path folder = fs::path(path_).parent_path();; folder = folder.parent_path()) {
      const std::string name = fs::path(path_).lexically_relative(folder.empty() ? "." : folder).string();
      std::istringstream lists(ReadFile(root_ / folder / "CMakeLists.txt"));
      for (std::string line; std::getline(lists, line);) {
        const std::string code = line.substr(0, line.find('#'));
        const std::vector<std::string> words = absl::StrSplit(code, absl::ByAnyChar(" \t()\"\r"));
        if (std::find(words.begin(), words.end(), name) != words.end()) return true;
      }
      if (folder.empty()) return false;
    }
  }

  void Fail(absl::string_view what) {
    breaches_.push_back(line_ == 0 ? absl::StrCat(path_, ": ", what) : absl::StrCat(path_, ":", line_, ": ", what));
  }

  const fs::path root_;
  const std::set<std::string> op_names_, code_names_;
  std::map<std::string, std::string> flags_;  // by name, the file that adds each
  std::vector<std::string> breaches_;
  // The file being checked; line 0 stands for the whole file.
  std::string path_;
  size_t line_ = 0;
  std::optional<size_t> layer_;
};

}  // namespace

std::vector<std::string> CheckTree(const fs::path& root) {
  std::vector<std::string> paths, lists;
  for (const char* folder : {"benchmarks", "examples", "framework", "models", "ops", "optim", "tests", "trainers"}) {
    if (!fs::is_directory(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string path = entry.path().lexically_relative(root).generic_string();
      if (IsHeader(path) || IsSource(path)) paths.push_back(path);
      if (entry.path().filename() == "CMakeLists.txt") lists.push_back(path);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::set<std::string> op_names, code_names;
  for (const std::string& path : paths) {
    const std::string text = ReadFile(root / path);
    if (absl::StartsWith(path, "ops/")) AddOpNames(text, op_names);
    AddCodeNames(text, code_names);
  }
  Checker checker(root, std::move(op_names), std::move(code_names));
  for (const std::string& path : paths) checker.CheckFile(path);
  std::map<std::string, size_t> folders;
  for (const std::string& path : paths) ++folders[fs::path(path).parent_path().generic_string()];
  for (const auto& [folder, sources] : folders) {
    for (const char* product : {"framework", "models", "ops", "optim", "trainers"}) {
      if (absl::StartsWith(folder, product)) checker.CheckFolder(folder, sources);
    }
  }
  std::sort(lists.begin(), lists.end());
  std::map<std::string, std::string> owners;
  for (const std::string& path : lists) {
    for (const auto& [library, links] : FindLibraries(ReadFile(root / path))) {
      owners[library] = fs::path(path).parent_path().generic_string();
    }
  }
  for (const std::string& path : lists) checker.CheckLinks(path, owners);
  return checker.TakeBreaches();
}

}  // namespace belfry::layering
