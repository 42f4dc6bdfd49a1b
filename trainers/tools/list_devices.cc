// Lists the devices of a machine or, under mpirun or srun, of all machines of a run.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
  mpirun -n 2 list_devices      # those of two processes, on whichever machines they are
)";

struct Listing {
  DeviceSet devices;
  absl::Status no_gpus;  // why there are none
};

// Opens --devices and, if it does not mention GPUs, all GPUs.
absl::StatusOr<Listing> OpenAll(const DeviceFlags& flags, const World& world) {
  const std::string spec = absl::AsciiStrToLower(flags.devices);
  const DeviceOptions options = flags.OptionsOf(world);
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

std::string Describe(const Device& device) {
  const DeviceCounters counters = device.counters();
  return absl::StrCat(
      device.name().ToLegacyString(), "\n  full name:    ", device.name().ToString(),
      "\n  description:  ", device.description(),
      absl::StrFormat("\n  memory:       %.0f MiB", counters.memory_limit / kMebi),
      absl::StrFormat("\n  in use:       %.1f MiB, at most %.1f MiB, in %d allocations\n",
                      counters.bytes_in_use / kMebi, counters.peak_bytes_in_use / kMebi, counters.allocations));
}

// The devices of this process.
absl::StatusOr<std::string> List(const DeviceFlags& flags, const World& world) {
  ASSIGN_OR_RETURN(const Listing listing, OpenAll(flags, world));
  std::string text;
  bool gpu = false;
  for (int i = 0; i < listing.devices.size(); ++i) {
    absl::StrAppend(&text, Describe(listing.devices.device(i)));
    gpu = gpu || listing.devices.device(i).type() == "GPU";
  }
  return gpu ? text + "GPU: yes\n" : absl::StrCat(text, "GPU: no (", listing.no_gpus.message(), ")\n");
}

absl::StatusOr<int> Run(DeviceFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<World> world, flags.OpenWorld());
  const absl::StatusOr<std::string> mine = List(flags, *world);
  if (world->size() == 1) {
    RETURN_IF_ERROR(mine.status());
    std::printf("%s", mine->c_str());
    return 0;
  }
  // A process that cannot open its devices says so in its place, since the others wait for its answer.
  const std::string text = mine.ok() ? *mine : absl::StrCat("Error: ", mine.status().ToString(), "\n");
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, world->AllGather(text, flags.StartDeadline()));
  if (world->rank() == 0) {
    std::printf("%d processes, connected by %s\n", world->size(), world->library().c_str());
    for (int i = 0; i < world->size(); ++i) {
      std::printf("\n%s\n%s", belfry::Describe(i, world->processes()[i]).c_str(), texts[i].c_str());
    }
  }
  RETURN_IF_ERROR(world->Close(flags.StartDeadline()));
  RETURN_IF_ERROR(mine.status());
  return 0;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags table;
  DeviceFlags flags(table);
  return RunProgram(argc, argv, kUsage, table, [&] { return Run(flags); });
}
