#include "framework/compiler/place.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/check.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/compiler/colocate.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

constexpr int kMaxTypes = 64;  // bits of a set of device types

// Consumers of each node, in CSR form: ids[begin[i]] to ids[begin[i + 1] - 1] are the nodes from `first` on to
// which node i sends something. Two passes over the edges fill it, without an allocation for each node.
struct Consumers {
  std::vector<int> begin, ids;
};

// `visit(node, use)` calls use(producer) for each edge that counts.
template <class Visit>
Consumers CollectConsumers(const Graph& graph, int first, const Visit& visit) {
  Consumers consumers;
  consumers.begin.assign(graph.size() + 1, 0);
  for (int id = first; id < graph.size(); ++id) {
    visit(graph.node(id), [&](const Node& producer) { ++consumers.begin[producer.id() + 1]; });
  }
  std::partial_sum(consumers.begin.begin(), consumers.begin.end(), consumers.begin.begin());
  consumers.ids.resize(consumers.begin.back());
  std::vector<int> next = consumers.begin;
  for (int id = first; id < graph.size(); ++id) {
    visit(graph.node(id), [&](const Node& producer) { consumers.ids[next[producer.id()]++] = id; });
  }
  return consumers;
}

// The order in which TensorFlow logs nodes: of those whose inputs have been listed, always the one that became ready
// last.
std::vector<int> LogOrder(const Graph& graph, int first) {
  const auto edges = [&](const Node& node, const auto& use) {
    for (const Output& input : node.inputs()) {
      if (input.node->id() >= first) use(*input.node);
    }
    for (const Node* control : node.control_inputs()) {
      if (control->id() >= first) use(*control);
    }
  };
  const Consumers consumers = CollectConsumers(graph, first, edges);
  std::vector<int> pending(graph.size(), 0), ready, order;
  for (int id : consumers.ids) ++pending[id];
  for (int id = first; id < graph.size(); ++id) {
    if (pending[id] == 0) ready.push_back(id);
  }
  while (!ready.empty()) {
    const int id = ready.back();
    ready.pop_back();
    order.push_back(id);
    for (int i = consumers.begin[id]; i < consumers.begin[id + 1]; ++i) {
      if (--pending[consumers.ids[i]] == 0) ready.push_back(consumers.ids[i]);
    }
  }
  return order;
}

// A node that makes something from nothing, such as a constant, and can do so wherever it is wanted. A variable is not
// one: its place decides where its updates run, so the request or the preferred device does.
bool IsGenerator(const Node& node) {
  return node.inputs().empty() && node.outputs().size() == 1 && node.op().kind != OpKind::kVariable;
}

// A node that does not read the elements of its inputs: it costs nothing where its input is, and a transfer elsewhere.
bool IsFollower(const Node& node) {
  if (node.inputs().empty()) return false;
  if (node.op().kind == OpKind::kView) return true;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    if (!node.op().input_arg(static_cast<int>(i)).shape_only) return false;
  }
  return true;
}

// Chooses a device for every colocation group of the nodes from `first_` on.
//
// Invariant: groups partition the nodes, and a group carries what all its members need: the device types that have a
// kernel for each member, and one request that agrees with those of all members. So a device that suits the group suits
// every member, and choosing for groups cannot fail once Satisfy has found that each has a device. Merging groups
// (Colocate) narrows types and requests; with soft placement a request may lose its id or type again, and then a note
// says so. Groups that hold a node placed before keep its device: their leader, the lowest id, is such a node.
//
// Cost: linear in nodes and edges. Requests are interned and the best device is looked up once per (request, types), of
// which a graph has few; only the messages of errors and notes walk the devices again.
class Placer {
 public:
  Placer(const Graph& graph, const DeviceSet& devices, const PlaceOptions& options, Placement placed)
      : graph_(graph),
        devices_(devices),
        options_(options),
        placement_(std::move(placed)),
        first_(static_cast<int>(placement_.device.size())) {}

  absl::StatusOr<Placement> Run() {
    if (devices_.size() == 0) return absl::FailedPreconditionError("No devices are registered");
    for (int id = 0; id < first_; ++id) {
      const int device = placement_.device[id];
      if (first_ <= graph_.size() && device >= 0 && device < devices_.size()) continue;
      return absl::InvalidArgumentError(absl::StrCat("Node ", id, " was placed on device ", device, ", but there are ",
                                                     graph_.size(), " nodes and ", devices_.size(), " devices"));
    }
    RankDevices();
    std::vector<uint64_t> types(graph_.size());
    for (int id = 0; id < first_; ++id) types[id] = type_bit_[placement_.device[id]];
    const std::vector<int> order = LogOrder(graph_, first_);
    for (int id : order) {
      types[id] = SupportedTypes(graph_.node(id));
      if (types[id] == 0) return NoKernelAnywhere(graph_.node(id));
    }
    const ColocateOptions options{types, placement_.device, options_.allow_soft_placement};
    ASSIGN_OR_RETURN(colocation_, Colocate(graph_, devices_, options, requests_));
    for (int id : order) RETURN_IF_ERROR(Satisfy(GroupOf(id)));
    Choose();
    NoteMoved();
    return std::move(placement_);
  }

 private:
  ColocationGroup& GroupOf(int node) { return colocation_.groups[colocation_.group[node]]; }

  // Sorts devices by preference: of one task, GPUs before others before CPUs, lowest id first. Gives each type a bit.
  void RankDevices() {
    absl::btree_map<std::string, uint64_t> bits;
    for (int i = 0; i < devices_.size(); ++i) {
      const std::string type(devices_.device(i).type());
      const auto [entry, added] = bits.try_emplace(type, uint64_t{1} << bits.size());
      if (added) types_.push_back(type);
      BELFRY_CHECK(types_.size() <= kMaxTypes);
      type_bit_.push_back(entry->second);
      preference_.push_back(i);
    }
    const auto key = [&](int i) {
      const DeviceName& name = devices_.device(i).name();
      const int rank = *name.type == "GPU" ? 0 : *name.type == "CPU" ? 2 : 1;
      return std::tuple(*name.job, *name.replica, *name.task, rank, *name.type, *name.id);
    };
    std::sort(preference_.begin(), preference_.end(), [&](int a, int b) { return key(a) < key(b); });
  }

  // The device types that have a kernel for the node, as bits. Nodes without kernels go anywhere.
  uint64_t SupportedTypes(const Node& node) {
    const OpDef& op = node.op();
    if (op.kind != OpKind::kKernel) return ~uint64_t{0};
    if (op.types.empty()) return 0;
    const DType dtype = KernelDType(op, node.attrs());
    const auto [entry, added] = supported_.try_emplace({&op, dtype}, 0);
    if (!added) return entry->second;
    for (size_t t = 0; t < types_.size(); ++t) {
      if (op.FindKernel(types_[t], dtype) != nullptr) entry->second |= uint64_t{1} << t;
    }
    return entry->second;
  }

  bool Matches(int request, int device) const {
    return IsSpecification(requests_.name(request), devices_.device(device).name());
  }

  // The preferred device that meets the request and has one of the types, or -1.
  int Best(int request, uint64_t types) {
    const auto [entry, added] = best_.try_emplace({request, types}, -1);
    if (!added) return entry->second;
    for (int device : preference_) {
      if ((types & type_bit_[device]) == 0 || !Matches(request, device)) continue;
      entry->second = device;
      break;
    }
    return entry->second;
  }

  // Checks that a device meets the group's request. With soft placement, gives up the id, then the type, until one
  // does. Otherwise the error names the reason in the words that TensorFlow's users know.
  absl::Status Satisfy(ColocationGroup& group) {
    if (Best(group.request, group.types) >= 0) return absl::OkStatus();
    if (options_.allow_soft_placement) {
      DeviceName name = requests_.name(group.request);
      for (auto loosen : {+[](DeviceName& n) { n.id.reset(); }, +[](DeviceName& n) { n.type.reset(); }}) {
        loosen(name);
        const int request = requests_.Intern(name);
        if (Best(request, group.types) < 0) continue;
        group.request = request;
        return absl::OkStatus();
      }
    }
    const Node& node = graph_.node(group.requester < 0 ? group.leader : group.requester);
    const std::string spec = requests_.Intern(node.requested_device()) == group.request
                                 ? RequestText(node)
                                 : requests_.name(group.request).ToString();
    std::string why = absl::StrCat("Could not satisfy explicit device specification '", spec, "' because ",
                                   WhyNot(group.request, node));
    if (group.size > 1) {
      absl::StrAppend(&why, " (it shares a device with ", group.size - 1, " other nodes, the first of which is '",
                      graph_.node(group.leader).name(), "')");
    }
    absl::StrAppend(&why, "; the devices are: ", DeviceList());
    if (node.location().known()) absl::StrAppend(&why, "; the node is defined at ", node.location().ToString());
    return CannotAssign(node, why);
  }

  // A clause for messages. Distinguishes a device that does not exist, a node without a kernel for it, and a node that
  // is held back by what it is colocated with.
  std::string WhyNot(int request, const Node& node) {
    if (Best(request, ~uint64_t{0}) < 0) return "there is no such device";
    const bool own = (SupportedTypes(node) & GroupOf(node.id()).types) == SupportedTypes(node);
    const std::string type = requests_.name(request).type.value_or("such");
    return own ? absl::StrCat("no supported kernel for ", type, " devices is available: ", Kernels(node))
               : absl::StrCat("nodes that must share its device have no supported kernel for ", type, " devices");
  }

  std::string Kernels(const Node& node) const {
    absl::btree_map<std::string, std::vector<absl::string_view>> dtypes;
    for (const KernelDef& kernel : node.op().kernels) dtypes[std::string(kernel.device_type)];
    for (const std::string& type : types_) dtypes[type];
    for (auto& [type, names] : dtypes) {
      for (const KernelDef* kernel : node.op().KernelsFor(type)) names.push_back(DTypeName(kernel->dtype));
    }
    absl::erase_if(dtypes, [](const auto& entry) { return entry.second.empty(); });
    if (dtypes.empty()) return absl::StrCat("op ", node.op().name, " has no kernels");
    return absl::StrCat("op ", node.op().name, " has kernels for ",
                        absl::StrJoin(dtypes, ", ", [](std::string* out, const auto& entry) {
                          absl::StrAppend(out, entry.first, " (", absl::StrJoin(entry.second, ", "), ")");
                        }));
  }

  std::string DeviceList() const {
    std::vector<std::string> names;
    for (int i = 0; i < devices_.size(); ++i) names.push_back(devices_.device(i).name().ToLegacyString());
    return absl::StrJoin(names, ", ");
  }

  absl::Status NoKernelAnywhere(const Node& node) const {
    const std::string dtype =
        node.op().types.empty() ? "" : absl::StrCat(" for ", DTypeName(KernelDType(node.op(), node.attrs())));
    return CannotAssign(node, absl::StrCat("No kernel of op ", node.op().name, dtype, " runs on any device: ",
                                           Kernels(node), "; the devices are: ", DeviceList(), AtLine(node)));
  }

  bool Allows(const ColocationGroup& group, int device) const {
    return (group.types & type_bit_[device]) != 0 && Matches(group.request, device);
  }

  // The input that the group's leader should stay with, or -1 if it is no follower or its input is in the group itself.
  int Followed(const ColocationGroup& group) {
    const Node& leader = graph_.node(group.leader);
    if (!IsFollower(leader)) return -1;
    const int input = leader.inputs()[0].node->id();
    return &GroupOf(input) == &group ? -1 : input;
  }

  // The device on which all readers of the leader's elements run, or -1 if they disagree or one has none yet.
  int ConsumersDevice(const Consumers& consumers, const ColocationGroup& group) {
    int device = -1;
    for (int i = consumers.begin[group.leader]; i < consumers.begin[group.leader + 1]; ++i) {
      const int consumer = colocation_.group[consumers.ids[i]];
      if (&colocation_.groups[consumer] == &group || group_device_[consumer] == device) continue;
      if (device >= 0 || group_device_[consumer] < 0) return -1;
      device = group_device_[consumer];
    }
    return device;
  }

  // Three sweeps over groups, which are ordered by leader, so inputs come before their users:
  //   1. upwards, every group but generators takes its preferred device, and followers that of their input;
  //   2. downwards, generators and what follows them go to their consumers, which have been placed by then;
  //   3. upwards, what is left (consumers disagree, or there are none) takes its preferred device.
  void Choose() {
    const auto edges = [](const Node& node, const auto& use) {
      for (size_t i = 0; i < node.inputs().size(); ++i) {
        if (!node.op().input_arg(static_cast<int>(i)).shape_only) use(*node.inputs()[i].node);
      }
    };
    const Consumers consumers = CollectConsumers(graph_, first_, edges);
    std::vector<ColocationGroup>& groups = colocation_.groups;
    const auto size = static_cast<int>(groups.size());
    group_device_.assign(size, -1);
    for (int g = 0; g < size; ++g) ChooseByInput(g, false);
    for (int g = size - 1; g >= 0; --g) {
      if (group_device_[g] >= 0) continue;
      const int device = ConsumersDevice(consumers, groups[g]);
      if (device >= 0 && Allows(groups[g], device)) group_device_[g] = device;
    }
    for (int g = 0; g < size; ++g) ChooseByInput(g, true);
    placement_.device.resize(graph_.size());
    for (int id = first_; id < graph_.size(); ++id) placement_.device[id] = group_device_[colocation_.group[id]];
  }

  void ChooseByInput(int g, bool last) {
    const ColocationGroup& group = colocation_.groups[g];
    int& device = group_device_[g];
    if (device >= 0) return;
    if (group.leader < first_) {
      device = placement_.device[group.leader];
      return;
    }
    if (const int input = Followed(group); input >= 0) {
      const int there = group_device_[colocation_.group[input]];
      if (there < 0) return;
      if (Allows(group, there)) device = there;
    } else if (!last && IsGenerator(graph_.node(group.leader))) {
      return;
    }
    if (device < 0) device = Best(group.request, group.types);
  }

  // Notes for nodes that are not where they asked to be: one for each request, reason and device.
  void NoteMoved() {
    placement_.notes.insert(placement_.notes.end(), colocation_.notes.begin(), colocation_.notes.end());
    struct Moved {
      const Node* first;
      int count = 0;
    };
    absl::btree_map<std::tuple<std::string, int, std::string>, Moved> moved;
    for (int id = first_; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const int request = requests_.Intern(node.requested_device()), device = placement_.device[id];
      if (request == 0 || Matches(request, device)) continue;
      Moved& entry =
          moved.try_emplace({RequestText(node), device, WhyMoved(node, request)}, Moved{&node}).first->second;
      ++entry.count;
    }
    for (const auto& [key, entry] : moved) {
      const auto& [spec, device, why] = key;
      const std::string others = entry.count > 1 ? absl::StrCat(" and ", entry.count - 1, " more run") : " runs";
      placement_.notes.push_back(absl::StrCat("Node '", entry.first->name(), "'", others, " on ",
                                              devices_.device(device).name().ToLegacyString(), ", not on '", spec,
                                              "' as requested", AtLine(*entry.first), ": ", why, "."));
    }
  }

  std::string WhyMoved(const Node& node, int request) {
    const ColocationGroup& group = GroupOf(node.id());
    if (Best(request, group.types) < 0) return WhyNot(request, node);
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      if (!node.op().input_arg(static_cast<int>(i)).ref) continue;
      return absl::StrCat("it updates the variable '", node.inputs()[i].node->name(), "', which is placed there");
    }
    return absl::StrCat("it shares a device with other nodes, the first of which is '",
                        graph_.node(group.leader).name(), "'");
  }

  const Graph& graph_;
  const DeviceSet& devices_;
  const PlaceOptions& options_;
  Placement placement_;
  const int first_;                 // nodes from here on are to be placed
  std::vector<std::string> types_;  // by bit
  std::vector<uint64_t> type_bit_;  // by device
  std::vector<int> preference_;     // devices, the best first
  HashMap<std::pair<const OpDef*, DType>, uint64_t> supported_;
  HashMap<std::pair<int, uint64_t>, int> best_;
  DeviceRequests requests_;
  Colocation colocation_;
  std::vector<int> group_device_;  // by group; -1: not chosen yet
};

}  // namespace

absl::StatusOr<Placement> Place(const Graph& graph, const DeviceSet& devices, const PlaceOptions& options,
                                Placement placed) {
  return Placer(graph, devices, options, std::move(placed)).Run();
}

std::string PlacementText(const Graph& graph, const DeviceSet& devices, const Placement& placement, int first) {
  std::string text = devices.MappingText();
  for (int id : LogOrder(graph, first)) {
    absl::StrAppend(&text, graph.node(id).name(), ": ", devices.device(placement.device[id]).name().ToLegacyString(),
                    "\n");
  }
  return text;
}

}  // namespace belfry
