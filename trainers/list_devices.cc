// Lists the devices of a machine.
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/device_flags.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] =
    R"(Lists the devices that a program can use: their short and full names, descriptions and memory,
and whether there is a GPU.

  list_devices                  # the CPU as one device, and every GPU
  list_devices --devices=cpu:4  # the CPU as four logical devices, each with its share of the cores
  list_devices --devices=gpu:2 --virtual_gpus=2 --gpu_memory=8GiB  # one GPU as two
)";

struct Listing {
  DeviceSet devices;
  absl::Status no_gpus;  // why there are none
};

// Opens --devices and, if it does not mention GPUs, all GPUs.
absl::StatusOr<Listing> OpenAll() {
  const std::string spec = absl::AsciiStrToLower(absl::GetFlag(FLAGS_devices));
  const DeviceOptions options = DeviceOptionsFromFlags();
  Listing listing;
  ASSIGN_OR_RETURN(listing.devices, DeviceSet::Open(spec, options));
  if (absl::StrContains(spec, "gpu")) return listing;
  const absl::StatusOr<int> gpus = CountGpuDevices(options);
  if (absl::IsInvalidArgument(gpus.status())) return gpus.status();
  listing.no_gpus = gpus.status();
  if (gpus.ok()) {
    ASSIGN_OR_RETURN(listing.devices, DeviceSet::Open(absl::StrCat(spec, ",gpu:", *gpus), options));
  }
  return listing;
}

void Print(const Device& device) {
  const DeviceCounters counters = device.counters();
  std::printf("%s\n", device.name().ToLegacyString().c_str());
  std::printf("  full name:    %s\n", device.name().ToString().c_str());
  std::printf("  description:  %s\n", device.description().c_str());
  std::printf("  memory:       %.0f MiB\n", counters.memory_limit / kMebi);
  std::printf("  in use:       %.1f MiB, at most %.1f MiB, in %lld allocations\n", counters.bytes_in_use / kMebi,
              counters.peak_bytes_in_use / kMebi, static_cast<long long>(counters.allocations));
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const Listing listing, OpenAll());
  bool gpu = false;
  for (int i = 0; i < listing.devices.size(); ++i) {
    Print(listing.devices.device(i));
    gpu = gpu || listing.devices.device(i).type() == "GPU";
  }
  if (gpu) {
    std::printf("GPU: yes\n");
  } else {
    std::printf("GPU: no (%s)\n", std::string(listing.no_gpus.message()).c_str());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  belfry::trainers::ParseCommandLine(argc, argv, belfry::trainers::kUsage);
  return belfry::trainers::ExitStatus(belfry::trainers::Run());
}
