#include <utility>

#include "framework/collective/nccl.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/fake_nccl.h"
#include "tests/framework/collective/meeting.h"
#include "tests/framework/collective/test_nccl.h"

namespace belfry {
namespace {

// No GPU can access another's memory.
absl::StatusOr<DeviceSet> OpenGpusApart(int gpus) {
  std::vector<std::pair<int, int>> apart;
  for (int a = 0; a < gpus; ++a) {
    for (int b = 0; b < a; ++b) apart.emplace_back(a, b);
  }
  return OpenFakeGpus(gpus, /*tagged=*/false, apart);
}

}  // namespace

absl::StatusOr<std::shared_ptr<NcclApi>> OpenTestNccl() {
  return std::shared_ptr<NcclApi>(new FakeNccl, [](FakeNccl* nccl) {
    EXPECT_THAT(nccl->misuse(), testing::IsEmpty());
    delete nccl;
  });
}

std::vector<CollectiveBackend> CollectiveBackends() {
  return {
      {.name = "Local", .open = OpenCpus, .make = MakeLocalCollective, .cannot = {}},
      {.name = "LocalOnFakeGpus", .open = OpenTestGpus, .make = MakeLocalCollective, .cannot = {}},
      {.name = "LocalOnFakeGpusApart", .open = OpenGpusApart, .make = MakeLocalCollective, .cannot = {}},
      {.name = "FakeNccl",
       .open = OpenTestGpus,
       .make = [](CollectiveSpec spec) { return NcclCollectives(std::make_shared<FakeNccl>()).Make(std::move(spec)); },
       .one_rank_each = true,
       .cannot = {{"TheOrderIsATree", "NCCL adds up in an order of its own"}}},
      {.name = "FakeNcclThatBlocks",
       .open = OpenTestGpus,
       .make =
           [](CollectiveSpec spec) {
             return NcclCollectives(std::make_shared<FakeNccl>(), {.blocking = true}).Make(std::move(spec));
           },
       .one_rank_each = true,
       .cannot = {{"TheOrderIsATree", "NCCL adds up in an order of its own"}}}};
}

}  // namespace belfry
