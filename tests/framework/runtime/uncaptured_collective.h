// A collective that hides that it can be captured.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "framework/collective/collective.h"

namespace belfry {

class UncapturedCollective final : public Collective {
 public:
  // `fail_in`: the fail_in-th Run from now on, counted from 1, fails; 0: none does.
  UncapturedCollective(std::unique_ptr<Collective> hidden, std::atomic<int>& fail_in)
      : hidden_(std::move(hidden)), fail_in_(fail_in) {}

  absl::Status Run(int participant, Stream& stream, uint32_t run, absl::Time deadline) override {
    if (fail_in_ > 0 && --fail_in_ == 0) return absl::InternalError("the link is down");
    return hidden_->Run(participant, stream, run, deadline);
  }
  void Cancel() override { hidden_->Cancel(); }
  void Reset(uint32_t run) override { hidden_->Reset(run); }

 private:
  const std::unique_ptr<Collective> hidden_;
  std::atomic<int>& fail_in_;
};

}  // namespace belfry
