// A generated data set, for trying things out without CIFAR-10.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "trainers/datasets/cifar10.h"

namespace belfry::data {

// Ten classes: five shapes (disc, square, triangle, cross, ring), each striped or checkered. Colours, position, size,
// rotation, direction and width of the pattern, background, specks and noise are random. Both the shape and the pattern
// must be recognised to tell the class, and no single pixel says much, so linear models do badly and small
// convolutional networks well. A left-right flip, a change of brightness or contrast, and any 24 x 24 crop keep the
// class.
extern const std::array<absl::string_view, kCifar10Classes> kTextureNames;

struct TextureOptions {
  uint64_t seed = 1;
  int64_t training_images = 20'000;
  int64_t test_images = 2'000;
  absl::Duration timeout = absl::Minutes(5);  // for which another process that writes the set is waited for
};

// Turns `directory` into the set, in the binary layout of CIFAR-10 (OpenCifar10 reads it): data_batch_1.bin ... with up
// to 10,000 records each, test_batch.bin, batches.meta.txt, and textures.txt, which holds the options. The classes have
// equally many images, to within one. The bytes depend only on the options, on any machine. The set is written beside
// `directory` and renamed into place, so it is there as a whole or not at all; any number of processes may do so at
// once. Does nothing if the set is there with the same options; replaces a generated set with other options or missing
// files. Processes take turns by a lock on the file "<directory>.lock", which the writer removes; waiting for it is
// logged. InvalidArgument for numbers of images below 1. FailedPrecondition, with nothing changed, if the directory
// holds anything else. DeadlineExceeded names who holds the lock.
absl::Status WriteTextures(const std::string& directory, const TextureOptions& options = {});

// Writes the set to `directory` or, if something else is there, to directory_2, directory_3 ... up to directory_9.
// Returns the place.
absl::StatusOr<std::string> PlaceTextures(const std::string& directory, const TextureOptions& options = {});

}  // namespace belfry::data
