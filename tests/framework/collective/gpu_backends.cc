#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/meeting.h"
#include "tests/framework/collective/test_nccl.h"

namespace belfry {
namespace {

// Two or more cards whose kernels do not access each other's memory.
absl::StatusOr<DeviceSet> OpenThroughTheHost(int gpus) {
  ASSIGN_OR_RETURN(const int cards, CountGpuDevices({}));
  if (cards < 2) return absl::NotFoundError("it takes two cards");
  return DeviceSet::Open(absl::StrCat("gpu:", gpus),
                         {.virtual_gpus = (gpus + cards - 1) / cards, .peer_through_host = true});
}

}  // namespace

absl::StatusOr<std::shared_ptr<NcclApi>> OpenTestNccl() { return OpenNccl(); }

std::vector<CollectiveBackend> CollectiveBackends() {
  return {{.name = "LocalOnGpus", .open = OpenTestGpus, .make = MakeLocalCollective, .cannot = {}},
          {.name = "LocalThroughTheHost", .open = OpenThroughTheHost, .make = MakeLocalCollective, .cannot = {}},
          {.name = "Nccl",
           .open = OpenTestCards,
           .make = [](CollectiveSpec spec) { return NcclFactory()(std::move(spec)); },
           .one_rank_each = true,
           .cannot = {{"BitsDoNotDependOnTheNumberOfParticipants", "NCCL adds up in an order of its own"},
                      {"TheOrderIsATree", "NCCL adds up in an order of its own"}}}};
}

}  // namespace belfry
