#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/compiler/passes/passes.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// An update of this many elements is worth a launch of its own: fused, the others' gradients would live until it runs.
constexpr int64_t kMinLarge = int64_t{1} << 16;

class UpdateFuser {
 public:
  UpdateFuser(Program& program, const DeviceSet& devices) : program_(program), devices_(devices) {}

  void Run() {
    FindReads();
    FindGroups();
    for (const std::vector<int>& members : groups_) FuseGroup(members);
  }

 private:
  // Equal for the members of a group.
  struct Key {
    int device, depth, all_reduce;  // the node that gives the gradient, or -1
    std::string attrs;
    const OpDef* op;
    size_t inputs;
    auto operator<=>(const Key&) const = default;
  };
  struct OpenGroup {
    std::vector<int> members;
    int64_t elements = 0;
  };

  void FindReads() {
    read_.assign(program_.nodes.size(), 0);
    for (const ProgramNode& node : program_.nodes) {
      for (const Value& input : node.inputs) read_[input.node] = 1;
    }
    for (const Value& fetch : program_.fetches) read_[fetch.node] = 1;
  }

  bool CanFuse(int i) const {
    const ProgramNode& node = program_.nodes[i];
    if (node.op->kind != OpKind::kKernel || read_[i]) return false;
    const KernelDef* kernel =
        node.op->FindKernel(devices_.device(node.device).type(), KernelDType(*node.op, node.attrs));
    return kernel != nullptr && kernel->fuse_updates != nullptr;
  }

  Key KeyOf(const ProgramNode& node, int depth) const {
    Key key{.device = node.device,
            .depth = depth,
            .all_reduce = -1,
            .attrs = AttrsKey(node.attrs),
            .op = node.op,
            .inputs = node.inputs.size()};
    for (const Value input : node.inputs) {
      const int root = Root(program_, input).node;
      if (program_.nodes[root].op->kind == OpKind::kAllReduce) key.all_reduce = root;
    }
    return key;
  }

  // A node's depth is the largest number of groups on a path to it. Members of one group have equal depths, so no
  // member depends on another, and the group does not wait for itself. The nodes of a collective stand side by side and
  // meet, so all of them have the largest of their depths.
  void FindGroups() {
    std::vector<int> depth(program_.nodes.size(), 0);
    std::vector<char> fuses(program_.nodes.size(), 0);
    std::vector<int> depth_of_collective(program_.collectives.size(), 0);
    std::map<Key, OpenGroup> open;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const ProgramNode& node = program_.nodes[i];
      const auto wait = [&](int before) {
        const ProgramNode& from = program_.nodes[before];
        const bool meets = from.op->kind == OpKind::kAllReduce;
        const int reached = meets ? depth_of_collective[from.collective] : depth[before] + fuses[before];
        depth[i] = std::max(depth[i], reached);
      };
      for (const Value& input : node.inputs) wait(input.node);
      for (int control : node.control_inputs) wait(control);
      if (node.op->kind == OpKind::kAllReduce) {
        int& deepest = depth_of_collective[node.collective];
        deepest = std::max(deepest, depth[i]);
      }
      fuses[i] = CanFuse(static_cast<int>(i)) ? 1 : 0;
      if (!fuses[i]) continue;
      const Key key = KeyOf(node, depth[i]);
      const int64_t elements = node.outputs[0].shape.elements();
      if (key.all_reduce < 0 && elements >= kMinLarge) continue;
      OpenGroup& group = open[key];
      group.members.push_back(static_cast<int>(i));
      group.elements += elements;
      if (key.all_reduce < 0 && group.elements >= kMinLarge) Close(group);
    }
    for (auto& [key, group] : open) Close(group);
  }

  void Close(OpenGroup& group) {
    if (group.members.size() > 1) groups_.push_back(std::move(group.members));
    group = {};
  }

  // The last member becomes the fused node; the others only wait for it.
  void FuseGroup(const std::vector<int>& members) {
    const int last = members.back();
    ProgramNode fused{.name = program_.nodes[last].name,
                      .op = &UpdatesOp(),
                      .attrs = {{"T", program_.nodes[last].attrs.Type("T")}},
                      .source = program_.nodes[last].source,
                      .device = program_.nodes[last].device,
                      .rank = program_.nodes[last].rank};
    for (int index : members) {
      ProgramNode& member = program_.nodes[index];
      fused.rank = std::max(fused.rank, member.rank);
      fused.control_inputs.insert(fused.control_inputs.end(), member.control_inputs.begin(),
                                  member.control_inputs.end());
      for (Value& input : member.inputs) {
        fused.inputs.push_back(input);
        input = {-1, static_cast<int>(fused.inputs.size()) - 1};
      }
      member.control_inputs.clear();
      fused.body.push_back(std::move(member));
      // Nodes that wait for the member wait for the group.
      member = {.name = fused.body.back().name,
                .op = &OrderOp(),
                .control_inputs = {last},
                .source = fused.source,
                .device = fused.device,
                .rank = fused.rank};
    }
    program_.nodes[last] = std::move(fused);
  }

  Program& program_;
  const DeviceSet& devices_;
  std::vector<char> read_;  // by node: an output is read or fetched
  std::vector<std::vector<int>> groups_;
};

}  // namespace

absl::Status FuseUpdates(Program& program, const DeviceSet& devices) {
  UpdateFuser(program, devices).Run();
  return Normalize(program);
}

}  // namespace belfry
