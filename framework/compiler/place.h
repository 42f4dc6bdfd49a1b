// Placement: which device runs which node.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

struct PlaceOptions {
  bool allow_soft_placement = false;
};

// The result of Place.
struct Placement {
  std::vector<int> device;         // by node id: an index into the DeviceSet
  std::vector<std::string> notes;  // which nodes are not where they asked to be, and why: sentences for the log
};

// Chooses a device for every node of the graph. In this order: what the user asked for; colocation (an update lives
// with its variable, a gradient with its forward node); the devices that have a kernel for the op and dtype; GPU before
// CPU, and of one type the lowest id. A node without inputs and with one output goes to its consumers' device if these
// agree, and a node that only looks at shapes follows its first input. Nodes below `placed.device.size()` keep the
// device they have: how a session places what was added to its graph since.
//
// With allow_soft_placement, a device that does not exist or that has no kernel gives way to one that exists and has,
// and `notes` says so; without it, it is an InvalidArgument error that begins "Cannot assign a device to node 'b':
// Could not satisfy explicit device specification '/gpu:2'" and ends with the node's summary in "[[Node: ...]]";
// between the two stand the reason, the devices there are and the user's line. Of several errors, the first
// node's in the order of PlacementText is returned. FailedPrecondition if there are no devices.
//
// Where nodes that share a device ask for different ones:
// - Different jobs, replicas or tasks are an error, also between an update and its variable, and also with
//   allow_soft_placement.
// - Between an update and its variable, a type or id of the update's gives way, and `notes` says so. Two variables that
//   one node updates on different devices are an error, and so is an update without a kernel for where its variable may
//   be.
// - Between nodes that are only colocated, different types or ids are an error. With allow_soft_placement a node gives
//   way to a variable, or to a node placed before; of two other nodes both give up what differs; and where both sides
//   are variables, or no type of device runs both, the colocation is given up and `notes` says so.
absl::StatusOr<Placement> Place(const Graph& graph, const DeviceSet& devices, const PlaceOptions& options,
                                Placement placed = {});

// The placement log: DeviceSet::MappingText(), then one line a node from id `first` on, such as
// "MatMul: /job:localhost/replica:0/task:0/gpu:0". In TensorFlow's order: always the node that became ready last, so
// that for c = a * b it is b, a, MatMul.
std::string PlacementText(const Graph& graph, const DeviceSet& devices, const Placement& placement, int first = 0);

}  // namespace belfry
