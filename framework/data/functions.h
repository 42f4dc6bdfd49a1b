// Data that functions of a program make.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/data/batch_source.h"
#include "framework/data/dataset.h"
#include "framework/data/field.h"

namespace belfry::data {

// Writes all fields of the next example. False: there are no more. An exception is an Internal error with its what(),
// and so is OutOfRange.
using Generator = std::function<absl::StatusOr<bool>(const Example& example)>;

struct GeneratorOptions {
  int64_t batch_size = 128;  // global batch size, split over the towers by RangeOfTower
  int towers = 1;            // of all processes
  int first_tower = 0;       // the first one of this process
  int local_towers = 0;      // number of towers of this process; 0: all from first_tower
  // Examples of an epoch, whose last batch may be smaller; the generator goes on from epoch to epoch. 0: no epochs.
  int64_t examples_per_epoch = 0;
  // Batches made ahead of need, by a thread that calls the generator. 0: Next calls it, for examples that depend on
  // the steps before.
  int depth = 3;
};

//   FromGenerator({{"x", DType::kFloat32, {2}}, {"y"}}, {.batch_size = 100}, [&](const data::Example& example) {
//     example.field<float>(0)[0] = ...;
//     return true;
//   })
//
// Batches of the examples that `generate` makes, in its order. It is called by one thread at a time, not before the
// first call of Next. The last batch has what it made before it returned false, and then Next is OutOfRange.
// Each process calls it for all examples of a batch and keeps those of its towers, so batches do not depend on the
// number of towers or processes, if each process has the same generator; FromFunction makes each example once.
//
// Resume calls the generator for all examples before the saved position, so a run goes on as if it had not stopped if
// it makes the same examples in each run. FailedPrecondition: Next, or the thread, has passed that position; from then
// on Next fails, too. So resume before the first Next, and without a ReadAhead, which takes batches at once.
//
// InvalidArgument: no function, sizes below 1, a depth above 1024, towers that are no part of all, what CheckFields
// refuses. ResourceExhausted: there is no memory for a batch, or the system has no threads left.
absl::StatusOr<std::unique_ptr<BatchSource>> FromGenerator(std::vector<Field> fields, const GeneratorOptions& options,
                                                           Generator generate);

// Writes all fields of example `index`. Called by any number of threads at once.
using ExampleFunction = std::function<absl::Status(int64_t index, const Example& example)>;

// A data set of `size` examples, each made by `function` whenever it is read. InvalidArgument: no function,
// what CheckFields refuses, or a negative size.
absl::StatusOr<std::unique_ptr<Dataset>> FromFunction(std::vector<Field> fields, int64_t size,
                                                      ExampleFunction function);

}  // namespace belfry::data
