// CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009) in its binary layout.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/data/dataset.h"

namespace belfry::data {

inline constexpr int64_t kCifar10Edge = 32;
inline constexpr int64_t kCifar10Channels = 3;
inline constexpr int32_t kCifar10Classes = 10;
// One label byte, then 3 planes (red, green, blue) of 32 x 32 bytes.
inline constexpr int64_t kCifar10RecordBytes = 1 + kCifar10Channels * kCifar10Edge * kCifar10Edge;

// Both parts of the data set, wholly in memory (154 MB for the real set). Fields: "image", uint8 [32, 32, 3], and
// "label", int32 [], 0 to 9.
struct Cifar10 {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

// Reads data_batch_1.bin, data_batch_2.bin ... up to the first missing one, test_batch.bin and, if present,
// batches.meta.txt (one class name a line) from `directory`, or from its child cifar-10-batches-bin, the archive's
// folder. A file may hold any number of records from one up, but all training files the same number, except the last
// one of a generated set. If there are fewer than the five training files of the real set, a warning is logged, unless
// the set is generated. Errors name the file and what was expected. NotFound: no such directory, no data_batch_1.bin,
// no test_batch.bin, a gap in the numbers. DataLoss: an empty file, a last record that is cut short or a label out of
// range (with the record's number), training files of different sizes, a test file of the real set without its 10,000
// records.
absl::StatusOr<Cifar10> OpenCifar10(const std::string& directory);

// Opens one such file as a dataset without class names. Errors as in OpenCifar10.
absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar10File(const std::string& path);

}  // namespace belfry::data
