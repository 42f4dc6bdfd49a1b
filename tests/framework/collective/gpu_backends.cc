#include "framework/collective/nccl.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {

std::vector<CollectiveBackend> CollectiveBackends() {
  return {{.name = "LocalOnGpus", .open = OpenTestGpus, .make = MakeLocalCollective, .cannot = {}},
          {.name = "Nccl",
           .open = OpenTestCards,
           .make = [](CollectiveSpec spec) { return NcclFactory()(std::move(spec)); },
           .one_rank_each = true,
           .cannot = {{"BitsDoNotDependOnTheNumberOfParticipants", "NCCL adds up in an order of its own"}}}};
}

}  // namespace belfry
