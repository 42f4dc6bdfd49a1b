// The values of an ONNX graph on their way to nodes of ours, and the rules that add these. Internal.
//
// A value has forms. ONNX's images are [N, C, H, W], our convolutions take [N, H, W, C], so that an image may be there
// in either order, and a chain of convolutions, norms and activations stays in the second. A value may also be known
// while the graph is built: as a tensor, or as extents, such as the batch that a Reshape names. A form that is missing
// is made of one that exists.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/memory/hash_table.h"
#include "framework/graph/scope.h"
#include "models/onnx/import/tensors_impl.h"
#include "models/onnx/onnx.pb.h"
#include "ops/extents.h"

namespace belfry::onnx {

class Importer;

// The rule that adds the nodes of one op of ONNX.
struct ImportRule {
  absl::string_view op;                   // ONNX's
  absl::Status (*add)(Importer& to);      // the errors say what the rule does not cover
  Output (*unary)(OpScope, Output) = {};  // our op, where the rule is one of several ops
  Output (*binary)(OpScope, Output, Output) = {};
};

// The rules of a family, and the one for an op; null if there is none.
absl::Span<const ImportRule> ElementwiseImports();
absl::Span<const ImportRule> ActivationImports();
absl::Span<const ImportRule> ShapeImports();
absl::Span<const ImportRule> ArrayImports();
absl::Span<const ImportRule> PartImports();
absl::Span<const ImportRule> ImageImports();
absl::Span<const ImportRule> NormImports();
absl::Span<const ImportRule> MatrixImports();
absl::Span<const ImportRule> ReductionImports();
absl::Span<const ImportRule> RecurrentImports();
const ImportRule* FindImportRule(absl::string_view op);

enum class Order : uint8_t { kOnnx, kChannelsLast };

// An extent of a computed shape; nullopt if it is not a linear function of one extent of a tensor.
using MaybeExtent = std::optional<ops::Extent>;
// A vector, or scalar, of extents.
struct ExtentList {
  std::vector<MaybeExtent> list;
  bool scalar = false;
  DType dtype = DType::kInt64;  // or int32
};

class Importer {
 public:
  struct Options {
    bool channels_last = false;  // images at the inputs and outputs are [N, H, W, C]
  };
  // Variables are made in `scope`, which is the root of its graph. All are borrowed.
  Importer(const Scope& scope, const GraphProto& graph, int64_t opset, const TensorReader& tensors, Options options);

  // Adds the nodes on which outputs depend. Errors name the node.
  absl::Status AddAll();
  const std::vector<std::pair<std::string, Output>>& inputs() const { return inputs_; }
  const std::vector<std::pair<std::string, Output>>& outputs() const { return outputs_; }
  // The variables with their values, in our layout.
  const std::vector<std::pair<Variable, Tensor>>& variables() const { return variables_; }
  int64_t nodes() const { return added_; }

  // --- For rules: the node that is being read ---

  const NodeProto& node() const { return *node_; }
  const ImportRule& rule() const { return *rule_; }
  const Scope& scope() const { return scope_; }
  int64_t opset() const { return opset_; }
  const TensorReader& tensors() const { return tensors_; }

  int64_t Int(absl::string_view name, int64_t otherwise) const;
  double Float(absl::string_view name, double otherwise) const;
  std::string String(absl::string_view name, absl::string_view otherwise) const;
  std::vector<int64_t> Ints(absl::string_view name) const;  // empty if it is not given
  const AttributeProto* Attribute(absl::string_view name) const;

  int InputCount() const { return node_->input_size(); }
  bool Has(int i) const { return i >= 0 && i < node_->input_size() && !node_->input(i).empty(); }
  bool IsUsed(int k) const { return k < node_->output_size() && needed_.contains(node_->output(k)); }
  // Input i, an image or anything else, in this order. Invalid after an error, which Add reports.
  Output In(int i, Order order = Order::kOnnx);
  DType TypeOf(int i);
  // The shape of input i in ONNX's order.
  Shape ShapeOf(int i);
  // The extent of an axis of input i, which is counted from the front in ONNX's order.
  ops::Extent ExtentOf(int i, int64_t axis);
  // Input i for an element-wise op whose result is 4-D and in this order: inputs of lower rank broadcast to it.
  Output Operand(int i, Order order);
  // The order of an element-wise result: the second if an input exists in it.
  Order ResultOrder();
  bool IsChannelsLast(int i) const;
  // Input i as images [N, H, W, C]: sequences [N, C, L] get H = 1. OutImages gives output k the images' order back.
  absl::StatusOr<Output> Images(int i);
  void OutImages(Output images, int rank, int k = 0);

  // The tensor that input i is known to be; null if it is not known. Unimplemented of Known: it depends on inputs.
  const Tensor* Constant(int i);
  absl::StatusOr<Tensor> Known(int i);
  absl::StatusOr<std::vector<int64_t>> KnownInts(int i);
  absl::StatusOr<double> KnownNumber(int i);
  // The integers of an attribute of early opsets, or of input i in those since; `otherwise` if neither is given.
  absl::StatusOr<std::vector<int64_t>> IntsOf(absl::string_view attribute, int i,
                                              const std::vector<int64_t>& otherwise = {});
  // The extents that input i is known to be; nullopt if it depends on elements of tensors.
  std::optional<ExtentList> ExtentsIn(int i);
  bool IsComputedExtents(int i) const;  // they depend on extents of tensors
  // An initializer whose axes are permuted: if nothing has read it yet, its variable has this order.
  Output Parameter(int i, absl::Span<const int64_t> perm);
  // An operand [.., K, N] of a matrix product, and whether it is there as [.., N, K]. `transposed`: of the node's.
  std::pair<Output, bool> Matrix(int i, bool transposed);
  // Input i as an untrained variable, if it is one.
  Output Statistic(int i);
  // True if input i is an initializer or known.
  bool IsParameter(int i) const;

  void Out(Output value, Order order = Order::kOnnx, int k = 0);
  void OutExtents(ExtentList extents);
  // Output 0 is input i. A copy of a weight is a variable of its own: exporters write one where weights are equal.
  void SameAs(int i);

 private:
  struct Value {
    Output onnx, channels_last;
    std::optional<Tensor> constant;
    std::optional<ExtentList> extents;
    const TensorProto* initializer = nullptr;  // until it is read
    const TensorProto* source = nullptr;       // the same, also afterwards
    std::string name;                          // of its variable
    bool parameter = false;                    // an initializer of floats, which becomes a variable
    std::vector<int64_t> stored;               // the axes' order of its variable
    Output variable;
  };

  absl::Status AddInitializers();
  static Value ValueOf(const TensorProto& tensor, const std::string& name);
  absl::Status AddInputs();
  absl::Status AddOutputs();
  absl::Status FindNeeded();
  absl::Status AddNode(const NodeProto& node);
  absl::Status AddByRule();
  absl::StatusOr<Shape> ShapeOfInput(const ValueInfoProto& input) const;

  Value* Find(int i);
  Output Get(Value& value, Order order);
  Output Reordered(const Output& from, Order order);
  Output MakeVariable(Value& value, absl::Span<const int64_t> perm, bool trainable);
  void ReadInitializer(Value& value);
  Output Materialise(const ExtentList& extents);
  void Fold();
  // Counts what is kept once more than the file has it.
  void Copied(size_t bytes);
  absl::StatusOr<Tensor> Evaluate(const Output& output);
  std::string CleanName(absl::string_view name, absl::string_view otherwise) const;
  void Fail(const absl::Status& status) { error_.Update(status); }

  const Scope root_;
  const GraphProto& graph_;
  const int64_t opset_;
  const TensorReader& tensors_;
  const Options options_;
  std::map<std::string, Value, std::less<>> values_;
  std::set<std::string, std::less<>> needed_;
  std::map<std::string, int, std::less<>> readers_;
  std::vector<std::pair<std::string, Output>> inputs_, outputs_;
  std::vector<std::pair<Variable, Tensor>> variables_;
  HashMap<Output, Tensor> evaluated_;
  int64_t added_ = 0;
  size_t folded_bytes_ = 0, copied_bytes_ = 0;
  Scope scope_;
  const NodeProto* node_ = nullptr;
  const ImportRule* rule_ = nullptr;
  absl::Status error_;  // the first one of the node's inputs
};

// An axis of a rank-4 value of ONNX in [N, H, W, C].
inline constexpr int64_t kChannelsLastAxis[] = {0, 3, 1, 2};

// `axis` counted from the front, in this order.
absl::StatusOr<int64_t> AxisIn(Order order, int64_t axis, int rank);
// Zeros of these extents, at least one: an operand of whose elements nothing is read.
Output ZerosOf(const Scope& scope, const ops::Extents& extents);
// The int64 vector [0, 1, ..., extent - 1].
Output CountTo(const Scope& scope, const ops::Extent& extent);
// A scalar of this dtype.
Output NumberOf(const Scope& scope, double value, DType dtype);

}  // namespace belfry::onnx
