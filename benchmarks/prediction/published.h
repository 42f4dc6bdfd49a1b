// Published speeds of data-parallel training on many GPUs, and what the prediction makes of them.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmarks/report.h"

namespace belfry::benchmarks {

// The ring that a run's all-reduces go round: `processes` GPUs on `nodes` machines.
struct PublishedRing {
  int processes = 1;
  int nodes = 1;
  double bandwidth = 0;  // bytes a second of the slowest link, one direction
};

// Two speeds of one program.
struct PublishedRun {
  const char* framework = "";
  const char* system = "";
  const char* model = "";
  double megabytes = 0;  // of gradients, 1e6 bytes
  int batch = 0;         // images of each process
  PublishedRing base;
  double base_rate = 0;  // images/s
  PublishedRing ring;
  double rate = 0;  // images/s, the one to predict
};

absl::Span<const PublishedRun> PublishedRuns();

// images/s of `run`, predicted from its base speed: two thirds of computing are the backward pass, during which buckets
// of 25 MB become ready at equal distances and are averaged in turn by NCCL's rings, whose messages between GPUs of a
// machine take 3.4 us, and between machines 14 us, and the time of their bytes. The computing is such that the base
// speed is predicted exactly. `host` is PredictOptions::host.
absl::StatusOr<double> PredictRun(const PublishedRun& run, double host);

// The host constant with which the predicted steps of `runs` differ least from the published ones, by least squares of
// relative errors; those whose base has several processes do not count, since it is in their base already. 0 if none
// counts.
absl::StatusOr<double> FitHost(absl::Span<const PublishedRun> runs);

// A row for each published run: the published speed, the predicted one with the host constant of its framework, and the
// relative errors of it, of that with a constant from the framework's other runs, and of that without.
absl::StatusOr<Report> ComparePublished();

}  // namespace belfry::benchmarks
