// Published speeds of data-parallel training on many GPUs, and what the prediction makes of them.
#pragma once

#include "absl/status/statusor.h"
#include "benchmarks/report.h"

namespace belfry::benchmarks {

// A row for each of 23 published runs: the published speed, the predicted one, and the relative errors of it, of that
// with the host constant of the framework's other runs, and of that without one.
//
// A run is predicted from the speed of the same program on one GPU, or few: two thirds of computing are the backward
// pass, during which buckets of 25 MB become ready at equal distances and are averaged in turn by NCCL's rings, whose
// messages between GPUs of a machine take 3.4 us, and between machines 14 us, and the time of their bytes. The
// computing is such that the base speed is met exactly. To each step of several GPUs the host constant of its framework
// is added: that with which the predicted steps differ least from the published ones, by least squares of relative
// errors; runs whose base has several GPUs do not count, since it is in their base already.
absl::StatusOr<Report> ComparePublished();

}  // namespace belfry::benchmarks
