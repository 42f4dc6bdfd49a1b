#include "framework/graph/kernel_table.h"

namespace belfry {

void KernelTable::AddKernels(absl::string_view op, std::vector<KernelDef> kernels) {
  MergeKernels(kernels_[std::string(op)], std::move(kernels));
}

const std::vector<KernelDef>& KernelTable::Find(absl::string_view op) const {
  static const auto* const none = new std::vector<KernelDef>();
  const auto found = kernels_.find(op);
  return found == kernels_.end() ? *none : found->second;
}

const std::vector<KernelDef>& LazyKernelTable::Find(absl::string_view op) const {
  absl::call_once(once_, [this] { table_ = load_(); });
  return table_.Find(op);
}

}  // namespace belfry
