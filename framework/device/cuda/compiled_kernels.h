// Kernels compiled from source for one card, in memory and on disk.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/device/cuda/card.h"
#include "framework/device/device.h"

namespace belfry {

// Thread-safe. Kernels on disk are CubinFiles in CacheFolder(). A damaged file, or one that cannot be read or
// written, or that the driver refuses, costs another compilation and is not an error.
class CompiledKernels {
 public:
  // The card's part of Device::CompileKernel.
  absl::StatusOr<std::shared_ptr<const CompiledKernel>> Get(const Card& card, const std::string& source);

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const CompiledKernel>> kernels_ ABSL_GUARDED_BY(mutex_);  // by source
};

}  // namespace belfry
