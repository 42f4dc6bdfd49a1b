// The step of a training run in any number of processes, predicted from a model of the step of one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainers/prediction/link_table.h"
#include "trainers/prediction/step_model.h"

namespace belfry {

// The way by which processes average.
enum class ExchangeWay {
  kSlices,  // each process sums one slice of all towers, in their order, and sends it to all: the averager `local`
  kRing,    // an all-reduce of each process's own sum over a ring: `mpi`
};

// The link between processes, and the averaging over it. A process has L towers, each with S bytes.
struct Exchange {
  ExchangeWay way = ExchangeWay::kSlices;
  LinkTable link;
  int towers = 1;       // L
  LinkTable beside;     // times of the same link beside computing; where they are shorter, those of `link` count
  LinkTable processor;  // seconds of computing that are lost to a message, sent and received
  double sum = 0;       // seconds that a byte of a tower takes in a sum, by one thread, which computing loses, too
};

// The time of averaging `bytes` of each tower over P processes. With messages of t(b) seconds it is
// (P - 1) (t(L S / P) + t(S / P)) for slices, 2 (P - 1) t(S / P) for a ring: on a linear link of latency a and
// bandwidth B, 2 (P - 1) a + (L + 1) S / B (P - 1) / P, and 2 (P - 1) a + 2 S / B (P - 1) / P. If the processor needs
// longer for the messages, its time; and the time to add up the bytes.
CollectiveCost CostOfExchange(const Exchange& exchange, double bytes, int64_t processes);

struct PredictOptions {
  Exchange exchange = {};
  double images = 0;      // of a tower in a step
  double straggling = 0;  // standard deviation of a process's step, in seconds: all wait for the slowest of P
  double host = 0;        // seconds by which a step of several processes is longer whatever their number
};

// The cause of most of the time that a step takes beyond that of one process.
enum class Bound {
  kCompute,     // less than 1 % of the step is beyond it
  kLatency,     // exposed averaging that would stay on a link of any bandwidth
  kBandwidth,   // the rest of it
  kProcessor,   // computing that is slower beside averaging
  kStragglers,  // waiting for the slowest process
  kHost,        // PredictOptions::host
};
absl::string_view BoundName(Bound bound);  // "computing", "latency" ...

struct Prediction {
  int64_t processes = 1;
  double step = 0;  // seconds
  double images_per_second = 0;
  double efficiency = 1;          // speed over that of one process, divided by their number
  double exposed = 0;             // seconds in which a process computes nothing and averages
  Bound bound = Bound::kCompute;  // the largest part of the time beyond one process's step
};

// The expected largest of `count` independent normal values of mean 0 and standard deviation 1 (Blom, 1958), to 0.03.
double ExpectedLargest(int64_t count);

// InvalidArgument: fewer than one process, or the streams of `model` wait for each other.
absl::StatusOr<Prediction> Predict(const StepModel& model, const PredictOptions& options, int64_t processes);

// The largest number of processes, up to `most`, with an efficiency of at least `efficiency`. Efficiency is taken to
// fall with the number of processes.
absl::StatusOr<int64_t> LargestCount(const StepModel& model, const PredictOptions& options, double efficiency,
                                     int64_t most);

// The index of the model with the shortest step; among those within 0.1 % of it, that of the fewest collectives.
// REQUIRES: there is one.
absl::StatusOr<size_t> ShortestStep(absl::Span<const StepModel> models, const PredictOptions& options,
                                    int64_t processes);

}  // namespace belfry
