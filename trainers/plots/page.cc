#include "trainers/plots/page.h"

#include "absl/strings/str_replace.h"

namespace belfry::trainers {

// page.html with Chart.js, from a source file that CMake writes.
extern const char kPageHtml[];

std::string Page(const nlohmann::ordered_json& data) {
  const std::string text = data.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  // A name may hold what would end the script.
  return absl::StrReplaceAll(kPageHtml, {{"@DATA@", absl::StrReplaceAll(text, {{"<", "\\u003c"}})}});
}

}  // namespace belfry::trainers
