// The files of CIFAR-10's binary version, which the generated set has, too.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace belfry::data {

inline constexpr char kTestFile[] = "test_batch.bin";
inline constexpr char kNamesFile[] = "batches.meta.txt";
// Of the training images, from 1.
inline std::string TrainingFileName(int64_t number) { return absl::StrCat("data_batch_", number, ".bin"); }
inline constexpr int64_t kImagesPerFile = 10'000;
// Only the generated set has it; it holds the options.
inline constexpr char kTexturesMarker[] = "textures.txt";

}  // namespace belfry::data
