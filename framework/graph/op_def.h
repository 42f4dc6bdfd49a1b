// What an op is: a record, not a class.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/graph/attr.h"
#include "framework/graph/kernel.h"

namespace belfry {

class Node;
class Scope;
struct Output;

// An input or an output of an op.
struct ArgDef {
  std::string name;
  std::string type = "T";   // a type variable of the op (OpDef::types), or a dtype's name: "int32", "bool"
  bool list = false;        // any number of tensors of this type; only the last argument may be a list
  bool ref = false;         // input: a variable that the op updates. Output: that variable's storage after the update
  bool shape_only = false;  // input: only its shape is used, so its bytes need not be kept nor moved
};

// A dtype that inputs and outputs share: bound by the inputs of that type, else by the attribute of the same name.
struct TypeVar {
  std::string name = "T";
  absl::Span<const DType> allowed;
};

inline constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
inline constexpr DType kWideFloatTypes[] = {DType::kFloat32, DType::kFloat64};
inline constexpr DType kNumericTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                          DType::kInt32,   DType::kInt64,   DType::kUInt8};
inline constexpr DType kIndexTypes[] = {DType::kInt32, DType::kInt64};
inline constexpr absl::Span<const DType> kAnyType = kAllDTypes;

struct AttrDef {
  std::string name;
  AttrValue value;        // the default, and the attribute's type
  bool required = false;  // then `value` only gives the type
};

// What a shape rule sees. Extents may be unknown while the graph is built; all are known when a plan is compiled.
struct ShapeArgs {
  const Attrs& attrs;
  absl::Span<const Shape> inputs;
  absl::Span<const DType> dtypes;  // of the inputs
};

// The shapes of all outputs, or InvalidArgument that says which input is wrong and why (the caller adds the node's
// name).
using ShapeFunction = std::function<absl::StatusOr<std::vector<Shape>>(const ShapeArgs&)>;

// Adds the nodes that compute the gradient with respect to each input of `node`, given those with respect to its
// outputs (an invalid Output where none flows). One Output per input; invalid for an input that has none. Errors stick
// to the scope's graph. Nodes are added through `scope`, which is already colocated with `node` and carries its source
// line.
using GradientFunction =
    std::function<std::vector<Output>(const Scope& scope, const Node& node, absl::Span<const Output> dy)>;

// The floating-point operations of one run, a multiplication and an addition counting two, for reports.
using FlopsFunction = std::function<double(const KernelSpec&)>;

// How the runtime treats a node. All but kKernel have no kernels.
enum class OpKind {
  kKernel,
  kPlaceholder,  // fed
  kConst,        // attribute "value"
  kVariable,     // storage that outlives a step, owned by the session
  kNoOp,         // orders others by control inputs
  kView,         // output 0 is input 0's bytes, perhaps under another shape
  kAllReduce,    // inputs meet those of the other towers' nodes of the same attribute "group"
};

struct KernelDef {
  absl::string_view device_type;  // "CPU" or "GPU"
  DType dtype;                    // of the op's first type variable
  KernelFactory make;
  // Of an op that updates a variable: several nodes as one (compiler/passes/passes.h, JoinUpdates). They have the same
  // attributes, and the same inputs where the type is not T. Null: each runs by itself.
  JoinedKernelFactory join = nullptr;
  // Of an op that is not stateful and reduces input 0 to output 0, the only one, on a CPU. It looks at no other input,
  // and does not see the shapes of those that are shape_only. Null: it only runs as a whole.
  ReductionFactory reduce = nullptr;
};

class LateKernels;

// Adds `more` to `kernels`; one for the same device type and dtype as one that is there takes its place.
void MergeKernels(std::vector<KernelDef>& kernels, std::vector<KernelDef> more);

// One op: name, inputs, outputs, attributes, shape rule, gradient rule and kernels, written in one place.
struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;  // after the fixed ones, a list output repeats as often as the shape rule says
  std::vector<TypeVar> types;   // the first one selects the kernel
  std::vector<AttrDef> attrs;   // besides the type variables
  ShapeFunction shape;
  FlopsFunction flops;        // null: one for each element of the largest input or output
  GradientFunction gradient;  // null: not_differentiable must say so, or Gradients() fails at this op
  bool not_differentiable = false;
  // Each element of the outputs depends on the inputs' elements at its place only, inputs broadcast; so does each of a
  // variable that the op updates. The kernel works on any part of them, so several such nodes may become one that goes
  // through memory once (compiler/passes/passes.h, FuseElementwise).
  bool elementwise = false;
  bool stateful = false;  // reads or writes more than its inputs and outputs: never folded, merged or reordered away
  std::vector<std::pair<int, int>> in_place;  // (input, output) that may share memory when shapes and dtypes agree
  OpKind kind = OpKind::kKernel;
  std::vector<KernelDef> kernels;

  // Kernels that a module brings when a device of their type is there; null: none. Set by the registry.
  std::shared_ptr<const LateKernels> late_kernels;

  // The kernel for a device type and dtype, or null: one of `kernels`, else of `late_kernels`, which are loaded if they
  // are for this type.
  const KernelDef* FindKernel(absl::string_view device_type, DType dtype) const;
  // All kernels for a device type; likewise.
  std::vector<const KernelDef*> KernelsFor(absl::string_view device_type) const;
  // The ArgDef of input or output `index`, list arguments counted out. REQUIRES: the op has such an argument.
  const ArgDef& input_arg(int index) const;
  const ArgDef& output_arg(int index) const;
};

// KernelDefs for one device type: Kernels<float, double>("CPU", [](auto tag) { return &MakeAdd<typename
// decltype(tag)::type>; }).
template <class T>
struct TypeTag {
  using type = T;
};
template <class... Ts, class F>
std::vector<KernelDef> Kernels(absl::string_view device_type, F&& factory_for) {
  std::vector<KernelDef> kernels;
  (kernels.push_back({.device_type = device_type, .dtype = kDTypeOf<Ts>, .make = factory_for(TypeTag<Ts>())}), ...);
  return kernels;
}

// The ops by name. Built once by plain function calls (ops/builtin_ops.h), then read by any number of threads.
class OpRegistry {
 public:
  // CHECKs that the definition is sound: a shape rule, unique name, kernels only for kKernel ...
  void Add(OpDef op);
  // Adds kernels to an op that is already there: how a device back-end joins. One for the same device type and dtype as
  // before takes its place.
  void AddKernels(absl::string_view op, std::vector<KernelDef> kernels);
  // Has all ops, those added later too, find kernels for GPUs in a table that is loaded when they are first looked up.
  void SetLateKernels(std::shared_ptr<const LateKernels> kernels);
  // Null if there is none.
  const OpDef* Find(absl::string_view name) const;
  const absl::btree_map<std::string, OpDef>& ops() const { return ops_; }

 private:
  absl::btree_map<std::string, OpDef> ops_;
  std::shared_ptr<const LateKernels> late_kernels_;
};

// All ops that come with Belfry. Defined in ops/builtin_ops.cc; declared here so that `Graph graph;` has its default.
const OpRegistry& BuiltinOps();

}  // namespace belfry
