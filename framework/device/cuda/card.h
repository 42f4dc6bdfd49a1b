// One piece of CUDA hardware, and how CUDA's errors become statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"

namespace belfry {

// A card that is open: its primary context exists. Thread-safe.
class Card {
 public:
  static absl::StatusOr<std::unique_ptr<Card>> Open(int ordinal);

  int ordinal() const { return ordinal_; }  // CUDA's number
  // "CUDA device 0 (NVIDIA H200)", for errors.
  const std::string& label() const { return label_; }
  // "device: 0, name: NVIDIA H200, pci bus id: 0000:5d:00.0, compute capability: 9.0, memory: 139.8 GiB".
  const std::string& description() const { return description_; }
  // "NVIDIA H200".
  const std::string& model() const { return model_; }
  size_t total_memory() const { return total_memory_; }
  // Bytes that nobody has taken, of this process or another.
  absl::StatusOr<size_t> FreeMemory() const;

  // Makes it the current device of the calling thread, for the calls that depend on it.
  absl::Status MakeCurrent() const { return Check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  // The status of a CUDA call, which names the card and the call; the thread's last CUDA error is cleared. After an
  // error that CUDA does not recover from, always that error.
  absl::Status Check(cudaError_t error, const char* call) const {
    return error == cudaSuccess ? absl::OkStatus() : Fail(error, call);
  }

 private:
  explicit Card(int ordinal);
  absl::Status Describe();
  absl::Status Fail(cudaError_t error, const char* call) const;

  const int ordinal_;
  std::string label_, description_, model_;
  size_t total_memory_ = 0;
  mutable Mutex mutex_;
  mutable absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

// Which cards reach each other's memory without a detour. By ordinals; a card reaches itself.
class Peers {
 public:
  void Connect(int a, int b);
  bool connected(int a, int b) const;

 private:
  std::vector<std::vector<bool>> connected_;  // [smaller][larger - smaller - 1]
};

// The cards of a device set, shared by its devices.
struct Cards {
  std::vector<std::unique_ptr<Card>> cards;
  Peers peers;
  int devices = 0;  // that they are opened as
};

}  // namespace belfry
