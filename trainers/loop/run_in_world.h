// Programs whose processes may be several, started by a launcher (mpirun, srun): what differs from a program with one.
// Each process is a task, and runs the same program.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/device/device_set.h"
#include "framework/io/checkpoint_directory.h"

namespace belfry::trainers {

// The patience of tasks with each other at the start and at the end.
constexpr absl::Duration kTaskTimeout = absl::Minutes(5);

// Opens the world of the launcher, or of this process alone if there is none, calls `run` in it, and closes it. Returns
// the result of `run`: the signal that ended it (Trainer::stopped), or 0. An error of one task ends all of them; each
// returns it, with the task that it comes from, and must then end with a nonzero exit status. If tasks waited in vain,
// the error says where each of them is. Once in a process. Errors: also those of OpenWorld and World::Close.
absl::StatusOr<int> RunInWorld(absl::FunctionRef<absl::StatusOr<int>(World&)> run,
                               absl::Duration timeout = kTaskTimeout);
// The same in an open world.
absl::StatusOr<int> RunInWorld(World& world, absl::FunctionRef<absl::StatusOr<int>(World&)> run,
                               absl::Duration timeout = kTaskTimeout);

// `options` for the devices of a task. If there are several tasks, devices are called /job:worker/task:<rank>, and the
// task opens the GPUs of its machine that come after those of the tasks before it (DeviceOptions::local_rank).
DeviceOptions OptionsOfTask(const World& world, DeviceOptions options = {});

// Divides the cores of each machine among its tasks that may run on the same ones: the calling thread, and those that
// it starts from now on, keep to this task's share. All tasks must call it. Errors: those of World::AllGather.
absl::Status ShareCores(World& world, absl::Duration timeout = kTaskTimeout);

// Opens the devices of this task, with OptionsOfTask, on its share of the cores. All tasks must call it. Errors: those
// of DeviceSet::Open and ShareCores.
absl::StatusOr<DeviceSet> OpenDevices(World& world, absl::string_view spec, const DeviceOptions& options = {},
                                      absl::Duration timeout = kTaskTimeout);

// The latest undamaged checkpoint of the run in `directory` (TrainerOptions::directory), for TrainerOptions::resume;
// nullopt to start afresh, also for an empty `directory`. Task 0 looks for it, and the others, which may have no access
// to the file, get its path, step and metadata, but no tensors. All tasks must call it. Errors: those of
// io::LoadLatestCheckpoint except NotFound; those of World::Broadcast.
absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(const std::string& directory, World& world,
                                                             absl::Duration timeout = kTaskTimeout);
// The same in a program that is always one process.
absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(const std::string& directory);
// The checkpoint that task 0 found, in all tasks: likewise.
absl::StatusOr<std::optional<io::Checkpoint>> ShareCheckpoint(std::optional<io::Checkpoint> checkpoint, World& world,
                                                              absl::Duration timeout = kTaskTimeout);

}  // namespace belfry::trainers
