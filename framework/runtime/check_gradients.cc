#include "framework/runtime/check_gradients.h"

#include <vector>

#include "framework/base/status.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"
#include "framework/runtime/session.h"

namespace belfry {

// Each round adds nodes to the graph, which a session that is made then has.
absl::Status CheckGradients(const Scope& scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                            const FeedList& feeds, const GradientCheckOptions& options) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1"));
  const Evaluator evaluate = [&](absl::Span<const Output> fetches,
                                 const FeedList& values) -> absl::StatusOr<std::vector<Tensor>> {
    ASSIGN_OR_RETURN(const auto session, Session::Create(scope.graph(), devices));
    std::vector<Feed> fed;
    for (const auto& [output, value] : values) fed.push_back({output, value});
    return session->Run(fed, fetches);
  };
  return CheckGradients(scope, ys, xs, feeds, evaluate, options);
}

}  // namespace belfry
