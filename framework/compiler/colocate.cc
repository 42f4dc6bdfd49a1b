#include "framework/compiler/colocate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

constexpr int kMaxMembersListed = 20;

enum class Bond { kReference, kColocation };

class GroupBuilder {
 public:
  GroupBuilder(const Graph& graph, const DeviceSet& devices, const ColocateOptions& options, DeviceRequests& requests)
      : graph_(graph), options_(options), requests_(requests), parent_(graph.size()), groups_(graph.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (int id = 0; id < graph.size(); ++id) groups_[id] = Single(id, devices);
  }

  absl::StatusOr<Colocation> Run() {
    for (int id = FirstNew(); id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs().size(); ++i) {
        if (!node.op().input_arg(static_cast<int>(i)).ref) continue;
        const Node* target = node.inputs()[i].node;
        RETURN_IF_ERROR(Join(*target, node, Bond::kReference));
        while (target->op().kind == OpKind::kView) {
          target = target->input(0).node;
          RETURN_IF_ERROR(Join(*target, node, Bond::kReference));
        }
      }
    }
    for (int id = FirstNew(); id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      for (const Node* other : node.colocated_with()) RETURN_IF_ERROR(Join(*other, node, Bond::kColocation));
    }
    return Collect();
  }

 private:
  int FirstNew() const { return static_cast<int>(options_.placed.size()); }

  ColocationGroup Single(int id, const DeviceSet& devices) {
    ColocationGroup group{.leader = id, .types = options_.types[id]};
    const Node& node = graph_.node(id);
    const bool placed = id < FirstNew();
    group.request = requests_.Intern(placed ? devices.device(options_.placed[id]).name() : node.requested_device());
    if (group.request != 0) group.requester = id;
    group.storage = placed || (group.request != 0 && node.op().kind == OpKind::kVariable);
    return group;
  }

  int Find(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  absl::Status Join(const Node& target, const Node& node, Bond bond) {
    const int a = Find(target.id()), b = Find(node.id());
    if (a == b) return absl::OkStatus();
    ColocationGroup joined = groups_[a];
    joined.types &= groups_[b].types;
    if (joined.types == 0) {
      const std::string why = absl::StrCat("no device type can run both '", target.name(), "' and '", node.name(),
                                           "', together with the nodes colocated with them");
      if (bond == Bond::kReference || !options_.allow_soft_placement) return Conflict(target, node, why);
      NoteApart(target, node, why);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool together, JoinRequests(target, node, bond, groups_[b], joined));
    if (!together) return absl::OkStatus();
    joined.leader = std::min(groups_[a].leader, groups_[b].leader);
    joined.size = groups_[a].size + groups_[b].size;
    const int root = groups_[a].size >= groups_[b].size ? a : b;
    parent_[a] = parent_[b] = root;
    groups_[root] = joined;
    return absl::OkStatus();
  }

  void NoteApart(const Node& target, const Node& node, absl::string_view why) {
    notes_.push_back(absl::StrCat("Node '", node.name(), "'", AtLine(node), " is not colocated with '", target.name(),
                                  "': ", why, "."));
  }

  static void TakeRequest(const ColocationGroup& from, ColocationGroup& to) {
    to.request = from.request;
    to.requester = from.requester;
    to.storage = from.storage;
  }

  // Returns false if the colocation is given up, so that each side keeps its request.
  absl::StatusOr<bool> JoinRequests(const Node& target, const Node& node, Bond bond, const ColocationGroup& other,
                                    ColocationGroup& joined) {
    if (other.request == 0) return true;
    if (joined.request == 0 || joined.request == other.request) {
      const bool storage = joined.storage || other.storage;
      if (joined.request == 0) TakeRequest(other, joined);
      joined.storage = storage;
      return true;
    }
    const DeviceName &ours = requests_.name(joined.request), &theirs = requests_.name(other.request);
    absl::StatusOr<DeviceName> merged = Merge(ours, theirs, MergeMode::kHard);
    if (merged.ok()) {
      joined.request = requests_.Intern(*merged);
      if (joined.request == other.request) joined.requester = other.requester;
      joined.storage = joined.storage || other.storage;
      return true;
    }
    const absl::string_view why = merged.status().message();
    const bool may_differ = bond == Bond::kReference || options_.allow_soft_placement;
    if (!may_differ || IsDifferentAddressSpace(ours, theirs)) return Conflict(target, node, why);
    if (joined.storage && other.storage) {
      if (bond == Bond::kReference) return Conflict(target, node, why);
      NoteApart(target, node, why);
      return false;
    }
    if (other.storage) {
      TakeRequest(other, joined);
    } else if (bond == Bond::kColocation && !joined.storage) {
      ASSIGN_OR_RETURN(merged, Merge(ours, theirs, MergeMode::kSoft));
      joined.request = requests_.Intern(*merged);
    }
    return true;
  }

  absl::Status Conflict(const Node& target, const Node& node, absl::string_view why) {
    std::string text = absl::StrCat("Cannot colocate nodes '", target.name(), "' and '", node.name(), "': ", why,
                                    AtLine(node), ". Members and the devices they request:");
    const int a = Find(target.id()), b = Find(node.id());
    int listed = 0;
    for (int id = 0; id < graph_.size(); ++id) {
      const int root = Find(id);
      if ((root != a && root != b) || ++listed > kMaxMembersListed) continue;
      const Node& member = graph_.node(id);
      absl::StrAppend(&text, "\n  ", member.name(), " (", member.op().name, ") ", RequestText(member));
      if (id < FirstNew()) absl::StrAppend(&text, " placed on ", requests_.name(groups_[id].request).ToString());
      absl::StrAppend(&text, AtLine(member));
    }
    if (listed > kMaxMembersListed) absl::StrAppend(&text, "\n  and ", listed - kMaxMembersListed, " more");
    return CannotAssign(node, text);
  }

  Colocation Collect() {
    Colocation result{.group = std::vector<int>(graph_.size(), -1), .notes = std::move(notes_)};
    for (int id = 0; id < graph_.size(); ++id) {
      const ColocationGroup& group = groups_[Find(id)];
      if (group.leader == id) {
        result.group[id] = static_cast<int>(result.groups.size());
        result.groups.push_back(group);
      } else {
        result.group[id] = result.group[group.leader];
      }
    }
    return result;
  }

  const Graph& graph_;
  const ColocateOptions& options_;
  DeviceRequests& requests_;
  std::vector<int> parent_;
  std::vector<ColocationGroup> groups_;  // those of roots hold
  std::vector<std::string> notes_;
};

}  // namespace

int DeviceRequests::Intern(const DeviceName& name) {
  if (!names_.empty() && names_[last_] == name) return last_;
  // An id without a type does not print.
  const std::string key = absl::StrCat(name.ToString(), "#", name.id.value_or(-1));
  const auto [entry, added] = numbers_.try_emplace(key, static_cast<int>(names_.size()));
  if (added) names_.push_back(name);
  return last_ = entry->second;
}

absl::StatusOr<Colocation> Colocate(const Graph& graph, const DeviceSet& devices, const ColocateOptions& options,
                                    DeviceRequests& requests) {
  return GroupBuilder(graph, devices, options, requests).Run();
}

std::string RequestText(const Node& node) {
  return node.device_text().empty() ? node.requested_device().ToString() : node.device_text();
}

std::string AtLine(const Node& node) { return node.location().Suffix(); }

absl::Status CannotAssign(const Node& node, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("Cannot assign a device to node '", node.name(), "': ", why, "\n\t [[Node: ", node.Summary(), "]]"));
}

}  // namespace belfry
