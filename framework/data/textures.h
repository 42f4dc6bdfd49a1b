// A made-up data set for trying things out where CIFAR-10 is not at hand.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/cifar10.h"

namespace belfry::data {

// Ten classes: each of five shapes (disc, square, triangle, cross, ring), striped or checkered. Colours, place, size,
// rotation, direction and width of the pattern, background, specks and noise are random, and both shape and pattern
// must be seen to tell the class: no pixel by itself says much, so that linear models do badly and small convolutional
// networks well. A left-right flip, a change of brightness or contrast, and any 24 x 24 crop leave the class as it is.
extern const std::array<absl::string_view, kCifar10Classes> kTextureNames;

struct TextureOptions {
  uint64_t seed = 1;
  int64_t training_images = 20'000;
  int64_t test_images = 2'000;
};

// Makes `directory` the set in the binary layout of CIFAR-10 (OpenCifar10 reads it): data_batch_1.bin ... with up to
// 10,000 records each, test_batch.bin, batches.meta.txt, and textures.txt, which holds the options. As many images of
// each class, to within one. The bytes depend on the options alone, on any machine. The set is written beside its place
// and renamed to it, so that it is there whole or not at all; any number of processes may do so at once.
// Does nothing if the set is there with the same options; one with others, or one that lacks files, is replaced.
// FailedPrecondition, and nothing changed, if the directory holds anything else.
absl::Status WriteTextures(const std::string& directory, const TextureOptions& options = {});

// The same at `directory` or, where that is taken by something else, at directory_2, directory_3 ...: the place.
absl::StatusOr<std::string> PlaceTextures(const std::string& directory, const TextureOptions& options = {});

}  // namespace belfry::data
