// Kernels by the name of their op, for ops that are defined elsewhere: how a back-end module brings its kernels.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/strings/string_view.h"
#include "framework/graph/op_def.h"

namespace belfry {

class KernelTable {
 public:
  // A kernel for the same op, device type and dtype as an earlier one takes its place.
  void AddKernels(absl::string_view op, std::vector<KernelDef> kernels);
  // Empty if there are none.
  const std::vector<KernelDef>& Find(absl::string_view op) const;

 private:
  std::map<std::string, std::vector<KernelDef>, std::less<>> kernels_;
};

// A table for one device type that is made when it is first looked at, so that a program that uses no such device never
// loads the module. Thread-safe.
class LazyKernelTable {
 public:
  LazyKernelTable(std::string device_type, std::function<KernelTable()> load)
      : device_type_(std::move(device_type)), load_(std::move(load)) {}

  const std::string& device_type() const { return device_type_; }
  const std::vector<KernelDef>& Find(absl::string_view op) const;

 private:
  const std::string device_type_;
  const std::function<KernelTable()> load_;
  mutable absl::once_flag once_;
  mutable KernelTable table_;
};

}  // namespace belfry
