// The captures of fake GPUs' streams. Internal to them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/device/device.h"

namespace belfry {

// A part of a capture, which comes after others, by index.
struct CapturedPart {
  std::function<absl::Status()> work;
  std::vector<size_t> after;
};

// Work given to streams while one of them captured. Used by the capturing thread.
struct Capture {
  std::vector<CapturedPart> parts;
  std::map<const Stream*, std::vector<size_t>> last;  // by stream: what its next work comes after
  bool invalid = false;                               // a call that a capture forbids was made
  std::map<Stream*, bool> others;  // streams that joined the capture; true if their last operation was a record

  // True if everything in the capture comes before the next work of `stream`.
  bool AllComeBefore(const Stream* stream) {
    std::vector<bool> before(parts.size(), false);
    std::vector<size_t> left = last[stream];
    while (!left.empty()) {
      const size_t part = left.back();
      left.pop_back();
      if (before[part]) continue;
      before[part] = true;
      left.insert(left.end(), parts[part].after.begin(), parts[part].after.end());
    }
    return std::find(before.begin(), before.end(), false) == before.end();
  }
};

// A random order in which every part comes after those that it has to.
inline std::vector<size_t> OrderOf(const std::vector<CapturedPart>& parts, std::minstd_rand& random) {
  std::vector<size_t> missing, ready, order;  // by part: those before it that are yet to come; parts that miss none
  std::vector<std::vector<size_t>> next(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    missing.push_back(parts[i].after.size());
    for (const size_t before : parts[i].after) next[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    order.push_back(ready.back());
    ready.pop_back();
    for (const size_t after : next[order.back()]) {
      if (--missing[after] == 0) ready.push_back(after);
    }
  }
  return order;
}

}  // namespace belfry
