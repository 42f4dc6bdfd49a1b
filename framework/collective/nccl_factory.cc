#include <utility>

#include "framework/collective/nccl.h"

namespace belfry {

namespace {

template <class... Arguments>
CollectiveFactory FactoryOf(Arguments&&... arguments) {
  absl::StatusOr<std::shared_ptr<NcclApi>> api = OpenNccl();
  if (!api.ok()) {
    return [status = api.status()](CollectiveSpec) -> absl::StatusOr<std::unique_ptr<Collective>> { return status; };
  }
  return [all = std::make_shared<NcclCollectives>(*std::move(api), std::forward<Arguments>(arguments)...)](
             CollectiveSpec spec) { return all->Make(std::move(spec)); };
}

}  // namespace

CollectiveFactory NcclFactory(const NcclOptions& options) { return FactoryOf(options); }

CollectiveFactory NcclFactory(World& world, const TowersOfWorld& towers, const NcclOptions& options) {
  return FactoryOf(world, towers, options);
}

}  // namespace belfry
