#include "framework/collective/transfers.h"

#include <algorithm>
#include <utility>

namespace belfry {

void Transfers::Send(int to, absl::Span<const char> bytes) {
  if (bytes.empty()) return;
  sends.push_back({.process = to, .data = const_cast<char*>(bytes.data()), .size = bytes.size()});
}

void Transfers::Receive(int from, absl::Span<char> bytes) {
  if (bytes.empty()) return;
  receives.push_back({.process = from, .data = bytes.data(), .size = bytes.size()});
}

void Transfers::Cut(size_t longest) {
  for (std::vector<Transfer>* const list : {&sends, &receives}) {
    const auto fits = [&](const Transfer& transfer) { return transfer.size <= longest; };
    if (std::all_of(list->begin(), list->end(), fits)) continue;
    std::vector<Transfer> pieces;
    for (const Transfer& whole : *list) {
      for (size_t at = 0; at < whole.size; at += longest) {
        const size_t size = std::min(longest, whole.size - at);
        pieces.push_back({.process = whole.process, .data = whole.data + at, .size = size});
      }
    }
    *list = std::move(pieces);
  }
}

}  // namespace belfry
