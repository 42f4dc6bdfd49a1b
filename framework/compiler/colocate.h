// Colocation: which nodes must share a device, whatever it will be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/device_name.h"
#include "framework/base/memory/hash_table.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"

namespace belfry {

// Device requests by number, 0 being "anywhere": many nodes share few of them.
class DeviceRequests {
 public:
  DeviceRequests() { Intern(DeviceName()); }
  int Intern(const DeviceName& name);
  const DeviceName& name(int request) const { return names_[request]; }

 private:
  std::vector<DeviceName> names_;
  HashMap<std::string, int> numbers_;
  int last_ = 0;
};

// Nodes that share a device.
struct ColocationGroup {
  int leader = 0;        // the member with the lowest id
  int size = 1;          // members
  uint64_t types = 0;    // bit t: every member runs on devices of type t
  int request = 0;       // what the members ask for together
  int requester = -1;    // the member whose request that is; -1 if nobody asks
  bool storage = false;  // the request binds a variable, which is not moved for the sake of other nodes
};

struct Colocation {
  std::vector<ColocationGroup> groups;  // by ascending leader
  std::vector<int> group;               // by node id: an index into groups
  std::vector<std::string> notes;       // what allow_soft_placement gave up, one sentence each
};

struct ColocateOptions {
  absl::Span<const uint64_t> types = {};  // by node id, as ColocationGroup::types; none is zero
  absl::Span<const int> placed = {};      // the devices of the first nodes, which stay where they are
  bool allow_soft_placement = false;
};

// Joins an update with the variable that it changes (ArgDef::ref), then a node with those it is colocated with. Place
// says whose request gives way. InvalidArgument, with the group's members, where none may, or where no type of device
// runs all of a group.
absl::StatusOr<Colocation> Colocate(const Graph& graph, const DeviceSet& devices, const ColocateOptions& options,
                                    DeviceRequests& requests);

// "/gpu:2": a node's request as the user wrote it; empty if it has none.
std::string RequestText(const Node& node);
// " (train.cc:12)", or nothing if the line is not known.
std::string AtLine(const Node& node);
// InvalidArgument "Cannot assign a device to node 'b': <why>\n\t [[Node: b = ...]]".
absl::Status CannotAssign(const Node& node, absl::string_view why);

}  // namespace belfry
