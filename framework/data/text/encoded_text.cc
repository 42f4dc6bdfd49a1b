#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/data/text/text.h"
#include "framework/data/text/text_files_impl.h"

namespace belfry::data {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20, kMaxPieceBytes = 4 * kPieceBytes;

// Tokens in memory.
template <class T>
class MemoryStream : public TokenStream {
 public:
  explicit MemoryStream(int64_t vocabulary) : vocabulary_(vocabulary) {}

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  int64_t vocabulary() const override { return vocabulary_; }
  absl::Status Read(int64_t begin, absl::Span<int32_t> to) const override {
    BELFRY_CHECK(0 <= begin && begin <= size() && static_cast<int64_t>(to.size()) <= size() - begin);
    std::copy_n(tokens_.begin() + begin, to.size(), to.begin());
    return absl::OkStatus();
  }
  void Append(absl::Span<const int32_t> tokens) {
    for (const int32_t token : tokens) tokens_.push_back(static_cast<T>(token));
  }

 private:
  const int64_t vocabulary_;
  std::vector<T> tokens_;
};

template <class T>
absl::StatusOr<std::shared_ptr<const TokenStream>> EncodeFiles(absl::Span<const std::string> paths,
                                                               const Tokenizer& tokenizer) {
  const auto stream = std::make_shared<MemoryStream<T>>(tokenizer.vocabulary());
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(EncodeFile(path, tokenizer, [&](absl::Span<const int32_t> tokens) {
      stream->Append(tokens);
      return absl::OkStatus();
    }));
  }
  return stream;
}

// The size of a piece of a text that has no better place to cut: it ends with a whole character.
size_t EndOfCharacters(absl::string_view text) {
  size_t end = text.size();
  while (end > 1 && text.size() - end < 4 && (text[end - 1] & 0xC0) == 0x80) --end;
  return end > 1 ? end - 1 : text.size();
}

}  // namespace

absl::Status EncodeFile(const std::string& path, const Tokenizer& tokenizer,
                        absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> use) {
  ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open(path));
  std::string text;
  for (bool more = true; more;) {
    const size_t left = text.size();
    text.resize(left + kPieceBytes);
    ASSIGN_OR_RETURN(const size_t read, file.ReadOn(text.data() + left, kPieceBytes));
    text.resize(left + read);
    more = read > 0;
    size_t cut = more ? tokenizer.CutPoint(text) : text.size();
    if (cut == 0 && text.size() >= kMaxPieceBytes) cut = EndOfCharacters(text);
    if (cut == 0) continue;
    RETURN_IF_ERROR(use(tokenizer.Encode(absl::string_view(text).substr(0, cut))));
    text.erase(0, cut);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextData> OpenText(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options) {
  ASSIGN_OR_RETURN(const TextFiles files, FindTextFiles(path, [](absl::string_view) { return true; }));
  const bool narrow = tokenizer.vocabulary() <= 65'536;
  return OpenTextFiles(path, files, options.window, options.validation, [&](absl::Span<const std::string> paths) {
    return narrow ? EncodeFiles<uint16_t>(paths, tokenizer) : EncodeFiles<uint32_t>(paths, tokenizer);
  });
}

}  // namespace belfry::data
