// Made-up files of CIFAR-10.
#pragma once

#include <string>

#include "tests/framework/io/io_testing.h"
#include "tests/trainers/datasets/planes.h"
#include "trainers/datasets/cifar10.h"

namespace belfry::data {

// `count` CIFAR-10 records with random pixels and labels.
inline std::string RandomRecords(FreshRandom& random, int64_t count) {
  std::string bytes = random.Bytes(static_cast<size_t>(count * kCifar10RecordBytes));
  for (int64_t i = 0; i < count; ++i) bytes[i * kCifar10RecordBytes] = static_cast<char>(random.Between(0, 9));
  return bytes;
}

}  // namespace belfry::data
