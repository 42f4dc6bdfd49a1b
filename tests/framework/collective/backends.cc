#include "framework/collective/nccl.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {

std::vector<CollectiveBackend> CollectiveBackends() {
  return {
      {.name = "Local", .open = OpenCpus, .make = MakeLocalCollective, .cannot = {}},
      {.name = "LocalOnFakeGpus", .open = OpenTestGpus, .make = MakeLocalCollective, .cannot = {}},
      {.name = "FakeNccl",
       .open = OpenTestGpus,
       .make = [](CollectiveSpec spec) { return NcclCollectives(std::make_shared<FakeNccl>()).Make(std::move(spec)); },
       .one_rank_each = true,
       .cannot = {}}};
}

}  // namespace belfry
