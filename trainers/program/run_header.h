// The lines about towers, devices and processes that a program prints before it trains.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/device/device_set.h"
#include "models/towers/replicate_towers.h"

namespace belfry::trainers {

// The elements of the trainable variables of a tower.
int64_t CountParameters(const models::TrainStep& step);

// "Towers:   2, variables replicated, global batch 128", the processes if there are several, and the device of each
// tower. All processes of the world must call it; each gets the same text. Errors: those of World::AllGather.
absl::StatusOr<std::string> TowerLines(World& world, const DeviceSet& devices, const models::TrainStep& step,
                                       int towers, absl::string_view variable_update, int64_t batch_size,
                                       absl::Time deadline);

}  // namespace belfry::trainers
