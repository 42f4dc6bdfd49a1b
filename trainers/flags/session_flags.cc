#include "trainers/flags/session_flags.h"

#include "absl/flags/flag.h"
#include "absl/flags/marshalling.h"
#include "absl/strings/str_cat.h"
#include "framework/base/module.h"
#include "framework/base/status.h"
#include "framework/device/described_gpu.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(std::string, as, "",
          "With --explain and --devices=gpu:N: plan for N cards that need not be there, v100, a100, a100_40gb, h100, "
          "h200 or a file of lines 'key value' (docs/gpus.md), and predict the time of a step.");
ABSL_FLAG(
    std::string, as_trace, "",
    "With --as: a trace.json that --trace wrote of the same model on such a card. The times of its kernels replace "
    "predicted ones.");
ABSL_FLAG(bool, bind_threads, true,
          "Pin the threads of each CPU device to their own cores when several devices together use every core.");
ABSL_FLAG(bool, tf32, true,
          "On GPUs, allow TF32 (10 bits of mantissa) in float32 products and convolutions, which is much faster.");
ABSL_FLAG(
    bool, winograd, true,
    "On CPUs, allow Winograd's algorithm for convolutions, which is much faster; rounding errors are four to five "
    "times as large, and 7 to 15 times in the gradients of filters.");
ABSL_FLAG(bool, deterministic, false,
          "On GPUs, compute the same bits in every run: kernels are chosen by rule instead of by timing them, and "
          "never one whose sums depend on timing.");

ABSL_FLAG(bool, cuda_graphs, true, "On GPUs, capture a steady step as a CUDA graph and replay it.");
ABSL_FLAG(bool, log_device_placement, false, "Print the device of every node.");
ABSL_FLAG(bool, allow_soft_placement, false,
          "If a requested device does not exist, use one that does, and log the change.");
ABSL_FLAG(
    bool, verify_plan, false,
    "Prove of each plan, before it runs, that every kernel reads what the program says, in any order of execution "
    "that the plan allows, and that averages and updates are those of the graph, with all towers; print the "
    "certificate. A flaw ends the run.");
ABSL_FLAG(std::string, dump_plan, "",
          "Directory for the program after every compiler pass, as text and as Graphviz. Created if missing.");
ABSL_FLAG(double, step_timeout, -1,
          "Time limit of a training or evaluation step in seconds; a step that exceeds it ends the run with an error "
          "that says which device waits for what. 0: no limit; -1: none in one process, 600 among several.");
ABSL_FLAG(bool, debug_sync, false, "Wait for every op, so that a GPU error names the op that caused it. Slow.");
ABSL_FLAG(bool, check_numerics, false,
          "Check every result: the first op with a NaN or an infinity ends the run with an error that names the op and "
          "its source line. Slow.");
ABSL_FLAG(double, recheck, 0,
          "On CPUs, the share of the ops of each step, from 0 to 1, that are computed twice, on other cores the second "
          "time, to find faults of the hardware that raise no error: with 0.01 each op is computed twice in one of 100 "
          "steps, for 1 to 2 % more time if these take some milliseconds. A difference ends the run before it is saved "
          "(docs/audit.md).");
ABSL_FLAG(std::string, recompute, "none",
          "Activations to recompute in the backward pass instead of keeping them: less memory for more time, with the "
          "same bits. none; cheap: those that follow from kept ones without a convolution or matrix product; sqrt: all "
          "but those between segments, about as many as the square root of the number of layers.");

namespace belfry::trainers {

absl::StatusOr<std::optional<GpuCard>> CardFromFlags() {
  const std::string as = absl::GetFlag(FLAGS_as);
  if (as.empty()) return std::nullopt;
  absl::StatusOr<GpuCard> card = GpuCard::Find(as);
  if (!card.ok()) return absl::Status(card.status().code(), absl::StrCat("--as: ", card.status().message()));
  return *std::move(card);
}

absl::StatusOr<KernelTimes> MeasuredTimesFromFlags() {
  const std::string path = absl::GetFlag(FLAGS_as_trace);
  if (path.empty()) return KernelTimes();
  if (absl::GetFlag(FLAGS_as).empty()) {
    return absl::InvalidArgumentError("--as_trace has the times of kernels on a card; set --as as well");
  }
  absl::StatusOr<KernelTimes> times = ReadKernelTimes(path);
  if (!times.ok()) return absl::Status(times.status().code(), absl::StrCat("--as_trace: ", times.status().message()));
  return times;
}

namespace {

absl::StatusOr<DeviceSet> OpenOrDescribe(const DeviceOptions& options) {
  const std::string spec = absl::GetFlag(FLAGS_devices);
  ASSIGN_OR_RETURN(const std::optional<GpuCard> card, CardFromFlags());
  if (!card.has_value()) return DeviceSet::Open(spec, options);
  RETURN_IF_ERROR(RejectFlags({"virtual_gpus", "gpu_memory", "gpu_memory_growth", "visible_gpus"}, "a run with --as"));
  ASSIGN_OR_RETURN(
      DeviceSet devices,
      OpenDescribedGpus(spec, {.model = card->model, .memory_bytes = static_cast<size_t>(card->memory)}, options));
  if (const absl::Status module = Module::Load("cuda").status(); !module.ok()) {
    return absl::Status(module.code(), absl::StrCat("--as needs the kernels for GPUs: ", module.message()));
  }
  return devices;
}

}  // namespace

absl::StatusOr<DeviceSet> OpenDevices(DeviceOptions options) {
  options.bind_threads = absl::GetFlag(FLAGS_bind_threads);
  options.math = {.tf32 = absl::GetFlag(FLAGS_tf32),
                  .deterministic = absl::GetFlag(FLAGS_deterministic),
                  .winograd = absl::GetFlag(FLAGS_winograd)};
  ASSIGN_OR_RETURN(DeviceSet devices, OpenOrDescribe(options));
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

absl::StatusOr<SessionOptions> SessionOptionsFromFlags(const DeviceSet& devices) {
  const double limit = absl::GetFlag(FLAGS_step_timeout);
  if (!(limit >= 0) && limit != -1) {
    return absl::InvalidArgumentError(absl::StrCat("--step_timeout=", limit, " must be at least 0, or -1"));
  }
  const absl::StatusOr<Recompute> recompute = ParseRecompute(absl::GetFlag(FLAGS_recompute));
  if (!recompute.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--recompute: ", recompute.status().message()));
  }
  const double recheck = absl::GetFlag(FLAGS_recheck);
  if (!(recheck >= 0 && recheck <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("--recheck=", absl::UnparseFlag(recheck), " must be from 0 to 1"));
  }
  if (devices.device(devices.TowerDevices()[0]).type() != "GPU") {
    RETURN_IF_ERROR(RejectFlags({"cuda_graphs"}, absl::StrCat("a run on --devices=", absl::GetFlag(FLAGS_devices))));
  } else if (recheck > 0) {
    return absl::UnimplementedError(absl::StrCat("--recheck=", recheck, " computes ops again on CPUs only, and the ",
                                                 "towers of --devices=", absl::GetFlag(FLAGS_devices), " are on GPUs"));
  }
  RETURN_IF_ERROR(MakeDirectory("dump_plan", absl::GetFlag(FLAGS_dump_plan)));
  SessionOptions options{.allow_soft_placement = absl::GetFlag(FLAGS_allow_soft_placement),
                         .log_device_placement = absl::GetFlag(FLAGS_log_device_placement),
                         .replay = absl::GetFlag(FLAGS_cuda_graphs),
                         .debug_sync = absl::GetFlag(FLAGS_debug_sync),
                         .check_numerics = absl::GetFlag(FLAGS_check_numerics),
                         .recompute = *recompute,
                         .verify_plan = absl::GetFlag(FLAGS_verify_plan),
                         .dump_plan = absl::GetFlag(FLAGS_dump_plan),
                         .recheck = recheck};
  if (limit > 0) options.timeout = absl::Seconds(limit);
  return options;
}

}  // namespace belfry::trainers
