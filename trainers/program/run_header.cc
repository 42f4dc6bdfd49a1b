#include "trainers/program/run_header.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry::trainers {
namespace {

// The devices of this process's towers, one a line.
std::string DeviceLines(const DeviceSet& devices, const models::TrainStep& step) {
  std::string text;
  for (const models::TrainTower& tower : step.towers) {
    const Device& device = devices.device(tower.device);
    absl::StrAppend(&text, "          ", device.name().ToLocalString(), ": ", device.description(), "\n");
  }
  return text;
}

}  // namespace

int64_t CountParameters(const models::TrainStep& step) {
  int64_t count = 0;
  for (const Variable& variable : step.towers[0].variables) count += variable.shape().elements();
  return count;
}

absl::StatusOr<std::string> TowerLines(World& world, const DeviceSet& devices, const models::TrainStep& step,
                                       int towers, absl::string_view variable_update, int64_t batch_size,
                                       absl::Time deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> device_lines, world.AllGather(DeviceLines(devices, step), deadline));
  std::string text =
      absl::StrCat("Towers:   ", towers, ", variables ", variable_update, ", global batch ", batch_size, "\n");
  if (world.size() > 1) {
    absl::StrAppend(&text, "World:    ", world.size(), " processes, connected by ", world.library(), "\n");
  }
  for (int task = 0; task < world.size(); ++task) {
    if (world.size() > 1) {
      absl::StrAppend(&text, "          ", belfry::Describe(task, world.processes()[task]), "\n");
    }
    absl::StrAppend(&text, device_lines[task]);
  }
  return text;
}

}  // namespace belfry::trainers
