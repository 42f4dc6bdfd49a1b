// The averager `nccl`: NCCL among GPUs, with one tower on each.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/collective/collective.h"
#include "framework/collective/nccl_api.h"
#include "framework/collective/nccl_clique.h"

namespace belfry {

// InvalidArgument unless the devices are GPUs on distinct cards; the message suggests --averager=local.
absl::Status CheckNcclDevices(absl::Span<Device* const> devices);

// Makes the collectives of one session, or of several that do not run steps at the same time. Collectives among the
// same GPUs share communicators, which live as long as any of these collectives. Thread-safe.
//
// A mean is sum(weight_r * data_r) / sum(weight_r), each rounded to the dtype; for float16, whose products would
// overflow, it is sum(data_r * (weight_r / sum(weight_r))). NCCL chooses its own order of summation, which depends on
// the number of GPUs, on sizes and on its version; all ranks get the same bits.
//
// A failure stops all ranks. An operation that reached only some of them is ended by aborting all communicators, and
// the next run builds them again. The error names the collective, the tower and its device. Steps may be captured; an
// abort ends the captures of all steps that share the communicators.
class NcclCollectives {
 public:
  explicit NcclCollectives(std::shared_ptr<NcclApi> api, const NcclOptions& options = {})
      : api_(std::move(api)), options_(options) {}
  absl::StatusOr<std::unique_ptr<Collective>> Make(CollectiveSpec spec);

 private:
  const std::shared_ptr<NcclApi> api_;
  const NcclOptions options_;
  Mutex mutex_;
  std::map<std::vector<Device*>, std::weak_ptr<NcclClique>> cliques_ ABSL_GUARDED_BY(mutex_);  // by sorted devices
};

// SessionOptions::collectives for one session. If OpenNccl() fails, every collective fails with its error.
CollectiveFactory NcclFactory(const NcclOptions& options = {});

}  // namespace belfry
