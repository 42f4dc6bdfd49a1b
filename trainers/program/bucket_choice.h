// The bytes of gradients that a run averages together.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/prediction/predict.h"

namespace belfry::trainers {

// "65536", "512K", "4M": a number of bytes from 1 to 1 GiB; 0 for "", and nullopt for "auto". InvalidArgument: anything
// else.
absl::StatusOr<std::optional<size_t>> ParseBucketSize(absl::string_view text);

struct BucketChoice {
  size_t bytes = 0;  // models::ReplicateOptions::bucket_bytes
  std::string text;  // "2 of 1024 KiB, as predicted for the measured link: ..."
};

// Adds the training step with buckets of that size to an empty graph.
using TrainStepOf = std::function<models::TrainStep(Graph& graph, size_t bucket_bytes)>;

// The device type of all towers of all processes, "CPU" or "GPU"; something else if they have several. All processes
// must call it. Errors: those of World::AllGather.
absl::StatusOr<std::string> KindOfAllTowers(World& world, const DeviceSet& devices, absl::Time deadline);

// Chooses the bucket size with the shortest predicted step among 64 KiB, 256 KiB ... up to a tower's gradients, and
// `usual`: measures the link between the processes of `world`, times the kernels of a few steps that average nothing,
// in a session of its own on zero examples, and simulates the step with each size. Task 0 decides, all get its
// choice. The results of training do not depend on it with the averagers local and mpi. All processes must call it.
// Errors: InvalidArgument for towers on GPUs; those of `step`, of Session::Prepare and of MeasureLink.
absl::StatusOr<BucketChoice> ChooseBuckets(World& world, const DeviceSet& devices, const SessionOptions& session,
                                           ExchangeWay way, int64_t batch_size, size_t usual, const TrainStepOf& step,
                                           absl::Time deadline);

}  // namespace belfry::trainers
