// A physical GPU, and the conversion of CUDA errors to statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"

namespace belfry {

// An open card: its primary context exists. Thread-safe.
class Card {
 public:
  // FailedPrecondition if this build has no code for the card; otherwise CUDA's errors.
  static absl::StatusOr<std::unique_ptr<Card>> Open(int ordinal);

  int ordinal() const { return ordinal_; }  // CUDA's number
  // "CUDA device 0 (NVIDIA H200)", for error messages.
  const std::string& label() const { return label_; }
  // "device: 0, name: NVIDIA H200, pci bus id: 0000:5d:00.0, compute capability: 9.0, memory: 139.8 GiB".
  const std::string& description() const { return description_; }
  // "NVIDIA H200".
  const std::string& model() const { return model_; }
  // Major and minor compute capability.
  std::pair<int, int> capability() const { return capability_; }
  size_t total_memory() const { return total_memory_; }
  // Bytes of the card's memory that no process has taken.
  absl::StatusOr<size_t> FreeMemory() const;

  // Makes the card the calling thread's current device, for CUDA calls that depend on it.
  absl::Status MakeCurrent() const { return Check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  // Converts the result of a CUDA call to a status that names the card and the call, and clears the thread's last CUDA
  // error. Once the card has failed with an error that CUDA cannot recover from, later such failures return that first
  // error.
  absl::Status Check(cudaError_t error, const char* call) const {
    return error == cudaSuccess ? absl::OkStatus() : Fail(error, call);
  }

 private:
  explicit Card(int ordinal);
  absl::Status Describe();
  absl::Status Fail(cudaError_t error, const char* call) const;

  const int ordinal_;
  std::string label_, description_, model_;
  std::pair<int, int> capability_;
  size_t total_memory_ = 0;
  mutable Mutex mutex_;
  mutable absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

// Pairs of cards, by ordinal, that can access each other's memory directly. A card can access its own.
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
  int devices = 0;                 // number of devices that the cards are opened as
  bool several_processes = false;  // DeviceOptions::several_processes
};

}  // namespace belfry
