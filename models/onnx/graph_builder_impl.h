// Nodes and initializers of an ONNX graph. Internal: it shows protobuf.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/base/tensor.h"
#include "models/onnx/onnx.pb.h"

namespace belfry::onnx {

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, Tensor>;
using NodeAttributes = std::vector<std::pair<std::string, AttributeValue>>;

// ONNX's number of a dtype.
TensorProto::DataType ElementType(DType dtype);

// Adds nodes in an order in which inputs come before their readers. Values are known by name. Not thread-safe.
class GraphBuilder {
 public:
  // `wanted`, or, if that is taken, `wanted` with the first free suffix of "_1", "_2" ...
  std::string Unique(absl::string_view wanted);
  // Sets the name of the nodes, outputs and constants that are added from now on.
  void set_name(std::string name) { name_ = std::move(name); }

  // Adds a node and returns its output, or its outputs. "" is an omitted input.
  std::string Add(absl::string_view op, const std::vector<std::string>& inputs, const NodeAttributes& attributes = {});
  std::vector<std::string> AddAll(absl::string_view op, const std::vector<std::string>& inputs, int outputs,
                                  const NodeAttributes& attributes = {});
  // Adds a node that gives `output`, which must be a name that Unique returned.
  void AddTo(const std::string& output, absl::string_view op, const std::vector<std::string>& inputs);
  // The node that was added last and has this output; null if there is none.
  NodeProto* Producer(absl::string_view output);

  std::string Initializer(absl::string_view wanted, const Tensor& value);
  // Small constants, of which equal ones are shared: int64 [n], and a scalar.
  std::string Ints(const std::vector<int64_t>& values);
  std::string Number(double value, DType dtype);

  // The graph, without nodes and initializers on which no output depends. Leaves this empty.
  GraphProto Take(const std::set<std::string>& outputs);

 private:
  GraphProto graph_;
  std::string name_;
  std::set<std::string> names_;
  std::map<std::string, std::string> shared_;
  std::map<std::string, int, std::less<>> producers_;  // nodes, by their first output
};

}  // namespace belfry::onnx
