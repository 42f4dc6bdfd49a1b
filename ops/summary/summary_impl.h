// Names of the summary ops and their attributes.
#pragma once

#include "absl/strings/string_view.h"
#include "framework/graph/node.h"

namespace belfry::ops {

inline constexpr char kScalarSummary[] = "ScalarSummary";
inline constexpr char kHistogramSummary[] = "HistogramSummary";
inline constexpr char kImageSummary[] = "ImageSummary";
inline constexpr char kMergeSummary[] = "MergeSummary";

inline constexpr char kTag[] = "tag";                 // including towers
inline constexpr char kMaxImages[] = "max_images";    // ImageSummary only
inline constexpr char kSummaryNodes[] = "summaries";  // MergeSummary only: node names in order, separated by spaces

// True if the node is a summary other than MergeSummary.
inline bool IsSummary(const Node& node) {
  const absl::string_view op = node.op().name;
  return op == kScalarSummary || op == kHistogramSummary || op == kImageSummary;
}

}  // namespace belfry::ops
