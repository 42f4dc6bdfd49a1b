#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/base/memory/hash_table.h"
#include "framework/compiler/elementwise_codegen/kernel_source.h"
#include "framework/compiler/passes/passes.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

// An update of this many elements is worth a launch of its own: fused, the others' gradients would live until it runs.
constexpr int64_t kMinLarge = int64_t{1} << 16;
// The same for a generated kernel that may be of a chain. It also computes what lies between gradient and update, whose
// memory is saved.
constexpr int64_t kMinLargeGenerated = int64_t{1} << 24;

class UpdateFuser {
 public:
  UpdateFuser(Program& program, const DeviceSet& devices, bool chains)
      : program_(program), devices_(devices), chains_(chains) {}

  void Run() {
    FindReads();
    FindGroups();
    for (const std::vector<int>& members : groups_) FuseGroup(members);
    Redirect();
  }

 private:
  // Equal for the members of a group.
  struct Key {
    int device, depth, all_reduce;  // the node that gives the gradient, or -1
    std::string what;               // attributes, or the text of the generated kernel
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
    joins_.assign(program_.nodes.size(), 0);
    for (const ProgramNode& node : program_.nodes) {
      for (const Value& input : node.inputs) read_[input.node] = 1;
    }
    for (const Value& fetch : program_.fetches) read_[fetch.node] = 1;
  }

  // True if a generated kernel may compute the node together with others: an update, or what is computed from
  // variables only, such as their conversion to 16 bits, which can be done before all else.
  bool CanJoin(int i) const {
    const ProgramNode& node = program_.nodes[i];
    Device& device = devices_.device(node.device);
    if (device.type() == "CPU" || !device.CompilesKernels()) return false;
    if (node.op != &ElementwiseOp() && (node.outputs.size() != 1 || !HasElementCode(node, device))) return false;
    if (Updates(node)) return !read_[i];
    return chains_ && node.control_inputs.empty() && !node.inputs.empty() &&
           absl::c_all_of(node.inputs, [&](const Value& input) {
             return program_.nodes[Root(program_, input).node].op->kind == OpKind::kVariable;
           });
  }

  bool CanFuse(int i) const {
    const ProgramNode& node = program_.nodes[i];
    if (node.op->kind != OpKind::kKernel || read_[i]) return false;
    const KernelDef* kernel =
        node.op->FindKernel(devices_.device(node.device).type(), KernelDType(*node.op, node.attrs));
    return kernel != nullptr && kernel->fuse_updates != nullptr;
  }

  Key KeyOf(const ProgramNode& node, int depth, const std::string& text) const {
    Key key{.device = node.device,
            .depth = depth,
            .all_reduce = -1,
            .what = text.empty() ? AttrsKey(node.attrs) : text,
            .op = text.empty() ? node.op : nullptr,
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
      std::string text;
      if (CanJoin(static_cast<int>(i))) {
        const auto source = SourceOf(program_, AsElementwise(node), {}, kMaxJoined, devices_.device(node.device), "");
        if (source.has_value()) text = source->text;
      }
      joins_[i] = text.empty() ? 0 : 1;
      fuses[i] = joins_[i] || CanFuse(static_cast<int>(i)) ? 1 : 0;
      if (!fuses[i]) continue;
      const Key key = KeyOf(node, depth[i], text);
      const ProgramNode& sized = node.body.empty() ? node : node.body.back();
      const int64_t elements = sized.outputs[0].shape.elements();
      const int64_t large = joins_[i] && chains_ ? kMinLargeGenerated : kMinLarge;
      if (key.all_reduce < 0 && elements >= large) continue;
      OpenGroup& group = open[key];
      group.members.push_back(static_cast<int>(i));
      group.elements += elements;
      if ((key.all_reduce < 0 && group.elements >= large) || (joins_[i] && group.members.size() == kMaxJoined)) {
        Close(group);
      }
    }
    for (auto& [key, group] : open) Close(group);
  }

  void Close(OpenGroup& group) {
    if (group.members.size() > 1) groups_.push_back(std::move(group.members));
    group = {};
  }

  // The last member becomes the fused node; the others only wait for it. Others read the outputs of generated kernels
  // from the last.
  void FuseGroup(const std::vector<int>& members) {
    const int last = members.back();
    const ProgramNode& end = program_.nodes[last];
    const bool joins = joins_[last] != 0, updates = Updates(end);
    ProgramNode fused{.name = end.name,
                      .op = joins ? &JoinedOp() : &UpdatesOp(),
                      .attrs = {{"T", KernelDType(*end.op, end.attrs)}},
                      .source = end.source,
                      .device = end.device,
                      .rank = end.rank};
    for (int index : members) {
      ProgramNode& node = program_.nodes[index];
      ProgramNode member = joins ? AsElementwise(node) : node;
      fused.rank = updates ? std::max(fused.rank, node.rank) : std::min(fused.rank, node.rank);
      fused.control_inputs.insert(fused.control_inputs.end(), node.control_inputs.begin(), node.control_inputs.end());
      member.control_inputs.clear();
      for (Value& input : member.inputs) {
        fused.inputs.push_back(input);
        input = {-1, static_cast<int>(fused.inputs.size()) - 1};
      }
      for (int o = 0; joins && o < static_cast<int>(member.outputs.size()); ++o) {
        moved_[{index, o}] = {last, static_cast<int>(fused.outputs.size())};
        fused.outputs.push_back(member.outputs[o]);
      }
      fused.body.push_back(std::move(member));
      // Nodes that wait for the member wait for the group.
      node = {.name = fused.body.back().name,
              .op = &OrderOp(),
              .control_inputs = {last},
              .source = fused.source,
              .device = fused.device,
              .rank = fused.rank};
    }
    program_.nodes[last] = std::move(fused);
  }

  void Redirect() {
    const auto move = [&](Value& value) {
      if (const auto found = moved_.find(value); found != moved_.end()) value = found->second;
    };
    for (ProgramNode& node : program_.nodes) {
      for (Value& input : node.inputs) move(input);
    }
    for (Value& fetch : program_.fetches) move(fetch);
  }

  Program& program_;
  const DeviceSet& devices_;
  const bool chains_;            // false if all element-wise ops but updates are to run by themselves
  std::vector<char> read_;       // by node: an output is read or fetched
  std::vector<char> joins_;      // by node: a generated kernel may compute it together with others
  HashMap<Value, Value> moved_;  // by output of a joined node: the output that replaces it
  std::vector<std::vector<int>> groups_;
};

}  // namespace

absl::Status FuseUpdates(Program& program, const DeviceSet& devices, int64_t smallest) {
  UpdateFuser(program, devices, smallest <= kFuseFrom).Run();
  return Normalize(program);
}

}  // namespace belfry
