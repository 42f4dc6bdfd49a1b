// What the nodes of this family are called, and carry.
#pragma once

#include "absl/strings/string_view.h"
#include "framework/graph/node.h"

namespace belfry::ops {

inline constexpr char kScalarSummary[] = "ScalarSummary";
inline constexpr char kHistogramSummary[] = "HistogramSummary";
inline constexpr char kImageSummary[] = "ImageSummary";
inline constexpr char kMergeSummary[] = "MergeSummary";

inline constexpr char kTag[] = "tag";                 // with towers
inline constexpr char kMaxImages[] = "max_images";    // of ImageSummary
inline constexpr char kSummaryNodes[] = "summaries";  // of MergeSummary: names of nodes, in order, separated by spaces

// One of the three that are not MergeSummary.
inline bool IsSummary(const Node& node) {
  const absl::string_view op = node.op().name;
  return op == kScalarSummary || op == kHistogramSummary || op == kImageSummary;
}

}  // namespace belfry::ops
