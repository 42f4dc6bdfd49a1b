#include "framework/device/device_set.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/check.h"
#include "framework/base/launcher.h"
#include "framework/base/status.h"
#include "framework/device/cpu/cpu_device.h"
#include "framework/device/gpu_options.h"

namespace belfry {
namespace {

constexpr int kMaxDevices = 1024, kMaxThreads = 1024;

struct Counts {
  int cpu = 0, gpu = 0;
};

absl::StatusOr<Counts> ParseSpec(absl::string_view spec) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot open devices '", spec, "': ", why,
                     "; expected cpu:N, gpu:N or both, such as 'cpu:4' or 'cpu:1,gpu:2'"));
  };
  Counts counts;
  for (absl::string_view part : absl::StrSplit(spec, ',')) {
    const std::vector<std::string> fields = absl::StrSplit(absl::StripAsciiWhitespace(part), ':');
    int number = 1;
    if (fields.size() > 2) return wrong("too many colons");
    if (fields.size() == 2 && !absl::SimpleAtoi(fields[1], &number)) {
      number = 0;
      if (fields[1].empty() || !absl::c_all_of(fields[1], absl::ascii_isdigit)) {
        return wrong(absl::StrCat("'", fields[1], "' is not a number"));
      }
    }
    if (number < 1 || number > kMaxDevices) return wrong(absl::StrCat("the number must be 1 to ", kMaxDevices));
    const std::string type = absl::AsciiStrToLower(fields[0]);
    if (type != "cpu" && type != "gpu") return wrong(absl::StrCat("unknown type '", fields[0], "'"));
    int& count = type == "cpu" ? counts.cpu : counts.gpu;
    if (count != 0) return wrong(absl::StrCat("'", type, "' is given twice"));
    count = number;
  }
  if (counts.cpu == 0) counts.cpu = 1;
  return counts;
}

absl::Status CheckAlone() {
  const Launch launch = FindLaunch();
  if (launch.processes == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "This is one of ", launch.processes, " processes started by ", launch.launcher,
      ", but this program cannot train in several processes: each would train a model of its own. Start one process "
      "with several devices, such as --devices=cpu:",
      launch.processes, ", or let them run independently with --world=none (DeviceOptions::ignore_launcher)"));
}

}  // namespace

absl::StatusOr<DeviceSet> DeviceSet::Open(absl::string_view spec, const DeviceOptions& options) {
  ASSIGN_OR_RETURN(const Counts counts, ParseSpec(spec));
  if (options.cpu_threads < 0 || options.cpu_threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat("Cannot open CPU devices with ", options.cpu_threads,
                                                   " threads each; expected 0 (a share of the cores) to ",
                                                   kMaxThreads));
  }
  RETURN_IF_ERROR(CheckGpuOptions(options));
  if (!options.ignore_launcher) RETURN_IF_ERROR(CheckAlone());
  std::vector<std::unique_ptr<Device>> devices = OpenCpuDevices(counts.cpu, options);
  if (counts.gpu > 0) {
    ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Device>> gpus, OpenGpuDevices(counts.gpu, options));
    devices.insert(devices.end(), std::make_move_iterator(gpus.begin()), std::make_move_iterator(gpus.end()));
  }
  return DeviceSet(std::move(devices));
}

DeviceSet::DeviceSet(std::vector<std::unique_ptr<Device>> devices) : devices_(std::move(devices)) {
  const auto key = [](const std::unique_ptr<Device>& device) {
    const DeviceName& name = device->name();
    BELFRY_CHECK(name.IsFull());
    return std::tuple(*name.type != "CPU", *name.type, *name.job, *name.replica, *name.task, *name.id);
  };
  std::sort(devices_.begin(), devices_.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

int DeviceSet::Find(const DeviceName& name) const {
  for (int i = 0; i < size(); ++i) {
    if (MergeOverride(devices_[i]->name(), name) == devices_[i]->name()) return i;
  }
  return -1;
}

std::vector<int> DeviceSet::TowerDevices() const {
  std::vector<int> cpus, gpus;
  for (int i = 0; i < size(); ++i) (devices_[i]->type() == "GPU" ? gpus : cpus).push_back(i);
  return gpus.empty() ? cpus : gpus;
}

std::string DeviceSet::MappingText() const {
  std::string text = "Device mapping:\n";
  for (int i : TowerDevices()) {
    absl::StrAppend(&text, device(i).name().ToLegacyString(), " -> ", device(i).description(), "\n");
  }
  return text;
}

}  // namespace belfry
