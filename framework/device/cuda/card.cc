#include "framework/device/cuda/card.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/device/gpu_support.h"

namespace belfry {
namespace {

// True for errors after which every later CUDA call in the process fails.
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable: return true;
    default: return false;
  }
}

}  // namespace

Card::Card(int ordinal) : ordinal_(ordinal), label_(absl::StrCat("CUDA device ", ordinal)) {}

absl::StatusOr<std::unique_ptr<Card>> Card::Open(int ordinal) {
  auto card = std::unique_ptr<Card>(new Card(ordinal));
  RETURN_IF_ERROR(card->MakeCurrent());
  RETURN_IF_ERROR(card->Check(cudaFree(nullptr), "creating its context"));
  RETURN_IF_ERROR(card->Describe());
  return card;
}

absl::Status Card::Describe() {
  cudaDeviceProp properties;
  char bus[32] = "";
  RETURN_IF_ERROR(Check(cudaGetDeviceProperties(&properties, ordinal_), "cudaGetDeviceProperties"));
  RETURN_IF_ERROR(Check(cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal_), "cudaDeviceGetPCIBusId"));
  capability_ = {properties.major, properties.minor};
  total_memory_ = properties.totalGlobalMem;
  model_ = properties.name;
  label_ = absl::StrCat("CUDA device ", ordinal_, " (", properties.name, ")");
  description_ = absl::StrFormat("device: %d, name: %s, pci bus id: %s, compute capability: %d.%d, memory: %.1f GiB",
                                 ordinal_, properties.name, absl::AsciiStrToLower(bus), properties.major,
                                 properties.minor, static_cast<double>(total_memory_) / 0x1p30);
  const absl::Status capable = CheckCapability(properties.major, properties.minor, BELFRY_CUDA_ARCHITECTURES);
  return capable.ok() ? capable : absl::Status(capable.code(), absl::StrCat(label_, ": ", capable.message()));
}

absl::StatusOr<size_t> Card::FreeMemory() const {
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(MakeCurrent());
  RETURN_IF_ERROR(Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  return free;
}

absl::Status Card::Fail(cudaError_t error, const char* call) const {
  cudaGetLastError();  // Otherwise the thread's next kernel launch would report this error.
  const std::string text = absl::StrCat(label_, ": ", call, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  if (!IsSticky(error)) return absl::InternalError(text);
  const MutexLock lock(mutex_);
  if (lost_.ok()) {
    lost_ = absl::InternalError(absl::StrCat(
        text, "; an earlier kernel may be the cause, and the device cannot be used until the process is restarted"));
  }
  return lost_;
}

void Peers::Connect(int a, int b) {
  const auto [low, high] = std::minmax({a, b});
  if (connected_.size() <= static_cast<size_t>(low)) connected_.resize(low + 1);
  std::vector<bool>& row = connected_[low];
  if (row.size() < static_cast<size_t>(high - low)) row.resize(high - low, false);
  row[high - low - 1] = true;
}

bool Peers::connected(int a, int b) const {
  if (a == b) return true;
  const auto [low, high] = std::minmax({a, b});
  if (static_cast<size_t>(low) >= connected_.size()) return false;
  const std::vector<bool>& row = connected_[low];
  return static_cast<size_t>(high - low) <= row.size() && row[high - low - 1];
}

}  // namespace belfry
