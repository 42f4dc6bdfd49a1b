// The options of a Prefetcher.
#pragma once

#include <cstdint>

#include "framework/data/augment.h"
#include "framework/data/sampler.h"

namespace belfry::data {

struct PrefetcherOptions {
  int64_t batch_size = 128;     // global batch size, split over the towers by RangeOfTower
  int towers = 1;               // of all processes
  int first_tower = 0;          // the first one whose examples are made here
  int local_towers = 0;         // number of towers whose examples are made here; 0: all from first_tower
  uint64_t seed = 0;            // seeds the order and the augmentation
  bool shuffle = true;          // a new order each epoch; otherwise the dataset's order
  bool drop_remainder = false;  // skip the last, smaller batch of each epoch
  int64_t epochs = 0;           // stop before the epoch of this number; 0: never stop
  Position start = {};          // the first batch; to resume, the Batch::next of the last one trained on
  int64_t stride = 1;           // batches of an epoch from one to the next; those between are left to others
  ImagePolicies images = {};    // by field; a field of bytes without one stays as it is
  // The part that applies them. All have the same random numbers, and images that differ by float32 rounding at most.
  AugmentBy augment = AugmentBy::kWorkers;
  // MixUp (Zhang et al., "mixup: beyond empirical risk minimization", 2018), from 0, none, to 1000: example i of a
  // batch has a partner j in the same batch, by a permutation, and float32 fields become w x_i + (1 - w) x_j with one w
  // from Beta(mixup, mixup) for the batch. The fields of MixtureFields (framework/data/mixup.h) come last: the
  // partner's fields that are not float32, and w. Only where workers apply the images' policies. Partners and w depend
  // on the seed and the number of the step.
  double mixup = 0;
  int threads = 2;  // up to 1024; 0: Next makes the batch itself, on the caller's thread
  int depth = 3;    // batches made ahead, besides the one handed out; 1 to 1024
};

}  // namespace belfry::data
