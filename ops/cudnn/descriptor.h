// cuDNN's backend descriptors as C++ values. Internal.
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

// Converts a cuDNN status: Unimplemented if cuDNN does not support the request, ResourceExhausted if memory ran out,
// otherwise Internal, with cuDNN's message.
absl::Status Check(cudnnStatus_t status, absl::string_view what);

// Owns a descriptor. The first error is kept, and returned by Finalize().
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

// The cuDNN handle of a device. Not thread-safe: use it under its mutex.
struct Handle {
  Mutex mutex;
  cudnnHandle_t handle = nullptr;

  ~Handle();
  static absl::StatusOr<std::unique_ptr<Handle>> Make();
};

// The target of plans: a present device or, to build plans without running them, a description of one.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* described = nullptr;
};
// A device described in cuDNN's JSON.
absl::StatusOr<Descriptor> DescribeDevice(absl::string_view json);

// Configurations that compute a graph of operations: first those that cuDNN recommends, best first, then its fallbacks.
struct Configs {
  Descriptor graph;  // referred to by the configurations
  std::vector<Descriptor> configs;
  int recommended = 0;  // number of recommended ones at the front
};
// Restricts the engines: without `tensor_cores`, those that use them (TF32 for float32) are excluded; with
// `deterministic`, those whose results depend on timing. FindConfigs returns Unimplemented if none remains.
struct ConfigFilter {
  bool tensor_cores = true, deterministic = false;
};
absl::StatusOr<Configs> FindConfigs(const Target& target, const std::vector<Descriptor>& operations,
                                    const ConfigFilter& filter);

// A configuration ready to run. Building one is slow: cuDNN may compile code.
struct ExecutionPlan {
  Descriptor config, plan;
  size_t workspace_bytes = 0;
};
absl::StatusOr<ExecutionPlan> MakePlan(const Target& target, Descriptor config);

// The arguments of a run: the ids of the tensors, their addresses, and the workspace.
absl::StatusOr<Descriptor> MakeVariantPack(const std::vector<int64_t>& ids, const std::vector<void*>& data,
                                           void* workspace);

}  // namespace belfry::cudnn
