#include <algorithm>
#include <map>

#include "framework/compiler/passes/passes.h"

namespace belfry {
namespace {

// Ranks are moved by whole epochs of this size; node ids stay far below it.
constexpr int64_t kEpoch = int64_t{1} << 40;

// The nodes that access one variable's storage, ascending.
struct Accesses {
  std::vector<int> readers, writers;
};

std::map<int, Accesses> FindAccesses(const Program& program) {
  std::map<int, Accesses> accesses;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (node.op->kind == OpKind::kView) continue;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Value root = Root(program, node.inputs[k]);
      if (program.nodes[root.node].op->kind != OpKind::kVariable) continue;
      const ArgDef& arg = InputArg(node, static_cast<int>(k));
      if (arg.shape_only) continue;
      Accesses& access = accesses[root.node];
      std::vector<int>& list = arg.ref ? access.writers : access.readers;
      if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
    }
  }
  return accesses;
}

class Orderer {
 public:
  explicit Orderer(Program& program) : program_(program), users_(program.nodes.size()) {
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      for (const Value& input : program.nodes[i].inputs) users_[input.node].push_back(static_cast<int>(i));
      for (int control : program.nodes[i].control_inputs) users_[control].push_back(static_cast<int>(i));
    }
  }

  // A reader that does not come after a writer by dependency comes before it; where that would be a cycle (two
  // variables that are swapped), a copy of what it reads does. Writers come one after the other by dependency (Prune).
  void ReadsBeforeUpdates() {
    std::map<int, Accesses> accesses = FindAccesses(program_);
    added_.resize(users_.size());
    for (auto& [variable, access] : accesses) {
      std::vector<int> last_before(access.readers.size(), -1);  // by reader: the last writer that it comes after
      for (int writer : access.writers) {
        const std::vector<char> after = Reachable(writer, false), forced = Reachable(writer, true);
        for (size_t k = 0; k < access.readers.size(); ++k) {
          int& reader = access.readers[k];
          if (reader < static_cast<int>(after.size()) && after[reader]) last_before[k] = writer;
          if (reader == writer || last_before[k] == writer) continue;
          if (reader < static_cast<int>(forced.size()) && forced[reader]) {
            reader = CopyFor(reader, variable, last_before[k]);
          }
          added_[reader].push_back(writer);
          program_.nodes[writer].control_inputs.push_back(reader);
        }
      }
    }
  }

  void RankByStream() {
    std::vector<char> late(program_.nodes.size(), 0);
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      ProgramNode& node = program_.nodes[i];
      for (const Value& input : node.inputs) {
        late[i] |= late[input.node] | (program_.nodes[input.node].op->kind == OpKind::kAllReduce);
      }
      for (int control : node.control_inputs) {
        late[i] |= late[control] | (program_.nodes[control].op->kind == OpKind::kAllReduce);
      }
      const bool update = node.op->kind == OpKind::kKernel && Updates(node);
      // A collective starts as soon as it can. Nodes that wait for one come last, so that it overlaps the backward
      // pass. An update that waits for no collective frees its gradient early.
      if (late[i]) node.rank += kEpoch;
      if (node.op->kind == OpKind::kAllReduce) {
        node.rank -= 2 * kEpoch;
      } else if (update && !late[i]) {
        node.rank -= kEpoch;
      }
    }
  }

 private:
  void Depend(int from, int to) {
    program_.nodes[to].control_inputs.push_back(from);
    users_[from].push_back(to);
  }

  // Makes `reader` read a copy of the variable, taken after node `after` if that is not -1, and returns the copy.
  int CopyFor(int reader, int variable, int after) {
    const auto reads = [&](size_t k) {
      const ArgDef& arg = InputArg(program_.nodes[reader], static_cast<int>(k));
      return !arg.ref && !arg.shape_only && Root(program_, program_.nodes[reader].inputs[k]).node == variable;
    };
    int copy = -1;
    for (size_t k = 0; k < program_.nodes[reader].inputs.size(); ++k) {
      if (!reads(k)) continue;
      const Value input = program_.nodes[reader].inputs[k];
      const Value copied =
          AddCopy(program_, CopyOp(), input, program_.nodes[reader].device, program_.nodes[reader].rank);
      program_.nodes[reader].inputs[k] = copied;
      users_.push_back({reader});
      added_.emplace_back();
      users_[input.node].push_back(copied.node);
      if (after >= 0) Depend(after, copied.node);
      if (copy >= 0) Depend(copy, copied.node);
      copy = copied.node;
    }
    return copy;
  }

  // By node: whether it depends on `from`; if `forced`, also through the edges that ReadsBeforeUpdates has added.
  std::vector<char> Reachable(int from, bool forced) const {
    std::vector<char> reached(program_.nodes.size(), 0);
    std::vector<int> stack = {from};
    const auto follow = [&](const std::vector<int>& users) {
      for (int user : users) {
        if (!reached[user]) stack.push_back(user);
        reached[user] = 1;
      }
    };
    while (!stack.empty()) {
      const int node = stack.back();
      stack.pop_back();
      follow(users_[node]);
      if (forced) follow(added_[node]);
    }
    return reached;
  }

  Program& program_;
  std::vector<std::vector<int>> users_;  // by node, as the program says
  std::vector<std::vector<int>> added_;  // by node: updates that come after it because it reads the variable
};

// The value of a fetched variable is that from before the step's updates, so it is copied first.
void CopyFetchedVariables(Program& program) {
  for (Value& fetch : program.fetches) {
    const Value root = Root(program, fetch);
    if (program.nodes[root.node].op->kind != OpKind::kVariable) continue;
    fetch = AddCopy(program, CopyOp(), fetch, program.nodes[root.node].device, program.nodes[fetch.node].rank);
  }
}

}  // namespace

absl::Status Order(Program& program) {
  CopyFetchedVariables(program);
  Orderer orderer(program);
  orderer.ReadsBeforeUpdates();
  orderer.RankByStream();
  return Normalize(program);
}

}  // namespace belfry
