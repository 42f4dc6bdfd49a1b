// Variables: tensors that outlive a step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/graph/node.h"

namespace belfry {

class OpScope;
class Scope;

// The definition of one variable: a logical name and the replica of it that a tower holds. Owned by the Graph.
struct VariableDef {
  std::string logical_name = {};      // "conv1/weights", without a tower's prefix
  int replica = 0;                    // the tower that holds it, in replicated mode
  const Node* node = nullptr;         // of role kVariable; its output 0 is the value. For a part: of role kFlatSlice
  Output initial_value = {};          // what `initializer` assigns
  const Node* initializer = nullptr;  // of role kAssign
  bool trainable = true;
  // Its value is not kept beyond a training step, and not in checkpoints: nothing is read from it before it is written,
  // so it needs no initializer, and the two above may be invalid and null.
  bool transient = false;
  const VariableDef* slot_of = nullptr;    // for an optimizer's slot or a moving average: the variable it belongs to
  const VariableDef* begins_as = nullptr;  // the variable whose initial value it was given by BeginAs
  // For a part of a variable (SliceOfVariable): the variable, and where the part begins in it, in elements. A part has
  // the variable's name and replica, and neither an initial value nor memory of its own.
  const VariableDef* part_of = nullptr;
  int64_t begin = 0;
};

// A handle of a variable. A value type, cheap to copy; converts to the Output that reads it. A read sees the value from
// before this step's updates, unless it depends on an update by data or control dependency.
class Variable : public formulas::Enabled {
 public:
  Variable() = default;
  explicit Variable(const VariableDef* def) : def_(def) {}

  bool valid() const { return def_ != nullptr; }
  // An invalid one has the name "(invalid)", dtype float32 and an invalid shape, and is not trainable.
  const std::string& name() const;
  int replica() const { return valid() ? def_->replica : 0; }
  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  bool trainable() const { return valid() && def_->trainable; }
  bool transient() const { return valid() && def_->transient; }
  // These REQUIRE valid(), and initializer() that there is one (VariableDef::transient).
  const Node& node() const { return *def_->node; }
  const Node& initializer() const { return *def_->initializer; }
  const VariableDef& def() const { return *def_; }
  // The variable that this is a part of, or this one.
  Variable whole() const { return def_->part_of == nullptr ? *this : Variable(def_->part_of); }
  // Whether this is the slot of a part: a tower's share of the state of an optimizer that is divided among towers.
  bool sharded() const { return def_->slot_of != nullptr && def_->slot_of->part_of != nullptr; }
  Output value() const { return valid() ? def_->node->output(0) : Output(); }
  operator Output() const { return value(); }  // NOLINT: a variable is used like any tensor
  bool operator==(const Variable& other) const { return def_ == other.def_; }

 private:
  const VariableDef* def_ = nullptr;
};

// Builds the initial value of a variable. Random values are keyed by the logical name, so all replicas start alike.
using Initializer =
    std::function<Output(const Scope& scope, absl::string_view logical_name, DType dtype, const Shape& shape)>;

// Initializers. A weight has shape [..., fan_in, fan_out]; leading axes (a convolution's height and width) multiply
// both fans.
Initializer ZerosInitializer();
Initializer ConstantInitializer(double value);
Initializer UniformInitializer(double low, double high);
Initializer NormalInitializer(double stddev, double mean = 0);
// Normal, redrawn while outside two standard deviations.
Initializer TruncatedNormalInitializer(double stddev, double mean = 0);
// Glorot and Bengio (2010): uniform in +-sqrt(6 / (fan_in + fan_out)); TensorFlow's default.
Initializer GlorotUniformInitializer();
Initializer GlorotNormalInitializer();
// He et al. (2015): normal with variance 2 / fan_in, or uniform in +-sqrt(6 / fan_in).
Initializer HeNormalInitializer();
Initializer HeUniformInitializer();

struct VariableOptions {
  DType dtype = DType::kFloat32;
  bool trainable = true;
  Variable slot_of = {};   // if valid, the new variable is placed on the device of this one
  bool transient = false;  // VariableDef::transient
};

// The variable `name` below the scope's variable path, in the scope's replica: a new one, or an existing one if the
// scope reuses variables (see Reuse). Errors, which stick to the graph: it exists and may not be reused; it must be
// reused and does not exist; it exists with another shape or dtype; its name is empty, its shape not fully known or its
// initializer null, which is for transient variables only.
Variable GetVariable(OpScope scope, absl::string_view name, const Shape& shape, const Initializer& initializer,
                     const VariableOptions& options = {});

// Elements [begin, begin + size) of a variable, as a variable of rank 1 that shares its memory: updating one updates
// the other. It is not a variable of the graph (Graph::variables); its slots are, each with the part's shape. `begin`
// must be a multiple of kAlignment bytes. Errors, which stick to the graph: elements that the variable does not have.
Variable SliceOfVariable(OpScope scope, const Variable& variable, int64_t begin, int64_t size);

// Makes `variable` begin with the initial value of `other`, which has its shape and dtype and an initializer: its own
// becomes another node. What InitializeVariables has added before keeps the former one.
void BeginAs(OpScope scope, const Variable& variable, const Variable& other);

// Adds a node that runs the initializers of all variables now in the graph: TensorFlow's global_variables_initializer.
const Node* InitializeVariables(OpScope scope);

}  // namespace belfry
