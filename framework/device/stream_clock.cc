#include <vector>

#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/device/device.h"

namespace belfry {
namespace {

class HostClock final : public StreamClock {
 public:
  explicit HostClock(int stamps) : stamps_(stamps) {}
  absl::Status Stamp(Stream& stream, int i) override {
    RETURN_IF_ERROR(stream.Synchronize());
    stamps_[i] = SteadyNow();
    return absl::OkStatus();
  }
  absl::StatusOr<absl::Time> Read(int i) override { return stamps_[i]; }

 private:
  std::vector<absl::Time> stamps_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StreamClock>> Device::NewClock(int stamps) {
  return std::make_unique<HostClock>(stamps);
}

}  // namespace belfry
