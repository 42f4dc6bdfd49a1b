// The averager `nccl`: NCCL among GPUs, of one process or of several, with one tower on each.
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
#include "framework/collective/world.h"
#include "framework/collective/world_collective.h"

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
//
// In a process of a world, collectives that span processes share one set of communicators among all towers, which lives
// as long as this object, so this must go before the devices do. The first of them meets the other processes: task 0
// makes NCCL's id, and all get it over the world. NCCL also sums the weights of all processes. All processes must make
// such a collective first at the same place, and run them in the same order. Collectives within one process are local
// ones, as a second set of communicators on the same GPUs could deadlock with the first.
//
// A failure in any process ends the collectives of all: the others learn of it from the world (World::Fail), and abort
// theirs. Communicators among processes are not built again. A process that does not come is noticed at the deadline of
// the step. Collectives that span processes cannot be captured: all processes would have to capture and replay the same
// steps at the same runs, but each decides by its own plans, of which task 0 has more, for summaries.
class NcclCollectives {
 public:
  explicit NcclCollectives(std::shared_ptr<NcclApi> api, const NcclOptions& options = {})
      : api_(std::move(api)), options_(options) {}
  // `world` must outlive this. All processes must call it in the same order among calls of World::NewTag.
  NcclCollectives(std::shared_ptr<NcclApi> api, World& world, TowersOfWorld towers, const NcclOptions& options = {})
      : api_(std::move(api)),
        options_(options),
        towers_(std::move(towers)),
        span_(world.size() == 1 ? NcclSpan{}
                                : NcclSpan{&world, world.NewTag(), towers_.first[world.rank()], towers_.total()}) {}
  // Errors: InvalidArgument for devices or dtypes that cannot be averaged, or other towers than the world's;
  // DeadlineExceeded names processes that do not come; Cancelled with the error of a process that failed; those of
  // NCCL.
  absl::StatusOr<std::unique_ptr<Collective>> Make(CollectiveSpec spec);

 private:
  absl::StatusOr<std::shared_ptr<NcclClique>> CliqueAmong(const CollectiveSpec& spec);
  absl::StatusOr<std::shared_ptr<NcclClique>> CliqueOfWorld(const CollectiveSpec& spec);

  const std::shared_ptr<NcclApi> api_;
  const NcclOptions options_;
  const TowersOfWorld towers_;
  const NcclSpan span_;  // of the collectives that span processes
  Mutex mutex_;
  absl::StatusOr<std::shared_ptr<NcclClique>> of_world_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::map<std::vector<Device*>, std::weak_ptr<NcclClique>> cliques_ ABSL_GUARDED_BY(mutex_);  // by sorted devices
};

// SessionOptions::collectives for one session. If OpenNccl() fails, every collective fails with its error.
CollectiveFactory NcclFactory(const NcclOptions& options = {});
// The same in a process of `world`, which must outlive it. The last copy of the factory must go before the devices do.
CollectiveFactory NcclFactory(World& world, const TowersOfWorld& towers, const NcclOptions& options = {});

}  // namespace belfry
