#include "trainers/chain/batch_digest.h"

#include "framework/io/checksum.h"

namespace belfry::trainers {
namespace {

// More than a batch has examples, so that no two rows have the same seed.
constexpr uint64_t kSeedsOfField = uint64_t{1} << 40;

}  // namespace

uint64_t BatchDigest(const data::Batch& batch) {
  uint64_t sum = 0;
  for (const data::TowerBatch& tower : batch.towers()) {
    if (tower.count == 0) continue;
    const auto rows = static_cast<size_t>(tower.count);
    for (size_t i = 0; i < tower.fields.size(); ++i) {
      const Tensor& field = tower.fields[i];
      sum += io::SumOfChecksums(field.raw(), rows, field.bytes() / rows,
                                i * kSeedsOfField + static_cast<uint64_t>(tower.offset));
    }
  }
  return sum;
}

}  // namespace belfry::trainers
