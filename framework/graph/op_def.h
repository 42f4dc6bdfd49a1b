// Op definitions. An op is a record, not a class.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/graph/attr.h"
#include "framework/graph/element_code.h"
#include "framework/graph/kernel.h"

namespace belfry {

class Node;
class Scope;
struct Output;
struct Program;         // framework/compiler/program.h; opaque here, and so is
struct RewriteContext;  // framework/compiler/rewrite.h

// An input or an output of an op.
struct ArgDef {
  std::string name = {};
  std::string type = "T";   // one of the op's type variables (OpDef::types) or a dtype's name: "int32", "bool"
  bool list = false;        // any number of tensors of this type; only the last argument may be a list
  bool ref = false;         // input: a variable that the op updates; output: that variable's storage after the update
  bool overwrites = false;  // input, with `ref`: the update does not depend on the variable's old value
  bool shape_only = false;  // input: only its shape is used, so its bytes are neither kept nor moved
};

// A dtype shared by inputs and outputs. The inputs of that type determine it, or else the attribute of the same name.
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
  std::string name = {};
  AttrValue value = {};   // the default, which also fixes the attribute's type
  bool required = false;  // if true, `value` only fixes the type
};

// The arguments of a shape rule. Extents may be unknown while a graph is built; all are known when a plan is compiled.
struct ShapeArgs {
  const Attrs& attrs;
  absl::Span<const Shape> inputs;
  absl::Span<const DType> dtypes;  // of the inputs
};

// Returns the shapes of all outputs, or InvalidArgument that says which input is wrong and why (the caller adds the
// node's name).
using ShapeFunction = std::function<absl::StatusOr<std::vector<Shape>>(const ShapeArgs&)>;

// Adds the nodes that compute the gradient with respect to each input of `node`, given the gradients with respect to
// its outputs (an invalid Output where none flows). Returns one Output per input, invalid if that input has no
// gradient. Errors stick to the scope's graph. `scope` is already colocated with `node` and carries its source line.
using GradientFunction =
    std::function<std::vector<Output>(const Scope& scope, const Node& node, absl::Span<const Output> dy)>;

// The floating-point operations of one run, for reports; a multiplication with an addition counts as two.
using FlopsFunction = std::function<double(const KernelSpec&)>;

// The runtime's treatment of a node. Only kKernel ops have kernels.
enum class OpKind {
  kKernel,
  kPlaceholder,  // fed
  kConst,        // attribute "value"
  kVariable,     // storage that outlives a step, owned by the session
  kNoOp,         // only orders other nodes through control inputs
  kView,         // output 0 has the bytes of input 0, from element "begin" on if it has this attribute
  // Inputs are combined with other towers', from nodes that have the same attribute "group", as attribute
  // "reduction" says: "mean", "sum", "broadcast", "reduce_scatter" or "all_gather" (CollectiveKind in
  // collective/collective.h).
  kAllReduce,
};

struct KernelDef {
  absl::string_view device_type = {};  // "CPU" or "GPU"
  DType dtype = {};                    // dtype of the op's first type variable
  KernelFactory make = {};
  // For ops that update a variable: several nodes as one (compiler/passes/passes.h, FuseUpdates). The nodes have equal
  // attributes and as many inputs. Null: each node runs by itself.
  FusedUpdatesFactory fuse_updates = nullptr;
  // For ops on a CPU that are not stateful and reduce input 0 to output 0, the only output. The reduction reads no
  // other input, and does not see the shapes of shape_only ones. Null: the op only runs as a whole.
  ReductionFactory reduce = nullptr;
  // Set by OpRegistry::AddKernels where it came in the place of another (OpDef::HasReplacement).
  bool replaces = false;
};

class LazyKernelTable;

// Adds `more` to `kernels`; one for the same device type and dtype as one that is there takes its place.
void MergeKernels(std::vector<KernelDef>& kernels, std::vector<KernelDef> more);

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
  kFlatSlice,        // x, "begin", "size" -> these elements of x, a view
  kRandomUniform,    // "T", "shape", "seed", "key", "per_step", "low", "high"
  kRandomNormal,     // "T", "shape", "seed", "key", "per_step", "mean", "stddev"
  kTruncatedNormal,  // as kRandomNormal
};
// "add_n", for messages.
absl::string_view OpRoleName(OpRole role);

// The definition of one op in one place: name, inputs, outputs, attributes, shape rule, gradient rule and kernels.
struct OpDef {
  std::string name = {};
  std::vector<ArgDef> inputs = {};
  // The shape rule decides how many outputs a list output, always the last, stands for.
  std::vector<ArgDef> outputs = {};
  std::vector<TypeVar> types = {};  // the first one selects the kernel
  std::vector<AttrDef> attrs = {};  // besides the type variables
  ShapeFunction shape = {};
  // Null: one per element of the largest input or output. Kernels of nodes with few are made for one thread.
  FlopsFunction flops = {};
  GradientFunction gradient = {};  // null: set not_differentiable too, or Gradients() fails at this op
  // Gradients() takes the op's derivatives for 0 and says nothing: set it only where they are, since the op is
  // piecewise constant. An op that has others, and no rule for them, is left without both.
  bool not_differentiable = false;
  OpRole role = OpRole::kNone;
  // Each output element depends only on the input elements at its position (with broadcasting), and so does each
  // element of a variable that the op updates. The kernel works on any part of them, so several such nodes can be fused
  // into one pass over memory (compiler/passes/passes.h, FuseElementwise).
  bool elementwise = false;
  ElementCodeFactory element_code = nullptr;  // null: kernels are not generated for it
  bool identity_if_same_shape = false;  // output 0 equals input 0 where their shapes do: a sum or stretch to a shape
  bool stateful = false;  // reads or writes more than its inputs and outputs: never folded, merged or reordered away
  // (input, output) pairs that may share memory if shapes and dtypes agree.
  std::vector<std::pair<int, int>> in_place = {};
  OpKind kind = OpKind::kKernel;
  std::vector<KernelDef> kernels = {};

  // Kernels from a back-end module, loaded when they are first looked up; may be null. Set by the registry.
  std::shared_ptr<const LazyKernelTable> late_kernels = {};

  // The kernel for a device type and dtype, or null: one of `kernels`, else of `late_kernels`, which are loaded if they
  // are for this type.
  const KernelDef* FindKernel(absl::string_view device_type, DType dtype) const;
  // True if the kernel that FindKernel returns was put in the place of another (OpRegistry::AddKernels), whose
  // computation a fused op therefore must not do (compiler/rewrite.h, FusedOp).
  bool HasReplacement(absl::string_view device_type, DType dtype) const;
  // All kernels for a device type, in the same order of precedence.
  std::vector<const KernelDef*> KernelsFor(absl::string_view device_type) const;
  // The ArgDef of input or output `index`, list arguments counted out. REQUIRES: the op has such an argument.
  const ArgDef& input_arg(int index) const;
  const ArgDef& output_arg(int index) const;
};

// `op`, in this role.
inline OpDef WithRole(OpDef op, OpRole role) {
  op.role = role;
  return op;
}

// KernelDefs for one device type and several dtypes:
// Kernels<float, double>("CPU", [](auto tag) { return &MakeAdd<typename decltype(tag)::type>; })
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

// Ops by name. Built once by plain function calls (ops/builtin_ops.h), then read by any number of threads.
class OpRegistry {
 public:
  // CHECKs that the definition is sound: it has a shape rule, a unique name and role, kernels only if it is a kKernel
  // op, and so on.
  void Add(OpDef op);
  // Adds kernels to an existing op; this is how a device back-end registers its own. A kernel for the same device type
  // and dtype as an existing one replaces it. It then is what runs: rewrites leave the op as it is (FusedOp).
  void AddKernels(absl::string_view op, std::vector<KernelDef> kernels);
  // Kernels that all ops, including those added later, fall back on; loaded when one is first looked up.
  void SetLateKernels(std::shared_ptr<const LazyKernelTable> kernels);
  // Adds the text of an element-wise op's computation, and C++ declarations that all such texts may use.
  void SetElementCode(absl::string_view op, ElementCodeFactory code);
  void SetElementDeclarations(std::string text) { element_declarations_ = std::move(text); }
  const std::string& element_declarations() const { return element_declarations_; }
  // The op of this name; null if there is none.
  const OpDef* Find(absl::string_view name) const;
  const OpDef* ForRole(OpRole role) const;
  const std::map<std::string, OpDef, std::less<>>& ops() const { return ops_; }

  // Rewrites run in the order of adding. CHECKs that no other has the name.
  void AddRewrite(Rewrite rewrite);
  absl::Span<const Rewrite> rewrites() const { return rewrites_; }

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
  std::shared_ptr<const LazyKernelTable> late_kernels_;
  std::map<OpRole, std::string> roles_;
  std::vector<Rewrite> rewrites_;
  std::string element_declarations_;
};

}  // namespace belfry
