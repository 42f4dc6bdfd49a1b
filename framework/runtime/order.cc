#include <algorithm>
#include <map>

#include "framework/runtime/passes.h"

namespace belfry {
namespace {

// Ranks are moved by whole epochs of this size; node ids stay far below it.
constexpr int64_t kEpoch = int64_t{1} << 40;

// Who touches one variable's storage, by node index, ascending.
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
      const ArgDef& arg = node.op->input_arg(static_cast<int>(k));
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

  // A reader that does not come after a writer by dependency comes before it; writers without an order keep that of
  // adding.
  void ReadsBeforeUpdates() {
    for (const auto& [variable, access] : FindAccesses(program_)) {
      for (int writer : access.writers) {
        const std::vector<char> after = Reachable(writer);
        for (int reader : access.readers) {
          if (reader != writer && !after[reader]) AddEdge(reader, writer);
        }
        for (int other : access.writers) {
          if (other < writer && !after[other]) AddEdge(other, writer);
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
      const bool update = !node.inputs.empty() && node.op->kind == OpKind::kKernel && node.op->input_arg(0).ref;
      // A collective starts as soon as it can. What waits for one comes last, so that it overlaps the backward pass. An
      // update that waits for nobody frees its gradient early.
      if (late[i]) {
        node.rank += kEpoch;
      } else if (node.op->kind == OpKind::kAllReduce) {
        node.rank -= 2 * kEpoch;
      } else if (update) {
        node.rank -= kEpoch;
      }
    }
  }

 private:
  void AddEdge(int from, int to) {
    program_.nodes[to].control_inputs.push_back(from);
    users_[from].push_back(to);
  }

  std::vector<char> Reachable(int from) const {
    std::vector<char> reached(program_.nodes.size(), 0);
    std::vector<int> stack = {from};
    while (!stack.empty()) {
      const int node = stack.back();
      stack.pop_back();
      for (int user : users_[node]) {
        if (reached[user]) continue;
        reached[user] = 1;
        stack.push_back(user);
      }
    }
    return reached;
  }

  Program& program_;
  std::vector<std::vector<int>> users_;
};

// A fetched variable is fetched as it was before the step's updates, so it needs a copy of its own.
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
