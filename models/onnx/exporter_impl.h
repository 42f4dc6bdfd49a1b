// The values of a model on their way to ONNX, and the rules that write its nodes. Internal.
//
// A value has forms. Ours are images [N, H, W, C], ONNX's convolutions take [N, C, H, W], so that an image may be there
// in either order, and a chain of convolutions, norms and activations stays in the second. And a bfloat16 value may be
// there as float32, in which it is computed. A form that is missing is made of one that exists.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/memory/hash_table.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "models/onnx/graph_builder_impl.h"
#include "models/onnx/open_extents_impl.h"

namespace belfry::onnx {

class Exporter;

// The rule by which the nodes of one op are written.
struct Rule {
  absl::string_view op;                 // ours
  absl::Status (*write)(Exporter& to);  // the errors say what the rule does not cover
  absl::string_view onnx = {};          // the op of ONNX, where the rule is one of several ops
  bool exact = false;                   // the elements of outputs are elements of inputs, so none is rounded
  bool wide = false;                    // float16, too, is computed in float32, since intermediate results overflow
};

// The rules of a family, and the one for an op; null if there is none.
absl::Span<const Rule> ElementwiseRules();
absl::Span<const Rule> ArrayRules();
absl::Span<const Rule> ImageRules();
absl::Span<const Rule> MatrixRules();
absl::Span<const Rule> AttentionRules();
absl::Span<const Rule> RecurrentRules();
const Rule* FindRule(absl::string_view op);

enum class Layout : uint8_t { kAsGiven, kChannelsFirst };

// The position of an axis of [N, H, W, C] in [N, C, H, W], and the other way round as a permutation.
inline constexpr int64_t kChannelsFirstAxis[] = {0, 2, 3, 1};
inline constexpr int64_t kToChannelsFirst[] = {0, 3, 1, 2}, kToChannelsLast[] = {0, 2, 3, 1};

// An extent: a number, or the name of an int64 [1]. -1: what Reshape infers.
struct Dim {
  int64_t size = -1;
  std::string name = {};
};

// Constants of a model by output, as far as nodes need them that are not constant.
using Constants = HashMap<Output, Tensor>;

class Exporter {
 public:
  // All are borrowed.
  Exporter(const SavedModel& model, const OpenExtents& extents, const Constants& constants);

  // Writes a node by its rule. Unimplemented, with its name, if there is none.
  absl::Status Write(const Node& node);
  // The graph with the model's inputs and outputs; of no use afterwards.
  absl::StatusOr<GraphProto> Finish();

  // --- For rules: the node that is being written ---

  const Node& node() const { return *node_; }
  const Attrs& attrs() const { return node_->attrs(); }
  const Rule& rule() const { return *rule_; }
  // The dtype in which it computes with values of `dtype`.
  DType ComputeType(DType dtype) const;
  DType ComputeType() const { return ComputeType(node_->input(0).dtype()); }

  // Input i, or another value, in the dtype of computation.
  std::string In(int i, Layout layout = Layout::kAsGiven) { return ValueOf(node_->input(i), layout); }
  std::string ValueOf(const Output& value, Layout layout = Layout::kAsGiven);
  // The same for an element-wise op whose result is 4-D and in this order: inputs of lower rank broadcast to it.
  std::string Operand(int i, Layout layout);
  // True if input i is an image that exists as [N, C, H, W].
  bool IsChannelsFirst(int i) const;
  // The order of a result: that of images among the inputs which are there as [N, C, H, W], otherwise ours.
  Layout ResultLayout() const;
  // The constant that a value is; null if it is none.
  const Tensor* ConstantOf(const Output& value) const;
  const Tensor* ConstantIn(int i) const { return ConstantOf(node_->input(i)); }
  // A constant as another tensor, such as a transposed filter, under its name.
  std::string Changed(const Output& constant, const Tensor& value);
  std::string Changed(int i, const Tensor& value) { return Changed(node_->input(i), value); }

  // Gives output k its value, in the dtype of computation and in this order.
  void Out(const std::string& name, Layout layout = Layout::kAsGiven, int k = 0);
  // Output 0 is input 0.
  void SameAsInput();
  // The node of ONNX that computed input 0, if nothing else reads that and it is an `op`; otherwise null.
  NodeProto* SoleProducer(absl::string_view op);
  // The result of that node.
  std::pair<std::string, Layout> RawInput() const;

  std::string Add(absl::string_view op, const std::vector<std::string>& inputs, const NodeAttributes& attributes = {}) {
    return builder_.Add(op, inputs, attributes);
  }
  std::string Number(double value) { return builder_.Number(value, ComputeType()); }
  std::string Ints(const std::vector<int64_t>& values) { return builder_.Ints(values); }
  GraphBuilder& builder() { return builder_; }
  std::string Transpose(const std::string& x, absl::Span<const int64_t> perm);
  std::string CastTo(const std::string& x, DType dtype);

  // --- Extents ---

  Dim DimOf(const Output& value, int axis);
  std::vector<Dim> DimsOf(const Output& value);
  std::string NameOf(const Dim& dim) { return dim.name.empty() ? Ints({dim.size}) : dim.name; }
  // An int64 [n].
  std::string ShapeTensor(const std::vector<Dim>& dims);
  // x in another shape, in which one extent may be -1.
  std::string Reshape(const std::string& x, std::vector<Dim> dims);
  // The extents that an output stands for which is a carrier (ops/copy/extents.cc).
  std::vector<Dim> CarriedBy(const Output& carrier);
  void SetCarried(std::vector<Dim> dims) { carried_[node_->output(0)] = std::move(dims); }

  // A value that several nodes share, such as the mask of all attention layers, by a key of the caller's choice. Empty
  // until the caller sets it.
  std::string& Shared(const std::string& key) { return shared_[key]; }

 private:
  struct Form {
    Layout layout = Layout::kAsGiven;
    bool wide = false;  // float32 instead of the value's own 16 bits
    bool operator<(const Form& other) const { return std::pair(layout, wide) < std::pair(other.layout, other.wide); }
  };
  struct Value {
    std::map<Form, std::string> forms;
    std::string raw;  // as Out was given it, before it is rounded
    Layout raw_layout = Layout::kAsGiven;
  };

  Output Resolve(Output output) const;
  // The value's name in this form; empty if it has none, which Write finds to be an error.
  std::string Get(Output output, Form form);
  std::string Derive(const Output& output, Form form);
  std::string NameOfConstant(const Output& output) const;
  Form FormOf(const Output& output, Layout layout) const;
  void AddInputs();
  void SetShape(const std::string& name, const Output& value, ValueInfoProto& info) const;

  const SavedModel& model_;
  const OpenExtents& extents_;
  const Constants& constants_;
  GraphBuilder builder_;
  HashMap<Output, Value> values_;
  HashMap<Output, Output> aliases_;
  HashMap<Output, int> readers_;
  HashMap<Output, std::vector<Dim>> carried_;
  std::map<std::string, std::string> shared_;
  std::vector<std::string> extent_names_;  // of extents_, once they are needed
  const Node* node_ = nullptr;
  const Rule* rule_ = nullptr;
  absl::Status missing_;  // the first input that has no value
};

}  // namespace belfry::onnx
