#include "framework/device/cuda/open.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/device/cuda/card.h"
#include "framework/device/cuda/cuda_device.h"
#include "framework/device/cuda/nvrtc.h"
#include "framework/device/cuda/peers.h"
#include "framework/device/device_set.h"
#include "framework/device/gpu_options.h"
#include "framework/device/gpu_support.h"

namespace belfry {
namespace {

// CUDA's ordinals of the cards that may be used, at least one. NotFound gives the reason if there are none.
absl::StatusOr<std::vector<int>> FindCards(const DeviceOptions& options) {
  int driver = 0, found = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    return absl::NotFoundError("this machine has no CUDA driver");
  }
  const cudaError_t error = cudaGetDeviceCount(&found);
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) return absl::NotFoundError(DriverIsTooOld(driver, CUDART_VERSION));
  if (error != cudaSuccess) {
    return absl::NotFoundError(absl::StrCat(cudaGetErrorString(error), " (the driver supports CUDA ",
                                            CudaVersionText(driver), ", this Belfry was built with ",
                                            CudaVersionText(CUDART_VERSION), ")"));
  }
  if (found == 0) return absl::NotFoundError("the CUDA driver reports no devices");
  return VisibleCards(options, found);
}

std::string Describe(const Card& card, const DeviceOptions& options, int part, size_t limit) {
  std::string text = card.description();
  if (options.virtual_gpus > 1) absl::StrAppend(&text, ", virtual ", part + 1, " of ", options.virtual_gpus);
  if (options.virtual_gpus > 1 || !options.gpu_memory.empty()) {
    absl::StrAppendFormat(&text, ", limit %.1f GiB", static_cast<double>(limit) / 0x1p30);
  }
  return text;
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> Open(int count, const std::vector<int>& ordinals,
                                                          const DeviceOptions& options) {
  auto cards = std::make_shared<Cards>();
  cards->devices = count;
  cards->several_processes = options.several_processes;
  const int used = PlaceOfGpu(options, count - 1).card + 1;
  std::vector<size_t> limits;  // by index in cards->cards
  for (int i = 0; i < used; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Card> card, Card::Open(ordinals[i]));
    const auto cannot_open = [&](const absl::Status& why) {
      return absl::Status(why.code(), absl::StrCat("Cannot open ", card->label(), ": ", why.message()));
    };
    const absl::Status nvrtc = CheckNvrtc(card->capability().first, card->capability().second);
    if (!nvrtc.ok()) return cannot_open(nvrtc);
    ASSIGN_OR_RETURN(const size_t free, card->FreeMemory());
    const absl::StatusOr<size_t> limit = GpuMemoryLimit(options, card->total_memory(), free);
    if (!limit.ok()) return cannot_open(limit.status());
    limits.push_back(*limit);
    cards->cards.push_back(std::move(card));
  }
  ASSIGN_OR_RETURN(cards->peers, ConnectPeers(cards->cards, options.peer_through_host));
  std::vector<std::unique_ptr<Device>> devices;
  for (int id = 0; id < count; ++id) {
    const GpuPlace place = PlaceOfGpu(options, id);
    const Card& card = *cards->cards[place.card];
    const size_t limit = limits[place.card];
    auto device = std::make_unique<CudaDevice>(DeviceName::Full(options.job, 0, options.task, "GPU", id), cards, card,
                                               Describe(card, options, place.part, limit), limit, options.math);
    if (!options.gpu_memory_growth) RETURN_IF_ERROR(device->Reserve());
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

absl::StatusOr<int> CountCudaDevices(const DeviceOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int> cards, FindCards(options));
  return static_cast<int>(cards.size()) * options.virtual_gpus;
}

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenCudaDevices(int count, const DeviceOptions& options) {
  absl::StatusOr<std::vector<int>> cards = FindCards(options);
  if (cards.ok()) cards = CardsOfProcess(options, count, *std::move(cards));
  if (cards.status().code() == absl::StatusCode::kInvalidArgument) return cards.status();
  const int available = cards.ok() ? static_cast<int>(cards->size()) * options.virtual_gpus : 0;
  if (count <= available) return Open(count, *cards, options);
  const std::string asked = absl::StrCat("Requested ", count, count == 1 ? " GPU" : " GPUs", ", but found ", available);
  if (!cards.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(asked, ": ", cards.status().message(), "; use cpu:N"));
  }
  return absl::InvalidArgumentError(absl::StrCat(asked, ": ", cards->size(), cards->size() == 1 ? " card" : " cards",
                                                 ", each opened as ", options.virtual_gpus,
                                                 "; increase virtual_gpus to open each card as more GPUs"));
}

}  // namespace belfry
