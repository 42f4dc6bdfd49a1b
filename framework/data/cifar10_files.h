// The files of CIFAR-10's binary version, which the generated set has, too.
#pragma once

#include <cstdint>

namespace belfry::data {

inline constexpr char kFirstFile[] = "data_batch_1.bin";
inline constexpr char kTestFile[] = "test_batch.bin";
inline constexpr char kNamesFile[] = "batches.meta.txt";
inline constexpr int64_t kImagesPerFile = 10'000;
// Only the generated set has it; it holds the options.
inline constexpr char kTexturesMarker[] = "textures.txt";

}  // namespace belfry::data
