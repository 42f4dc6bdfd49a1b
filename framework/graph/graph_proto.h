// A graph in TensorFlow's format, for TensorBoard's graph page.
#pragma once

#include <functional>
#include <string>

#include "framework/graph/graph.h"

namespace belfry {

// The full name of the device on which a node runs, or nothing if that is not known.
using DeviceNames = std::function<std::string(const Node&)>;

// The bytes of a GraphDef (framework/io/graph.proto): each node with its name, op, inputs, control inputs, attributes,
// colocation ("_class") and shapes of outputs ("_output_shapes"); where `devices` is null, with the device that was
// asked for. Values of up to 64 bytes are in it, of larger ones the dtype and the shape. A session's:
//   GraphToProto(graph, [&](const Node& node) { return session.DeviceOf(node).name().ToString(); })
std::string GraphToProto(const Graph& graph, const DeviceNames& devices = nullptr);

}  // namespace belfry
