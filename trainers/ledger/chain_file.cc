#include "trainers/ledger/chain_file.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"

namespace belfry::trainers {
namespace {

constexpr absl::string_view kHashBegin = ",\"hash\":\"", kHashEnd = "\"}";
constexpr size_t kDigits = 32, kSuffix = kHashBegin.size() + kDigits + kHashEnd.size();

std::string HashAfter(absl::string_view previous, absl::string_view body) {
  return io::DigestText(absl::StrCat(previous.empty() ? std::string(kDigits, '0') : previous, body));
}

}  // namespace

absl::string_view MemberOf(absl::string_view record, absl::string_view name) {
  const std::string key = absl::StrCat("\"", name, "\":");
  const size_t found = record.find(key);
  if (found == record.npos) return "";
  record.remove_prefix(found + key.size());
  absl::ConsumePrefix(&record, "\"");
  return record.substr(0, record.find_first_of("\",}"));
}

// A line may follow the hash that the line before has, or the one that it should have: of two neighbours, one of which
// is damaged, that one alone is not intact.
std::vector<ChainLine> ParseChain(absl::string_view bytes) {
  std::vector<ChainLine> lines;
  std::string stored, computed;  // of the line before
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t newline = bytes.find('\n', begin);
    const bool whole = newline != bytes.npos;
    const absl::string_view line = bytes.substr(begin, whole ? newline - begin : bytes.npos);
    begin = whole ? newline + 1 : bytes.size();
    ChainLine& entry = lines.emplace_back(ChainLine{.text = std::string(line), .end = begin, .whole = whole});
    if (line.size() <= kSuffix) continue;
    const absl::string_view body = line.substr(0, line.size() - kSuffix), suffix = line.substr(body.size());
    entry.hash = std::string(suffix.substr(kHashBegin.size(), kDigits));
    const std::string after_stored = HashAfter(stored, body), after_computed = HashAfter(computed, body);
    const bool framed = absl::StartsWith(suffix, kHashBegin) && absl::EndsWith(suffix, kHashEnd);
    entry.intact = whole && framed && (entry.hash == after_stored || entry.hash == after_computed);
    if (framed) entry.text = absl::StrCat(body, "}");
    stored = entry.hash;
    computed = after_stored;
  }
  return lines;
}

absl::StatusOr<std::vector<ChainLine>> ReadChain(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(path, kAnySize));
  return ParseChain(bytes);
}

absl::StatusOr<ChainWriter> ChainWriter::Open(const std::string& path, uint64_t size, absl::string_view hash) {
  ChainWriter writer;
  writer.path_ = path;
  writer.hash_ = std::string(hash);
  writer.file_.reset(std::fopen(path.c_str(), "a"));
  if (writer.file_ == nullptr) return io::SystemError(path, "cannot open the chain of records", errno);
  std::setvbuf(writer.file_.get(), nullptr, _IONBF, 0);
  writer.size_ = size;
  std::error_code error;
  std::filesystem::resize_file(path, size, error);
  if (error) return io::SystemError(path, "cannot cut the chain of records", error.value());
  return writer;
}

absl::Status ChainWriter::Append(absl::string_view object) {
  const absl::string_view body = object.substr(0, object.size() - 1);
  std::string hash = HashAfter(hash_, body);
  const std::string line = absl::StrCat(body, kHashBegin, hash, kHashEnd, "\n");
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) {
    const int failed = errno;
    std::error_code ignored;
    std::filesystem::resize_file(path_, size_, ignored);
    return io::SystemError(path_, "cannot write the chain of records", failed);
  }
  hash_ = std::move(hash);
  size_ += line.size();
  return absl::OkStatus();
}

}  // namespace belfry::trainers
