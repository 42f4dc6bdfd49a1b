// Observing what every node of a step computes.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/compiler/program.h"

namespace belfry {

// One result of a node, as its kernel, copy or collective has just left it.
struct NodeResult {
  const ProgramNode& node;
  int index = 0;               // of the node in its Program
  int output = 0;              // of the node; -1 - i: its input i, a variable that it has updated
  int device = 0;              // in the DeviceSet
  uint64_t run = 0;            // number among the session's runs
  const TensorSpec& spec;      // dtype and shape
  const void* data = nullptr;  // in host memory, until the observer returns
};

// Called by the threads of all devices at once. Nodes of one device come in the order of its stream.
using ResultObserver = std::function<void(const NodeResult&)>;

}  // namespace belfry
