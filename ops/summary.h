// Summaries: scalars, histograms and images that a run reports. A summary is a node that passes its input through and
// carries a tag. Fetch summaries, hand their values to ReadSummaries, and write the result with an io::SummaryWriter:
//
//   ops::ScalarSummary(tower, "accuracy", accuracy);                 // in "tower_1/": shown as "accuracy"
//   const std::vector<Output> all = graph.GetCollection(kSummaries);
//   ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(feeds, all, {train_op}));
//   ASSIGN_OR_RETURN(const ops::FetchedSummaries fetched, ops::ReadSummaries(all, values));
//   RETURN_IF_ERROR(writer.Write(step, fetched.summary));
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/graph/scope.h"
#include "framework/io/summary.h"

namespace belfry::ops {

// Each returns x as a node "<scope>/<tag>/ScalarSummary" (or HistogramSummary, ImageSummary) and adds it to kSummaries.
// A summary costs nothing and runs only if fetched. It is shown under the scope's path and `tag`, without the name
// scope of its tower (Scope::InTower), as in TensorFlow 1's trainers; a tag that is already taken becomes "<tag>_1" and
// so on. Gradients pass through.

// x is a scalar.
Output ScalarSummary(OpScope scope, absl::string_view tag, Output x);
// x has any shape.
Output HistogramSummary(OpScope scope, absl::string_view tag, Output x);
// x is [N, H, W, C], of which the first max_images are shown, or [H, W, C]; uint8 or floats. See io::Summary::AddImages
// for the channels and the scaling.
Output ImageSummary(OpScope scope, absl::string_view tag, Output x, int64_t max_images = 3);

// Packs the given summaries into one float32 vector, to be fetched in their place, on the scope's device. Numbers that
// float32 cannot represent are rounded. An empty list, or an element that is not a summary, is an error of the graph.
Output MergeSummary(OpScope scope, absl::Span<const Output> summaries);
// Merges the summaries of the collection that lie in this name scope; called with a tower's scope, those of the tower.
Output MergeAllSummaries(OpScope scope, absl::string_view collection = kSummaries);

// Treatment of summaries that several towers have under one tag.
enum class TowerSummaries {
  kMean,  // as one: the mean of scalars, one histogram of all values, the images of the first
  kEach,  // one by one, under tags that keep the towers' name scopes
};

struct FetchedSummaries {
  io::Summary summary;
  std::vector<std::pair<std::string, double>> scalars;  // the scalars of `summary`, in order, for other sinks
};
// Turns fetched values into summaries: `values[i]` was fetched from `summaries[i]`, which one of the builders above
// returned. A result of MergeSummary stands for all that it merged. Tags come in order of first appearance.
// InvalidArgument: an output is not a summary, a value does not fit it, or images have another form than ImageSummary
// takes. Thread-safe.
absl::StatusOr<FetchedSummaries> ReadSummaries(absl::Span<const Output> summaries, absl::Span<const Tensor> values,
                                               TowerSummaries towers = TowerSummaries::kMean);

}  // namespace belfry::ops
