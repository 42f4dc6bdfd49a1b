#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/data/text/text_files_impl.h"

namespace belfry::data {
namespace {

// A folder of more files than this is opened file by file at each read, since a process may have few files open.
constexpr size_t kMaxOpenFiles = 256;

struct Part {
  std::string path;
  TokenLayout layout;
  int64_t begin = 0;                  // in the stream
  uint64_t file_size = 0;             // in bytes
  std::optional<io::InputFile> file;  // nullopt if it is opened at each read
};

// Widens tokens of `width` bytes, which are at the end of the memory of `to`, in place.
void Widen(int width, absl::Span<int32_t> to) {
  const auto* from = reinterpret_cast<const std::byte*>(to.data() + to.size()) - to.size() * static_cast<size_t>(width);
  for (int32_t& token : to) {
    uint32_t value = 0;
    std::memcpy(&value, from, static_cast<size_t>(width));
    from += width;
    std::memcpy(&token, &value, sizeof(token));
  }
}

class FileStream : public TokenStream {
 public:
  FileStream(std::vector<Part> parts, int64_t size, int64_t vocabulary)
      : parts_(std::move(parts)), size_(size), vocabulary_(vocabulary) {}

  int64_t size() const override { return size_; }
  int64_t vocabulary() const override { return vocabulary_; }

  absl::Status Read(int64_t begin, absl::Span<int32_t> to) const override {
    BELFRY_CHECK(0 <= begin && begin <= size_ && static_cast<int64_t>(to.size()) <= size_ - begin);
    while (!to.empty()) {
      const Part& part = PartOf(begin);
      const int64_t left = part.begin + part.layout.count - begin;
      const absl::Span<int32_t> here = to.first(std::min(to.size(), static_cast<size_t>(left)));
      RETURN_IF_ERROR(ReadPart(part, begin - part.begin, here));
      begin += static_cast<int64_t>(here.size());
      to.remove_prefix(here.size());
    }
    return absl::OkStatus();
  }

 private:
  // The part with the token `at`.
  const Part& PartOf(int64_t at) const {
    const auto after = std::upper_bound(parts_.begin(), parts_.end(), at,
                                        [](int64_t token, const Part& part) { return token < part.begin; });
    return *std::prev(after);
  }

  absl::Status ReadPart(const Part& part, int64_t first, absl::Span<int32_t> to) const {
    const auto width = static_cast<size_t>(part.layout.width);
    std::byte* const bytes = reinterpret_cast<std::byte*>(to.data() + to.size()) - to.size() * width;
    const uint64_t offset = part.layout.offset + static_cast<uint64_t>(first) * width;
    if (part.file) {
      RETURN_IF_ERROR(part.file->Read(offset, bytes, to.size() * width));
    } else {
      ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open(part.path));
      if (file.size() != part.file_size) {
        return absl::DataLossError(absl::StrCat(part.path, ": holds ", file.size(), " bytes; it held ", part.file_size,
                                                " when it was first opened"));
      }
      RETURN_IF_ERROR(file.Read(offset, bytes, to.size() * width));
    }
    Widen(part.layout.width, to);
    return Check(part, first, to);
  }

  absl::Status Check(const Part& part, int64_t first, absl::Span<const int32_t> tokens) const {
    constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
    const auto limit = static_cast<uint32_t>(vocabulary_ > 0 ? std::min(vocabulary_ - 1, kLargest) : kLargest);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto token = static_cast<uint32_t>(tokens[i]);
      if (token <= limit) continue;
      return absl::DataLossError(absl::StrCat(part.path, ": token ", first + static_cast<int64_t>(i), " is ", token,
                                              "; expected 0 to ", limit,
                                              vocabulary_ > 0 ? ", the vocabulary" : ", the largest of int32"));
    }
    return absl::OkStatus();
  }

  const std::vector<Part> parts_;
  const int64_t size_, vocabulary_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenStream>> OpenTokenStream(absl::Span<const std::string> paths,
                                                                   int64_t vocabulary, LayoutOf layout_of) {
  std::vector<Part> parts;
  int64_t size = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(io::InputFile file, io::InputFile::Open(path));
    ASSIGN_OR_RETURN(const TokenLayout layout, layout_of(file));
    Part part{.path = path, .layout = layout, .begin = size, .file_size = file.size(), .file = std::nullopt};
    if (paths.size() <= kMaxOpenFiles) part.file = std::move(file);
    parts.push_back(std::move(part));
    size += layout.count;
  }
  return std::make_shared<FileStream>(std::move(parts), size, vocabulary);
}

}  // namespace belfry::data
