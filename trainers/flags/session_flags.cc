#include "trainers/flags/session_flags.h"

#include "absl/strings/str_cat.h"
#include "framework/base/module.h"
#include "framework/base/status.h"
#include "framework/device/described_gpu.h"
#include "trainers/flags/command_line.h"
#include "trainers/loop/run_in_world.h"

namespace belfry::trainers {
namespace {

bool OnGpus(const DeviceSet& devices) { return devices.device(devices.TowerDevices()[0]).type() == "GPU"; }

absl::StatusOr<DeviceSet> OpenOrDescribe(const SessionFlags& flags, const DeviceOptions& options) {
  ASSIGN_OR_RETURN(const std::optional<GpuCard> card, flags.Card());
  if (!card.has_value()) return DeviceSet::Open(flags.device.devices, options);
  RETURN_IF_ERROR(
      flags.device.all.Reject({"virtual_gpus", "gpu_memory", "gpu_memory_growth", "visible_gpus"}, "a run with --as"));
  ASSIGN_OR_RETURN(
      DeviceSet devices,
      OpenDescribedGpus(flags.device.devices, {.model = card->model, .memory_bytes = static_cast<size_t>(card->memory)},
                        options));
  if (const absl::Status module = Module::Load("cuda").status(); !module.ok()) {
    return absl::Status(module.code(), absl::StrCat("--as needs the kernels for GPUs: ", module.message()));
  }
  return devices;
}

}  // namespace

SessionFlags::SessionFlags(Flags& flags, DeviceFlags& device_flags) : device(device_flags) {
  MathMode& math = device.options.math;
  flags.Section("Computation");
  flags.Add("bind_threads", &device.options.bind_threads,
            "Pin the threads of each CPU device to their own cores when several devices together use every core.");
  flags.Add("tf32", &math.tf32,
            "On GPUs, allow TF32 (10 bits of mantissa) in float32 products and convolutions, which is much faster.");
  flags.Add("winograd", &math.winograd,
            "On CPUs, allow Winograd's algorithm for convolutions, which is much faster; rounding errors are four to "
            "five times as large, and 7 to 15 times in the gradients of filters. One infinite or very large value also "
            "spoils results beside it.");
  flags.Add("deterministic", &math.deterministic,
            "On GPUs, compute the same bits in every run: kernels are chosen by rule instead of by timing them, and "
            "never one whose sums depend on timing.");
  flags.Add("cuda_graphs", &options.replay, "On GPUs, capture a steady step as a CUDA graph and replay it.");
  flags.Add("recompute", &recompute, OneOf("choices", {"none", "cheap", "sqrt"}),
            "Activations to recompute in the backward pass instead of keeping them: less memory for more time, with "
            "the same bits. none; cheap: those that follow from kept ones without a convolution or matrix product; "
            "sqrt: all but those between segments, about as many as the square root of the number of layers.");
  flags.Add("allow_soft_placement", &options.allow_soft_placement,
            "If a requested device does not exist, use one that does, and log the change.");

  flags.Section("Diagnostics");
  flags.Add("as", &as,
            "With --explain and --devices=gpu:N: plan for N cards that need not be there, v100, a100, a100_40gb, h100, "
            "h200 or a file of lines 'key value' (docs/gpus.md), and predict the time of a step.");
  flags.Add("log_device_placement", &options.log_device_placement, PerTask(), "Print the device of every node.");
  flags.Add("verify_plan", &options.verify_plan,
            "Prove of each plan, before it runs, that every kernel reads what the program says, in any order of "
            "execution that the plan allows, and that averages and updates are those of the graph, with all towers; "
            "print the certificate. A flaw ends the run.");
  flags.Add("dump_plan", &options.dump_plan, PerTask(),
            "Directory for the program after every compiler pass, as text and as Graphviz. Created if missing.");
  flags.Add("step_timeout", &step_timeout, Range(0).Or(-1),
            "Time limit of a training or evaluation step in seconds; a step that exceeds it ends the run with an error "
            "that says which device waits for what. 0: no limit; -1: none in one process, 600 among several.");
  flags.Add("debug_sync", &options.debug_sync,
            "Wait for every op, so that a GPU error names the op that caused it. Slow.");
  flags.Add("check_numerics", &options.check_numerics,
            "Check every result: the first op with a NaN or an infinity ends the run with an error that names the op "
            "and its source line. Slow.");
  flags.Add(
      "recheck", &options.recheck, Range(0, 1),
      "On CPUs, the share of the ops of each step that are computed twice, on other cores the second time, to find "
      "faults of the hardware that raise no error: with 0.01 each op is computed twice in one of 100 steps, for 1 to 2 "
      "% more time if these take some milliseconds. A difference ends the run before it is saved (docs/audit.md).");
}

absl::StatusOr<std::optional<GpuCard>> SessionFlags::Card() const {
  if (as.empty()) return std::nullopt;
  absl::StatusOr<GpuCard> card = GpuCard::Find(as);
  if (!card.ok()) return absl::Status(card.status().code(), absl::StrCat("--as: ", card.status().message()));
  return *std::move(card);
}

absl::StatusOr<DeviceSet> SessionFlags::OpenDevices(World& world) const {
  RETURN_IF_ERROR(ShareCores(world, device.StartTimeout()));
  ASSIGN_OR_RETURN(DeviceSet devices, OpenOrDescribe(*this, device.OptionsOf(world)));
  const std::string context = absl::StrCat("a run on --devices=", device.devices);
  if (OnGpus(devices)) {
    RETURN_IF_ERROR(device.all.Reject({"winograd"}, context));
  } else {
    RETURN_IF_ERROR(device.all.Reject({"virtual_gpus", "gpu_memory", "gpu_memory_growth", "visible_gpus", "tf32",
                                       "deterministic", "gpu_copy_through_host"},
                                      context));
  }
  return devices;
}

absl::StatusOr<SessionOptions> SessionFlags::OptionsFor(const DeviceSet& devices) const {
  if (!OnGpus(devices)) {
    RETURN_IF_ERROR(device.all.Reject({"cuda_graphs"}, absl::StrCat("a run on --devices=", device.devices)));
  } else if (options.recheck > 0) {
    return absl::UnimplementedError(absl::StrCat("--recheck=", options.recheck,
                                                 " computes ops again on CPUs only, and ",
                                                 "the towers of --devices=", device.devices, " are on GPUs"));
  }
  RETURN_IF_ERROR(MakeDirectory("dump_plan", options.dump_plan));
  SessionOptions chosen = options;
  ASSIGN_OR_RETURN(chosen.recompute, ParseRecompute(recompute));
  if (step_timeout > 0) chosen.timeout = absl::Seconds(step_timeout);
  return chosen;
}

}  // namespace belfry::trainers
