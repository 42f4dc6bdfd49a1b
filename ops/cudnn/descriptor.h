// cuDNN's backend descriptors as values. Internal.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"

namespace belfry::cudnn {

// Unimplemented for what cuDNN does not support, ResourceExhausted for lack of memory, else Internal; names cuDNN's
// error.
absl::Status Check(cudnnStatus_t status, absl::string_view what);

// Owns a descriptor. The first error sticks, and Finalize() returns it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    status_ = Check(cudnnBackendCreateDescriptor(type, &descriptor_), "creating a descriptor");
  }
  Descriptor(Descriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)), status_(other.status_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(status_, other.status_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
  }

  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
    if (status_.ok()) {
      status_ = Check(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "setting an attribute");
    }
    return *this;
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, int64_t value) { return Set(name, CUDNN_TYPE_INT64, 1, &value); }
  Descriptor& Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return Set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    const cudnnBackendDescriptor_t handle = value.get();
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  }
  absl::Status Finalize() {
    if (status_.ok()) status_ = Check(cudnnBackendFinalize(descriptor_), "finalizing a descriptor");
    return status_;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const absl::Status& status() const { return status_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status status_;
};

// A device's handle. Used by one thread at a time, so under its mutex.
struct Handle {
  Mutex mutex;
  cudnnHandle_t handle = nullptr;

  ~Handle();
  static absl::StatusOr<std::unique_ptr<Handle>> Make();
};

// What plans are made for: a device at hand or, to build plans without running them, one that is only described.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* described = nullptr;
};
// The description of a device in cuDNN's JSON.
absl::StatusOr<Descriptor> DescribeDevice(absl::string_view json);

// Ways to compute a graph of operations: those that cuDNN recommends, best first, then those that it falls back to.
struct Configs {
  Descriptor graph;  // which the others refer to
  std::vector<Descriptor> configs;
  int recommended = 0;  // of them
};
// `tensor_cores`: false leaves out those that use them (TF32 for float32). `deterministic`: leaves out those whose
// results depend on timing. Unimplemented if there is none.
struct ConfigFilter {
  bool tensor_cores = true, deterministic = false;
};
absl::StatusOr<Configs> FindConfigs(const Target& target, const std::vector<Descriptor>& operations,
                                    const ConfigFilter& filter);

// One of them, ready to run. Building it takes long: cuDNN may compile code.
struct ExecutionPlan {
  Descriptor config, plan;
  size_t workspace_bytes = 0;
};
absl::StatusOr<ExecutionPlan> MakePlan(const Target& target, Descriptor config);

// What a plan is run on: the unique ids of its tensors, where they lie, and the workspace.
absl::StatusOr<Descriptor> MakeVariantPack(const std::vector<int64_t>& ids, const std::vector<void*>& data,
                                           void* workspace);

}  // namespace belfry::cudnn
