#include "framework/compiler/verify/history_impl.h"

#include <algorithm>
#include <iterator>

namespace belfry::verify {

void History::Split(size_t at) {
  auto after = segments_.upper_bound(at);
  if (after == segments_.begin()) return;
  const auto before = std::prev(after);
  if (before->first == at || before->second.end <= at) return;
  Segment rest = before->second;
  before->second.end = at;
  segments_.emplace_hint(after, at, std::move(rest));
}

void History::ForEach(Range range, absl::FunctionRef<void(Range part, Segment& segment)> see) {
  if (range.empty()) return;
  Split(range.begin);
  Split(range.end);
  for (auto at = segments_.lower_bound(range.begin); at != segments_.end() && at->first < range.end; ++at) {
    see({at->first, at->second.end}, at->second);
  }
}

void History::Write(Range range, Content content, Moment moment) {
  if (range.empty()) return;
  Split(range.begin);
  Split(range.end);
  segments_.erase(segments_.lower_bound(range.begin), segments_.lower_bound(range.end));
  segments_[range.begin] = {.end = range.end, .content = content, .written = moment, .reads = {}};
}

size_t History::Known(Range range) const {
  size_t known = 0;
  auto at = segments_.upper_bound(range.begin);
  if (at != segments_.begin()) --at;
  for (; at != segments_.end() && at->first < range.end; ++at) {
    const size_t begin = std::max(at->first, range.begin), end = std::min(at->second.end, range.end);
    if (begin < end) known += end - begin;
  }
  return known;
}

}  // namespace belfry::verify
