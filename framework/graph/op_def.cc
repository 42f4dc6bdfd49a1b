#include "framework/graph/op_def.h"

#include <algorithm>

#include "framework/base/check.h"
#include "framework/graph/kernel_table.h"

namespace belfry {
namespace {

const ArgDef& Arg(const std::vector<ArgDef>& args, int index) {
  BELFRY_CHECK(!args.empty() && index >= 0);
  const auto last = static_cast<int>(args.size()) - 1;
  BELFRY_CHECK(index <= last || args.back().list);
  return args[std::min(index, last)];
}

}  // namespace

absl::string_view OpRoleName(OpRole role) {
  switch (role) {
    case OpRole::kNone: return "none";
    case OpRole::kAddN: return "add_n";
    case OpRole::kOnesLike: return "ones_like";
    case OpRole::kConst: return "const";
    case OpRole::kFill: return "fill";
    case OpRole::kLogicalAnd: return "logical_and";
    case OpRole::kNoOp: return "no_op";
    case OpRole::kVariable: return "variable";
    case OpRole::kAssign: return "assign";
    case OpRole::kFlatSlice: return "flat_slice";
    case OpRole::kRandomUniform: return "random_uniform";
    case OpRole::kRandomNormal: return "random_normal";
    case OpRole::kTruncatedNormal: return "truncated_normal";
  }
  return "unknown";
}

const KernelDef* OpDef::FindKernel(absl::string_view device_type, DType dtype) const {
  for (const KernelDef* kernel : KernelsFor(device_type)) {
    if (kernel->dtype == dtype) return kernel;
  }
  return nullptr;
}

// A kernel of the module that has the same dtype comes behind the op's own.
bool OpDef::HasReplacement(absl::string_view device_type, DType dtype) const {
  const std::vector<const KernelDef*> all = KernelsFor(device_type);
  const auto same = [&](const KernelDef* kernel) { return kernel->dtype == dtype; };
  const auto first = std::find_if(all.begin(), all.end(), same);
  return first != all.end() && ((*first)->replaces || std::any_of(first + 1, all.end(), same));
}

std::vector<const KernelDef*> OpDef::KernelsFor(absl::string_view device_type) const {
  std::vector<const KernelDef*> found;
  for (const KernelDef& kernel : kernels) {
    if (kernel.device_type == device_type) found.push_back(&kernel);
  }
  if (late_kernels == nullptr || late_kernels->device_type() != device_type) return found;
  for (const KernelDef& kernel : late_kernels->Find(name)) found.push_back(&kernel);
  return found;
}

const ArgDef& OpDef::input_arg(int index) const { return Arg(inputs, index); }
const ArgDef& OpDef::output_arg(int index) const { return Arg(outputs, index); }

void OpRegistry::Add(OpDef op) {
  BELFRY_CHECK(op.shape != nullptr || op.kind == OpKind::kNoOp);
  BELFRY_CHECK(op.gradient == nullptr || !op.not_differentiable);
  BELFRY_CHECK(op.kind == OpKind::kKernel || op.kernels.empty());
  for (size_t i = 0; i + 1 < op.inputs.size(); ++i) BELFRY_CHECK(!op.inputs[i].list);
  for (size_t i = 0; i + 1 < op.outputs.size(); ++i) BELFRY_CHECK(!op.outputs[i].list);
  for (const ArgDef& input : op.inputs) BELFRY_CHECK(input.ref || !input.overwrites);
  const std::string name = op.name;
  op.late_kernels = late_kernels_;
  if (op.role != OpRole::kNone) BELFRY_CHECK(roles_.emplace(op.role, name).second);
  BELFRY_CHECK(ops_.emplace(name, std::move(op)).second);
}

void MergeKernels(std::vector<KernelDef>& kernels, std::vector<KernelDef> more) {
  for (KernelDef& kernel : more) {
    const auto same = std::find_if(kernels.begin(), kernels.end(), [&](const KernelDef& known) {
      return known.device_type == kernel.device_type && known.dtype == kernel.dtype;
    });
    if (same == kernels.end()) {
      kernels.push_back(std::move(kernel));
    } else {
      *same = std::move(kernel);
    }
  }
}

void OpRegistry::AddKernels(absl::string_view op, std::vector<KernelDef> kernels) {
  const auto found = ops_.find(op);
  BELFRY_CHECK(found != ops_.end() && found->second.kind == OpKind::kKernel);
  std::vector<KernelDef>& known = found->second.kernels;
  for (KernelDef& kernel : kernels) {
    kernel.replaces = std::any_of(known.begin(), known.end(), [&](const KernelDef& other) {
      return other.device_type == kernel.device_type && other.dtype == kernel.dtype;
    });
  }
  MergeKernels(known, std::move(kernels));
}

void OpRegistry::SetElementCode(absl::string_view op, ElementCodeFactory code) {
  const auto found = ops_.find(op);
  BELFRY_CHECK(found != ops_.end() && found->second.kind == OpKind::kKernel);
  found->second.element_code = std::move(code);
}

void OpRegistry::SetLateKernels(std::shared_ptr<const LazyKernelTable> kernels) {
  for (auto& [name, op] : ops_) op.late_kernels = kernels;
  late_kernels_ = std::move(kernels);
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

const OpDef* OpRegistry::ForRole(OpRole role) const {
  const auto found = roles_.find(role);
  return found == roles_.end() ? nullptr : Find(found->second);
}

void OpRegistry::AddRewrite(Rewrite rewrite) {
  for (const Rewrite& other : rewrites_) BELFRY_CHECK(other.name != rewrite.name);
  rewrites_.push_back(std::move(rewrite));
}

}  // namespace belfry
