// Graphs in TensorFlow's format, for TensorBoard's graph page.
#pragma once

#include <functional>
#include <string>

#include "framework/graph/graph.h"

namespace belfry {

// Returns the full name of the device on which a node runs; empty if unknown.
using DeviceNames = std::function<std::string(const Node&)>;

// A serialised GraphDef (framework/io/graph.proto): each node with its name, op, inputs, control inputs, attributes,
// colocation ("_class"), output shapes ("_output_shapes") and device: the requested one if `devices` is null. Tensor
// values of up to 64 bytes are included; for larger ones only dtype and shape.
std::string GraphToProto(const Graph& graph, const DeviceNames& devices = nullptr);

}  // namespace belfry
