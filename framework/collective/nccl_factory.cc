#include <utility>

#include "framework/collective/nccl.h"

namespace belfry {

CollectiveFactory NcclFactory(const NcclOptions& options) {
  absl::StatusOr<std::shared_ptr<NcclApi>> api = OpenNccl();
  if (!api.ok()) {
    return [status = api.status()](CollectiveSpec) -> absl::StatusOr<std::unique_ptr<Collective>> { return status; };
  }
  return [all = std::make_shared<NcclCollectives>(*std::move(api), options)](CollectiveSpec spec) {
    return all->Make(std::move(spec));
  };
}

}  // namespace belfry
