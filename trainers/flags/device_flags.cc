#include "trainers/flags/device_flags.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/open_world.h"
#include "framework/collective/world_collective.h"
#include "trainers/flags/command_line.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/loop/task_sync.h"

namespace belfry::trainers {

DeviceFlags::DeviceFlags(Flags& flags) : all(flags) {
  flags.Section("Devices and processes");
  flags.Add("devices", &devices, PerTask(),
            "Devices to open: cpu:N for N logical CPU devices that share the cores, gpu:N for N GPUs. Each runs one "
            "tower, or its share of --towers.");
  flags.Add("threads_per_device", &options.cpu_threads, PerTask(),
            "Threads per CPU device; 0 divides the cores evenly.");
  flags.Add("virtual_gpus", &options.virtual_gpus,
            "GPU devices per card: with 2, gpu:4 opens /gpu:0 and /gpu:1 on the first card, /gpu:2 and /gpu:3 on the "
            "second.");
  flags.Add("gpu_memory", &options.gpu_memory, PerTask(),
            "Memory limit of each GPU device: a fraction of its card such as 0.4, or a size such as 4GiB, 4096MiB or a "
            "number of bytes. Empty: an equal share of the free memory, less a margin for the driver and libraries.");
  flags.Add("gpu_memory_growth", &options.gpu_memory_growth, PerTask(),
            "Allocate GPU memory on demand; false reserves the limit at startup.");
  flags.Add("visible_gpus", &options.visible_gpus, PerTask(),
            "GPU cards to use, in this order, such as 0,2. Empty: all. CUDA_VISIBLE_DEVICES applies first: the numbers "
            "index the cards that it leaves visible.");
  flags.Add("gpu_copy_through_host", &options.peer_through_host,
            "Copy between GPU cards through host memory, for machines whose direct path is broken.");
  flags.Add("world", &world, OneOf("worlds", {"auto", "none"}),
            "Processes of one run. auto: those that a launcher (mpirun, srun) started train one model, and a program "
            "that cannot do that ends with an error. none: ignore the launcher; each process runs by itself.");
  flags.Add(
      "start_timeout", &start_timeout, Above(0),
      "Seconds that processes started by a launcher wait for each other at the start, at the end, and between steps.");
}

absl::Time DeviceFlags::StartDeadline() const { return SteadyNow() + StartTimeout(); }

absl::StatusOr<std::unique_ptr<World>> DeviceFlags::OpenWorld() {
  options.ignore_launcher = world == "none";
  if (options.ignore_launcher) return World::Alone();
  absl::StatusOr<std::unique_ptr<World>> opened = belfry::OpenWorld(FindLaunch(), StartDeadline());
  if (absl::IsFailedPrecondition(opened.status()) || absl::IsNotFound(opened.status())) {
    return absl::Status(opened.status().code(),
                        absl::StrCat(opened.status().message(), "; with --world=none each process runs by itself"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<World> several, std::move(opened));
  if (several->size() == 1) return several;
  // First of all: which messages processes exchange depends on the flags.
  std::vector<std::string> lines = all.SharedLines();
  lines.insert(lines.begin(), program_invocation_short_name);
  RETURN_IF_ERROR(CheckSameLines(*several, "flags", lines, StartDeadline()));
  return several;
}

DeviceOptions DeviceFlags::OptionsOf(const World& world) const { return OptionsOfTask(world, options); }

int RunInWorld(int argc, char** argv, absl::string_view usage, DeviceFlags& flags,
               absl::FunctionRef<absl::StatusOr<int>(World&)> run) {
  return RunProgram(argc, argv, usage, flags.all, [&]() -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(const std::unique_ptr<World> world, flags.OpenWorld());
    ASSIGN_OR_RETURN(const int signal, RunInWorld(*world, run, flags.StartTimeout()));
    return signal == 0 ? 0 : 128 + signal;
  });
}

}  // namespace belfry::trainers
