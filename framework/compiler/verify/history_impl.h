// A record of the reads and writes of one memory while a plan is followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "framework/compiler/program.h"

namespace belfry::verify {

// A place in the execution: an instruction of a stream. Stream -1: the host, before the step.
struct Moment {
  int stream = -1, position = 0;
};

// The content of a range of bytes: `value`, whose first byte is at `begin`. Node -1: nothing that the step may read.
struct Content {
  Value value{-1, 0};
  size_t begin = 0;
  bool operator==(const Content&) const = default;
};

struct Range {
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  bool Meets(const Range& other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Range&) const = default;
};

// A part of the memory that has been accessed as a whole.
struct Segment {
  size_t end = 0;
  Content content;
  Moment written;
  std::vector<std::pair<Moment, int>> reads;  // since then, the last of each stream, with the node
};

// The segments of one memory, disjoint and ascending. Bytes without a segment were not accessed.
class History {
 public:
  // Calls `see` on all that is known of the range, part by part.
  void ForEach(Range range, absl::FunctionRef<void(Range part, Segment& segment)> see);
  // Replaces the content of the range. Nothing has read the new content.
  void Write(Range range, Content content, Moment moment);
  // The number of bytes of the range that belong to a segment.
  size_t Known(Range range) const;

 private:
  // Makes `at` the boundary of segments.
  void Split(size_t at);

  std::map<size_t, Segment> segments_;  // by their beginning
};

}  // namespace belfry::verify
