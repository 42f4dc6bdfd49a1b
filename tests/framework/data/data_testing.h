// Helpers shared by the tests of framework/data.
#pragma once

#include <string>

#include "framework/data/cifar10.h"
#include "tests/framework/data/planes.h"
#include "tests/framework/io/io_testing.h"

namespace belfry::data {

// `count` CIFAR-10 records with random pixels and labels.
inline std::string RandomRecords(FreshRandom& random, int64_t count) {
  std::string bytes = random.Bytes(static_cast<size_t>(count * kCifar10RecordBytes));
  for (int64_t i = 0; i < count; ++i) bytes[i * kCifar10RecordBytes] = static_cast<char>(random.Between(0, 9));
  return bytes;
}

}  // namespace belfry::data
