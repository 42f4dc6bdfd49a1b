#include "trainers/flags/device_flags.h"

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, devices, "cpu:1",
          "Devices to open: cpu:N for N logical CPU devices that share the cores, gpu:N for N GPUs. Each runs one "
          "tower, or its share of --towers.");
ABSL_FLAG(int, threads_per_device, 0, "Threads per CPU device; 0 divides the cores evenly.");
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
          .ignore_launcher = absl::GetFlag(FLAGS_world) == World::kNone,
          .virtual_gpus = absl::GetFlag(FLAGS_virtual_gpus),
          .gpu_memory = absl::GetFlag(FLAGS_gpu_memory),
          .gpu_memory_growth = absl::GetFlag(FLAGS_gpu_memory_growth),
          .visible_gpus = absl::GetFlag(FLAGS_visible_gpus),
          .peer_through_host = absl::GetFlag(FLAGS_gpu_copy_through_host)};
}

}  // namespace belfry::trainers
