// Summaries: what a run shows about itself. A summary is a node that passes its input on and says under which tag and
// how to show it; whoever fetches it hands the tensor to ReadSummaries, whose result an io::SummaryWriter writes.
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

// Each returns x as a node "<scope>/<tag>/ScalarSummary" and adds it to kSummaries. It costs nothing, and runs only if
// it is fetched. It is shown under the scope's path and `tag`, without the name scope of its tower (Scope::InTower), as
// TensorFlow 1's trainers do; where a summary stands there already, under "<tag>_1" and so on. The gradient passes.

// x: a scalar.
Output ScalarSummary(OpScope scope, absl::string_view tag, Output x);
// x: any shape.
Output HistogramSummary(OpScope scope, absl::string_view tag, Output x);
// x: [N, H, W, C], of which the first max_images are shown, or [H, W, C]; uint8 or floats; io::Summary::AddImages says
// how.
Output ImageSummary(OpScope scope, absl::string_view tag, Output x, int64_t max_images = 3);

// What those three returned, as one float32 vector to be fetched in their place. On the device of the scope. Numbers
// that float32 does not hold are rounded. An error, which sticks to the graph: there are none, or one is no summary.
Output MergeSummary(OpScope scope, absl::Span<const Output> summaries);
// Of those in the collection that stand in this name scope: called with a tower's scope, its own.
Output MergeAllSummaries(OpScope scope, absl::string_view collection = kSummaries);

// How summaries that several towers have under one tag are shown.
enum class TowerSummaries {
  kMean,  // as one: the mean of scalars, one histogram of all values, the images of the first
  kEach,  // one by one, under tags that keep the towers' name scopes
};

struct FetchedSummaries {
  io::Summary summary;
  std::vector<std::pair<std::string, double>> scalars;  // those of `summary`, in order, for other files
};
// `values[i]` was fetched of `summaries[i]`, each of which one of the builders above returned; MergeSummary's stand for
// all that they merge. Tags come in the order of their first. InvalidArgument: an output that is no summary, a value
// that does not fit it, images of another kind than ImageSummary says. Thread-safe.
absl::StatusOr<FetchedSummaries> ReadSummaries(absl::Span<const Output> summaries, absl::Span<const Tensor> values,
                                               TowerSummaries towers = TowerSummaries::kMean);

}  // namespace belfry::ops
