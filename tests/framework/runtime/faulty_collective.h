// Faults of single bits.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "framework/collective/collective.h"

namespace belfry {

inline void FlipBit(void* data, int64_t byte, int bit) {
  auto* const bytes = static_cast<unsigned char*>(data);
  bytes[byte] = static_cast<unsigned char>(bytes[byte] ^ (1u << bit));
}

// The local averager, whose result reaches the last tower with a bit changed in one run: the one before which `*faults`
// is 1. Every run counts it down.
class FaultyCollective final : public Collective {
 public:
  FaultyCollective(CollectiveSpec spec, int* faults)
      : victim_(spec.ranks.back()), faults_(faults), sound_(MakeLocalCollective(std::move(spec)).value()) {}
  absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) override {
    const absl::Status status = sound_->Run(participant, stream, run, deadline);
    if (participant == victim_.participant) Change();
    return status;
  }
  bool CanCapture() const override { return true; }
  absl::Status RunAll(absl::Span<Stream* const> streams, uint32_t run, absl::Time deadline) override {
    const absl::Status status = sound_->RunAll(streams, run, deadline);
    Change();
    return status;
  }
  void Cancel() override { sound_->Cancel(); }
  void Reset(uint32_t run) override { sound_->Reset(run); }

 private:
  void Change() {
    if ((*faults_)-- == 1) FlipBit(victim_.data, 2, 2);
  }

  const CollectiveRank victim_;
  int* const faults_;
  const std::unique_ptr<Collective> sound_;
};

}  // namespace belfry
