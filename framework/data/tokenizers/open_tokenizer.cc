#include <filesystem>
#include <system_error>

#include "framework/base/status.h"
#include "framework/data/tokenizers/tokenizer.h"
#include "framework/io/file.h"

namespace belfry::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBytes = uint64_t{1} << 28;  // those of large vocabularies have some 20 MB

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& path) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(file, error)) {
    const bool pair = !fs::exists(file / "tokenizer.json", error) && fs::exists(file / "vocab.json", error);
    file /= pair ? "vocab.json" : "tokenizer.json";
  }
  ASSIGN_OR_RETURN(const std::string text, io::ReadFile(file.string(), kMaxBytes));
  const fs::path merges = file.parent_path() / "merges.txt";
  if (file.filename() != "vocab.json") return ParseTokenizer(text, file.string());
  ASSIGN_OR_RETURN(const std::string pairs, io::ReadFile(merges.string(), kMaxBytes));
  return ParseVocabularyAndMerges(text, pairs, file.string());
}

}  // namespace belfry::data
