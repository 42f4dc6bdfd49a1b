#include "trainers/flags/device_flags.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(std::string, devices, "cpu:1",
          "Devices to open: cpu:N for N logical CPU devices that share the cores, gpu:N for N GPUs. Each runs one "
          "tower.");
ABSL_FLAG(int, threads_per_device, 0, "Threads per CPU device; 0 divides the cores evenly.");
ABSL_FLAG(bool, bind_threads, true,
          "Pin the threads of each CPU device to their own cores when several devices together use every core.");
ABSL_FLAG(int, virtual_gpus, 1,
          "GPU devices per card: with 2, gpu:4 opens /gpu:0 and /gpu:1 on the first card, /gpu:2 and /gpu:3 on the "
          "second.");
ABSL_FLAG(std::string, gpu_memory, "",
          "Memory limit of each GPU device: a fraction of its card such as 0.4, or a size such as 4GiB, 4096MiB or a "
          "number of bytes. Default: an equal share of the free memory, less a margin for the driver and libraries.");
ABSL_FLAG(bool, gpu_memory_growth, true, "Allocate GPU memory on demand; false reserves the limit at startup.");
ABSL_FLAG(std::string, visible_gpus, "",
          "GPU cards to use, in this order, such as 0,2. Default: all. CUDA_VISIBLE_DEVICES applies first: the numbers "
          "index the cards that it leaves visible.");
ABSL_FLAG(bool, tf32, true,
          "On GPUs, allow TF32 (10 bits of mantissa) in float32 products and convolutions, which is much faster.");
ABSL_FLAG(
    bool, winograd, true,
    "On CPUs, allow Winograd's algorithm for convolutions, which is much faster; rounding errors are four to five "
    "times as large, and 7 to 15 times in the gradients of filters.");
ABSL_FLAG(bool, deterministic, false,
          "On GPUs, compute the same bits in every run: kernels are chosen by rule instead of by timing them, and "
          "never one whose sums depend on timing.");
ABSL_FLAG(bool, gpu_copy_through_host, false,
          "Copy between GPU cards through host memory, for machines whose direct path is broken.");

namespace belfry::trainers {
namespace {

enum class World { kAuto, kNone };

bool AbslParseFlag(absl::string_view text, World* world, std::string* error) {
  *error = "expected auto or none";
  *world = text == "none" ? World::kNone : World::kAuto;
  return text == "none" || text == "auto";
}
std::string AbslUnparseFlag(World world) { return world == World::kNone ? "none" : "auto"; }

}  // namespace
}  // namespace belfry::trainers

ABSL_FLAG(
    belfry::trainers::World, world, belfry::trainers::World::kAuto,
    "Processes of one run. auto: those that a launcher (mpirun, srun) started train one model, and a program that "
    "cannot do that ends with an error. none: ignore the launcher; each process runs by itself.");

namespace belfry::trainers {

DeviceOptions DeviceOptionsFromFlags() {
  return {.cpu_threads = absl::GetFlag(FLAGS_threads_per_device),
          .bind_threads = absl::GetFlag(FLAGS_bind_threads),
          .ignore_launcher = absl::GetFlag(FLAGS_world) == World::kNone,
          .virtual_gpus = absl::GetFlag(FLAGS_virtual_gpus),
          .gpu_memory = absl::GetFlag(FLAGS_gpu_memory),
          .gpu_memory_growth = absl::GetFlag(FLAGS_gpu_memory_growth),
          .visible_gpus = absl::GetFlag(FLAGS_visible_gpus),
          .peer_through_host = absl::GetFlag(FLAGS_gpu_copy_through_host),
          .math = {.tf32 = absl::GetFlag(FLAGS_tf32),
                   .deterministic = absl::GetFlag(FLAGS_deterministic),
                   .winograd = absl::GetFlag(FLAGS_winograd)}};
}

absl::StatusOr<DeviceSet> OpenDevices(const DeviceOptions& options) {
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open(absl::GetFlag(FLAGS_devices), options));
  const std::string context = absl::StrCat("a run on --devices=", absl::GetFlag(FLAGS_devices));
  if (devices.device(devices.TowerDevices()[0]).type() == "GPU") {
    RETURN_IF_ERROR(RejectFlags({"winograd"}, context));
  } else {
    RETURN_IF_ERROR(RejectFlags({"virtual_gpus", "gpu_memory", "gpu_memory_growth", "visible_gpus", "tf32",
                                 "deterministic", "gpu_copy_through_host"},
                                context));
  }
  return devices;
}

}  // namespace belfry::trainers
