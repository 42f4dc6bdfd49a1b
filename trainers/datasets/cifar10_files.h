// File names of CIFAR-10's binary version, which a generated set shares.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace belfry::data {

inline constexpr char kTestFile[] = "test_batch.bin";
inline constexpr char kNamesFile[] = "batches.meta.txt";
// The name of the number-th training file; numbers start at 1.
inline std::string TrainingFileName(int64_t number) { return absl::StrCat("data_batch_", number, ".bin"); }
inline constexpr int64_t kImagesPerFile = 10'000;
// Present only in a generated set; holds its options.
inline constexpr char kTexturesMarker[] = "textures.txt";

}  // namespace belfry::data
