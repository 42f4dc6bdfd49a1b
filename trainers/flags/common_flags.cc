#include "trainers/flags/common_flags.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"
#include "trainers/loop/metrics.h"

ABSL_FLAG(
    std::string, devices, "cpu:1",
    "Devices to open: cpu:N for N logical CPU devices that share the cores, gpu:N for N GPUs. One tower runs on each.");
ABSL_FLAG(int, threads_per_device, 0, "Threads of each CPU device; 0 shares the cores evenly.");
ABSL_FLAG(bool, bind_threads, true,
          "Where several CPU devices take all cores: keep the threads of each on cores of its own.");
ABSL_FLAG(int, virtual_gpus, 1,
          "Open each GPU card as so many devices: with 2, gpu:4 are /gpu:0 and /gpu:1 on the first card and /gpu:2 and "
          "/gpu:3 on the second.");
ABSL_FLAG(std::string, gpu_memory, "",
          "Memory that each GPU device may use: a share of its card such as 0.4, or 4GiB, 4096MiB or bytes. By default "
          "an even share of what is free, but a margin for the driver and libraries.");
ABSL_FLAG(bool, gpu_memory_growth, true, "Take GPU memory as it is needed; false reserves all of it at the start.");
ABSL_FLAG(std::string, visible_gpus, "",
          "GPU cards to use, in this order, such as 0,2; all by default. The environment variable CUDA_VISIBLE_DEVICES "
          "comes first: these numbers count what it leaves.");
ABSL_FLAG(bool, tf32, true, "Let GPUs multiply float32 numbers with 10 bits of mantissa (TF32), which is much faster.");
ABSL_FLAG(bool, winograd, true,
          "Let CPUs convolve images by Winograd's algorithm, which is much faster; rounding errors are some four "
          "times as large.");
ABSL_FLAG(bool, deterministic, false,
          "On GPUs: the same bits at every run. Kernels are chosen by rule and not by measuring, and none whose sums "
          "depend on timing.");
ABSL_FLAG(bool, cuda_graphs, true, "On GPUs: capture a steady step as a CUDA graph, and replay it.");
ABSL_FLAG(bool, gpu_copy_through_host, false,
          "Copy between GPU cards through host memory, where the direct path is broken or suspected to be.");
ABSL_FLAG(bool, log_device_placement, false, "Print which device runs which node.");
ABSL_FLAG(bool, allow_soft_placement, false,
          "Fall back to a device that exists when the one asked for does not, and say so in the log.");
ABSL_FLAG(std::string, dump_plan, "",
          "A directory for the program after every compiler pass, as text and as Graphviz.");
ABSL_FLAG(double, step_timeout, 0,
          "Seconds that a step of training or evaluation may take; a longer one ends the run, and says which device "
          "waits for what. 0: no limit.");
ABSL_FLAG(bool, debug_sync, false,
          "Wait for every op, so that what goes wrong on a GPU is reported with the op that did it. Slow.");
ABSL_FLAG(bool, check_numerics, false,
          "Look at every result: the first op with a NaN or an infinity ends the run, with its name and line. Slow.");
ABSL_FLAG(int64_t, steps, -1, "Training steps; -1 is the trainer's default.");
ABSL_FLAG(int64_t, batch_size, 128,
          "Examples of a step, over all towers: the result does not depend on how many devices there are, up to "
          "rounding.");
ABSL_FLAG(int64_t, batch_size_per_tower, 0,
          "Examples of a step in each tower, instead of --batch_size: the global batch grows with the devices.");
ABSL_FLAG(std::string, recompute, "none",
          "What the backward pass computes again instead of keeping it from the forward pass: memory for time, and the "
          "same bits. none. cheap: what follows without convolutions and products of matrices from what is kept "
          "anyway. sqrt: all but the borders of about as many segments as the square root of the number of layers.");
ABSL_FLAG(uint64_t, seed, 1, "Of initial values, order of examples, augmentation and dropout.");
ABSL_FLAG(
    std::string, variable_update, "replicated",
    "replicated: a copy of the variables on every device, gradients all-reduced. parameter_device: one copy on /cpu:0. "
    "independent: copies without averaging, to measure what averaging costs.");
ABSL_FLAG(
    std::string, averager, "local",
    "How gradients are averaged: local, in ascending tower order, with the same bits on every device; nccl, among "
    "GPUs, in an order of its own.");
ABSL_FLAG(std::string, data_dir, "", "Where the data is; see the program's description.");
ABSL_FLAG(std::string, train_dir, "",
          "A directory for what the run leaves behind: metrics.jsonl and, of programs that have them, checkpoints, "
          "TensorBoard's event files and traces; made if need be.");
ABSL_FLAG(
    std::string, metrics_file, "",
    "A file that gets one JSON object a line: step, loss, learning_rate, images_per_second, and with a loss scale "
    "loss_scale and skipped_steps; and of evaluations step, test_accuracy, test_top_5, test_loss. Lines are appended.");

namespace belfry::trainers {
namespace {

absl::Status CheckAverager(const DeviceSet& devices) {
  const std::string averager = absl::GetFlag(FLAGS_averager);
  if (averager == "local") return absl::OkStatus();
  if (averager != "nccl") {
    return absl::InvalidArgumentError(absl::StrCat("--averager=", averager, " is not known; known are local and nccl"));
  }
  std::vector<Device*> towers;
  for (int tower : devices.TowerDevices()) towers.push_back(&devices.device(tower));
  absl::Status status = CheckNcclDevices(towers);
  if (status.ok()) status = OpenNccl().status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("--averager=nccl: ", status.message()));
}

}  // namespace

void ParseCommandLine(int argc, char** argv, absl::string_view usage, absl::Span<const absl::string_view> rejected) {
  std::string text(absl::StripTrailingAsciiWhitespace(usage));
  if (!rejected.empty()) absl::StrAppend(&text, "\n\nNot for this program: --", absl::StrJoin(rejected, ", --"), ".");
  const std::vector<std::string> rest = ParseFlags(argc, argv, text);
  if (!rest.empty()) {
    std::fprintf(stderr, "%s: unexpected argument '%s'; flags are --name=value, --help lists them\n", argv[0],
                 rest[0].c_str());
    std::exit(2);
  }
  if (const absl::Status status = RejectFlags(rejected, std::filesystem::path(argv[0]).filename().string());
      !status.ok()) {
    std::exit(ExitStatus(status));
  }
}

absl::Status RejectFlags(absl::Span<const absl::string_view> flags, absl::string_view who) {
  for (absl::string_view name : flags) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    BELFRY_CHECK(flag != nullptr);
    if (flag->CurrentValue() == flag->DefaultValue()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", flag->CurrentValue(), " means nothing to ", who, "; leave it out"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlag(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (low <= value && value <= high) return absl::OkStatus();
  const bool bounded = high < std::numeric_limits<int64_t>::max();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", value, " must be ", bounded ? absl::StrCat(low, " to ", high) : absl::StrCat("at least ", low)));
}

absl::Status CheckLearningRate(double rate) {
  if (std::isfinite(rate) && rate > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--learning_rate=", rate, " must be a number above 0"));
}

DeviceOptions DeviceOptionsFromFlags() {
  return {.cpu_threads = absl::GetFlag(FLAGS_threads_per_device),
          .bind_threads = absl::GetFlag(FLAGS_bind_threads),
          .virtual_gpus = absl::GetFlag(FLAGS_virtual_gpus),
          .gpu_memory = absl::GetFlag(FLAGS_gpu_memory),
          .gpu_memory_growth = absl::GetFlag(FLAGS_gpu_memory_growth),
          .visible_gpus = absl::GetFlag(FLAGS_visible_gpus),
          .peer_through_host = absl::GetFlag(FLAGS_gpu_copy_through_host),
          .math = {.tf32 = absl::GetFlag(FLAGS_tf32),
                   .deterministic = absl::GetFlag(FLAGS_deterministic),
                   .winograd = absl::GetFlag(FLAGS_winograd)}};
}

absl::StatusOr<DeviceSet> OpenDevices() {
  if (const double limit = absl::GetFlag(FLAGS_step_timeout); !(limit >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("--step_timeout=", limit, " must be at least 0"));
  }
  if (const auto recompute = ParseRecompute(absl::GetFlag(FLAGS_recompute)); !recompute.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--recompute: ", recompute.status().message()));
  }
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open(absl::GetFlag(FLAGS_devices), DeviceOptionsFromFlags()));
  if (devices.device(devices.TowerDevices()[0]).type() == "GPU") {
    RETURN_IF_ERROR(RejectFlags({"winograd"}, absl::StrCat("a run on --devices=", absl::GetFlag(FLAGS_devices))));
  } else {
    RETURN_IF_ERROR(RejectFlags({"virtual_gpus", "gpu_memory", "gpu_memory_growth", "visible_gpus", "tf32",
                                 "deterministic", "cuda_graphs", "gpu_copy_through_host"},
                                absl::StrCat("a run on --devices=", absl::GetFlag(FLAGS_devices))));
  }
  RETURN_IF_ERROR(CheckAverager(devices));
  return devices;
}

absl::StatusOr<int64_t> GlobalBatchSize(const DeviceSet& devices, int64_t low, int64_t high) {
  const auto towers = static_cast<int64_t>(devices.TowerDevices().size());
  const int64_t whole = absl::GetFlag(FLAGS_batch_size), per_tower = absl::GetFlag(FLAGS_batch_size_per_tower);
  if (per_tower == 0) {
    RETURN_IF_ERROR(CheckFlag("batch_size", whole, low, high));
    return whole;
  }
  RETURN_IF_ERROR(RejectFlags({"batch_size"}, "a run with --batch_size_per_tower"));
  RETURN_IF_ERROR(CheckFlag("batch_size_per_tower", per_tower, (low + towers - 1) / towers, high / towers));
  return per_tower * towers;
}

SessionOptions SessionOptionsFromFlags() {
  SessionOptions options{.allow_soft_placement = absl::GetFlag(FLAGS_allow_soft_placement),
                         .log_device_placement = absl::GetFlag(FLAGS_log_device_placement),
                         .replay = absl::GetFlag(FLAGS_cuda_graphs),
                         .debug_sync = absl::GetFlag(FLAGS_debug_sync),
                         .check_numerics = absl::GetFlag(FLAGS_check_numerics),
                         .recompute = ParseRecompute(absl::GetFlag(FLAGS_recompute)).value_or(Recompute::kNone),
                         .dump_plan = absl::GetFlag(FLAGS_dump_plan)};
  if (const double limit = absl::GetFlag(FLAGS_step_timeout); limit > 0) options.timeout = absl::Seconds(limit);
  if (absl::GetFlag(FLAGS_averager) == "nccl") options.collectives = NcclFactory();
  return options;
}

absl::StatusOr<models::ReplicateOptions> ReplicateOptionsFromFlags() {
  models::ReplicateOptions options;
  ASSIGN_OR_RETURN(options.variable_update, models::ParseVariableUpdate(absl::GetFlag(FLAGS_variable_update)));
  if (options.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"averager"}, "a run with --variable_update=independent, which averages nothing"));
  }
  return options;
}

absl::StatusOr<int64_t> Steps(int64_t otherwise) {
  const int64_t steps = absl::GetFlag(FLAGS_steps);
  if (steps < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--steps=", steps, " is not a number of steps; -1 is the default, ", otherwise));
  }
  return steps == -1 ? otherwise : steps;
}

absl::StatusOr<std::string> PrepareOutputs() {
  std::string file = absl::GetFlag(FLAGS_metrics_file);
  const std::string train_dir = absl::GetFlag(FLAGS_train_dir), dump_plan = absl::GetFlag(FLAGS_dump_plan);
  for (const auto& [flag, directory] : {std::pair("train_dir", train_dir), std::pair("dump_plan", dump_plan)}) {
    std::error_code error;
    if (directory.empty() || std::filesystem::is_directory(directory, error)) continue;
    std::filesystem::create_directories(directory, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat("Cannot make --", flag, "=", directory, ": ", error.message()));
    }
  }
  if (file.empty() && !train_dir.empty()) file = (std::filesystem::path(train_dir) / "metrics.jsonl").string();
  RETURN_IF_ERROR(MetricsWriter::Open(file).status());
  return file;
}

}  // namespace belfry::trainers
