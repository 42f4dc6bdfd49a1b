#include "framework/data/text/text.h"

#include "framework/base/status.h"
#include "framework/data/text/text_files_impl.h"

namespace belfry::data {

absl::StatusOr<TextData> OpenText(const std::string& path, const TextOptions& options) {
  constexpr int64_t kBytes = 256;
  const auto bytes_of = [](const io::InputFile& file) -> absl::StatusOr<TokenLayout> {
    return TokenLayout{.offset = 0, .width = 1, .count = static_cast<int64_t>(file.size())};
  };
  ASSIGN_OR_RETURN(const TextFiles files, FindTextFiles(path, [](absl::string_view) { return true; }));
  return OpenTextFiles(path, files, options.window, options.validation,
                       [&](absl::Span<const std::string> paths) { return OpenTokenStream(paths, kBytes, bytes_of); });
}

}  // namespace belfry::data
