// What an op is: a record, not a class.
#pragma once

#include <functional>
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
struct Program;         // framework/compiler/program.h; opaque here, and so is
struct RewriteContext;  // framework/compiler/rewrite.h

// An input or an output of an op.
struct ArgDef {
  std::string name;
  std::string type = "T";   // a type variable of the op (OpDef::types), or a dtype's name: "int32", "bool"
  bool list = false;        // any number of tensors of this type; only the last argument may be a list
  bool ref = false;         // input: a variable that the op updates. Output: that variable's storage after the update
  bool overwrites = false;  // input, with `ref`: the update does not depend on the variable's old value
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
  // Of an op that updates a variable: several nodes as one (compiler/passes/passes.h, FuseUpdates). They have the same
  // attributes, and the same inputs where the type is not T. Null: each runs by itself.
  FusedUpdatesFactory fuse_updates = nullptr;
  // Of an op that is not stateful and reduces input 0 to output 0, the only one, on a CPU. It looks at no other input,
  // and does not see the shapes of those that are shape_only. Null: it only runs as a whole.
  ReductionFactory reduce = nullptr;
};

// The ops that the framework itself adds to graphs. It does not know their names: the family that defines such an op
// says so in its OpDef, and Scope::Add(OpRole, ...) finds it in the graph's registry. The comments give inputs,
// attributes and outputs.
enum class OpRole {
  kNone,
  kAddN,             // inputs of one shape -> their sum: where gradients meet
  kOnesLike,         // x -> ones like it: where gradients begin
  kConst,            // "dtype", "value" -> the value
  kFill,             // "T", "shape", "value" -> a tensor of one number
  kLogicalAnd,       // a, b: bool -> a and b
  kNoOp,             // runs after its control inputs
  kVariable,         // "T", "shape", "name" -> the variable's value
  kAssign,           // variable, value -> the variable
  kRandomUniform,    // "T", "shape", "seed", "key", "per_step", "low", "high"
  kRandomNormal,     // "T", "shape", "seed", "key", "per_step", "mean", "stddev"
  kTruncatedNormal,  // as kRandomNormal
};
// "add_n", for messages.
absl::string_view OpRoleName(OpRole role);

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
  OpRole role = OpRole::kNone;
  // Each element of the outputs depends on the inputs' elements at its place only, inputs broadcast; so does each of a
  // variable that the op updates. The kernel works on any part of them, so several such nodes may become one that goes
  // through memory once (compiler/passes/passes.h, FuseElementwise).
  bool elementwise = false;
  bool identity_if_same_shape = false;  // output 0 equals input 0 where their shapes do: a sum or stretch to a shape
  bool stateful = false;  // reads or writes more than its inputs and outputs: never folded, merged or reordered away
  std::vector<std::pair<int, int>> in_place;  // (input, output) that may share memory when shapes and dtypes agree
  OpKind kind = OpKind::kKernel;
  std::vector<KernelDef> kernels;

  // The kernel for a device type and dtype, or null.
  const KernelDef* FindKernel(absl::string_view device_type, DType dtype) const;
  bool HasKernelFor(absl::string_view device_type) const;
  // The ArgDef of input or output `index`, list arguments counted out. REQUIRES: the op has such an argument.
  const ArgDef& input_arg(int index) const;
  const ArgDef& output_arg(int index) const;
};

// `op`, in this role.
inline OpDef WithRole(OpDef op, OpRole role) {
  op.role = role;
  return op;
}

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

// A pass that an op family, or a program with ops of its own, brings to the compiler: what a convolution does with the
// bias and the activation after it, say. It sees the program after constants are folded and before anything is
// partitioned, and leaves it normalized (compiler/program.h, Normalize). It computes the same, to the last bit if it
// can.
struct Rewrite {
  std::string name;  // of its dumps (--dump_plan); unique in a registry
  std::function<absl::Status(Program& program, const RewriteContext& context)> run;
  bool fuses = true;  // makes one node of several, so it does not run under SessionOptions::fuse = false
};

// The ops by name. Built once by plain function calls (ops/builtin_ops.h), then read by any number of threads.
class OpRegistry {
 public:
  // CHECKs that the definition is sound: a shape rule, unique name and role, kernels only for kKernel ...
  void Add(OpDef op);
  // Adds kernels to an op that is already there: how a device back-end joins. One for the same device type and dtype as
  // before takes its place.
  void AddKernels(absl::string_view op, std::vector<KernelDef> kernels);
  // Null if there is none.
  const OpDef* Find(absl::string_view name) const;
  const OpDef* ForRole(OpRole role) const;
  const absl::btree_map<std::string, OpDef>& ops() const { return ops_; }

  // Rewrites run in the order of adding. CHECKs that no other has the name.
  void AddRewrite(Rewrite rewrite);
  absl::Span<const Rewrite> rewrites() const { return rewrites_; }

 private:
  absl::btree_map<std::string, OpDef> ops_;
  absl::btree_map<OpRole, std::string> roles_;
  std::vector<Rewrite> rewrites_;
};

}  // namespace belfry
