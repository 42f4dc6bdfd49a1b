#include "framework/graph/gradients.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

// Reverse-mode differentiation over the graph. Node ids are a topological order, so visiting nodes by descending id
// guarantees that all consumers of a tensor have contributed before its own node is visited: each sum is complete when
// it is taken, and each node is differentiated once. Nodes that this adds have higher ids than those visited and are
// never visited themselves. Cost: two passes over nodes and edges to find the paths, then one gradient rule for each
// node on a path.
class Differentiator {
 public:
  Differentiator(const Scope& scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                 const GradientOptions& options)
      : caller_(scope),
        scope_(scope.NameScope("gradients").InPhase(Phase::kBackward)),
        ys_(ys),
        xs_(xs),
        options_(options) {}

  absl::StatusOr<std::vector<Output>> Run() {
    FindNodesBetween();
    RETURN_IF_ERROR(Seed());
    for (auto id = between_.size(); id-- > 0;) {
      if (between_[id]) RETURN_IF_ERROR(Backpropagate(caller_.graph().node(static_cast<int>(id))));
    }
    std::vector<Output> result;
    for (const Output& x : xs_) {
      result.push_back(Sum(x));
      if (!result.back().valid()) RETURN_IF_ERROR(ExplainMissing(x));
    }
    RETURN_IF_ERROR(caller_.status());
    return result;
  }

 private:
  // One pass up marks the nodes that depend on an x, and one pass down, from the ys, the nodes of these that a y
  // depends on. A node marked on the way down is final when it is reached, because all its consumers have higher ids.
  void FindNodesBetween() {
    const int size = caller_.graph().size();
    std::vector<bool> from_x(size, false);
    for (const Output& x : xs_) from_x[x.node->id()] = true;
    for (int id = 0; id < size; ++id) {
      for (const Output& input : caller_.graph().node(id).inputs()) {
        if (from_x[input.node->id()]) from_x[id] = true;
      }
    }
    toward_y_.assign(size, nullptr);
    between_.assign(size, false);
    for (const Output& y : ys_) between_[y.node->id()] = true;
    for (int id = size - 1; id >= 0; --id) {
      if (!between_[id]) continue;
      if (!from_x[id]) {
        between_[id] = false;
        continue;
      }
      const Node& node = caller_.graph().node(id);
      for (const Output& input : node.inputs()) {
        if (!between_[input.node->id()]) toward_y_[input.node->id()] = &node;
        between_[input.node->id()] = true;
      }
    }
  }

  // The gradient at a y is grad_ys, or ones. Like any contribution it is added to those of the y's consumers, so a y
  // may itself lie on the way to another y.
  absl::Status Seed() {
    if (!options_.grad_ys.empty() && options_.grad_ys.size() != ys_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("Gradients: ", ys_.size(), " ys, but ", options_.grad_ys.size(),
                                                     " grad_ys; expected one for each y, or none"));
    }
    for (size_t i = 0; i < ys_.size(); ++i) {
      if (!IsFloating(ys_[i].dtype())) {
        return absl::InvalidArgumentError(absl::StrCat("Gradients: y '", ys_[i].name(), "' is ",
                                                       DTypeName(ys_[i].dtype()), "; only floats have gradients"));
      }
      if (!options_.grad_ys.empty() && options_.grad_ys[i].valid()) {
        const Output given = options_.grad_ys[i];
        const bool same = given.dtype() == ys_[i].dtype() && given.shape().CompatibleWith(ys_[i].shape());
        if (!same) {
          return absl::InvalidArgumentError(absl::StrCat(
              "Gradients: y '", ys_[i].name(), "' is ", DTypeName(ys_[i].dtype()), " ", ys_[i].shape().ToString(),
              ", but its grad_ys '", given.name(), "' is ", DTypeName(given.dtype()), " ", given.shape().ToString()));
        }
      }
      const Output seed = options_.grad_ys.empty()
                              ? scope_.ColocateWith(*ys_[i].node).Named("grad_ys").Add(OpRole::kOnesLike, {ys_[i]})
                              : options_.grad_ys[i];
      Accumulate(ys_[i], seed);
    }
    return absl::OkStatus();
  }

  // Kept in a list until Sum needs one tensor: a single AddN replaces a chain of additions, in the order of the visits,
  // so that the bits are the same every time the program runs.
  void Accumulate(const Output& tensor, const Output& gradient) {
    if (gradient.valid()) contributions_[tensor].push_back(gradient);
  }

  bool Stopped(const Output& tensor) const {
    const auto& stops = options_.stop_gradients;
    return std::find(stops.begin(), stops.end(), tensor) != stops.end();
  }

  // The gradient of a tensor: the sum of its consumers' contributions. The sum replaces the list, so it is built once.
  Output Sum(const Output& tensor) {
    const auto found = contributions_.find(tensor);
    if (found == contributions_.end()) return Output();
    std::vector<Output>& parts = found->second;
    if (parts.size() > 1) {
      parts = {scope_.ColocateWith(*tensor.node).WithLocation(tensor.node->location()).Add(OpRole::kAddN, parts)};
    }
    return parts.front();
  }

  absl::Status Backpropagate(const Node& node) {
    std::vector<Output> dy;
    bool any = false;
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      const Output output = node.output(static_cast<int>(i));
      dy.push_back(Stopped(output) ? Output() : Sum(output));
      any = any || dy.back().valid();
    }
    const bool wanted = std::any_of(node.inputs().begin(), node.inputs().end(),
                                    [&](const Output& input) { return between_[input.node->id()]; });
    // A node that is not differentiable passes nothing on. This may be intended, so ExplainMissing decides at the end.
    if (!any || !wanted || node.op().not_differentiable) return absl::OkStatus();
    if (node.op().gradient == nullptr) {
      return absl::NotFoundError(absl::StrCat("No gradient defined for operation '", node.name(),
                                              "' (op type: ", node.op().name, "); the path from the loss is ",
                                              PathFromLoss(node), Line(node)));
    }
    // Names repeat the forward path below "gradients/", without the part that the caller's scope already gives.
    absl::string_view name = node.name();
    if (absl::StartsWith(name, caller_.name())) name.remove_prefix(caller_.name().size());
    const Scope scope = scope_.NameScope(absl::StrCat(name, "_grad"))
                            .InPhase(Phase::kBackward, &node)
                            .ColocateWith(node)
                            .WithLocation(node.location());
    const std::vector<Output> dx = node.op().gradient(scope, node, dy);
    RETURN_IF_ERROR(scope.status());
    if (dx.size() != node.inputs().size()) {
      return absl::InternalError(absl::StrCat("The gradient of op ", node.op().name, " returned ", dx.size(),
                                              " gradients for ", node.inputs().size(), " inputs"));
    }
    for (size_t i = 0; i < dx.size(); ++i) RETURN_IF_ERROR(Flow(node, static_cast<int>(i), dx[i]));
    return absl::OkStatus();
  }

  // Gradients that lead to no x, and those of integer inputs, are dropped here, before they cost anything.
  absl::Status Flow(const Node& node, int i, const Output& gradient) {
    const Output& input = node.input(i);
    if (!gradient.valid() || !between_[input.node->id()] || !IsFloating(input.dtype())) return absl::OkStatus();
    if (!gradient.shape().CompatibleWith(input.shape()) || gradient.dtype() != input.dtype()) {
      return absl::InternalError(absl::StrCat(
          "Incompatible shapes or dtypes between op input and calculated input gradient: input ", i, " of '",
          node.name(), "' (op type: ", node.op().name, ") is ", DTypeName(input.dtype()), " ", input.shape().ToString(),
          ", its gradient ", DTypeName(gradient.dtype()), " ", gradient.shape().ToString()));
    }
    Accumulate(input, gradient);
    return absl::OkStatus();
  }

  bool HasGradient(const Node& node) const {
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      if (contributions_.contains(node.output(static_cast<int>(i)))) return true;
    }
    return false;
  }

  // The nodes that read `node` and lie on a path from an x to a y. The table is built on the first use: only an error,
  // or an x without gradient, needs it.
  const std::vector<const Node*>& UsersBetween(const Node& node) {
    if (users_.empty()) {
      users_.resize(between_.size());
      for (size_t id = 0; id < between_.size(); ++id) {
        const Node& user = caller_.graph().node(static_cast<int>(id));
        if (!between_[id]) continue;
        for (const Output& input : user.inputs()) users_[input.node->id()].push_back(&user);
      }
    }
    return users_[node.id()];
  }

  // An x is an error if it is connected to a y only through ops that are not differentiable. An x that is not connected
  // at all, or is cut off by StopGradient or stop_gradients, is not.
  absl::Status ExplainMissing(const Output& x) {
    if (!between_[x.node->id()]) return absl::OkStatus();
    const Node* cut = nullptr;
    std::vector<const Node*> stack = {x.node};
    HashSet<const Node*> seen = {x.node};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      for (const Node* user : UsersBetween(*node)) {
        if (!seen.insert(user).second) continue;
        if (user->op().not_differentiable) {
          cut = user;
        } else if (HasGradient(*user)) {
          return absl::OkStatus();  // a differentiable op received a gradient and deliberately passed none on
        } else {
          stack.push_back(user);
        }
      }
    }
    if (cut == nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "No gradient reaches '", x.node->name(), "': every path is cut by an op that is not differentiable, such as '",
        cut->name(), "' (op type: ", cut->op().name, "); the path from the loss is ", PathFromLoss(*cut), Line(*cut)));
  }

  // toward_y_ leads from every node that a y depends on to that y, so this needs no search.
  std::string PathFromLoss(const Node& node) const {
    std::string path = node.name();
    for (const Node* next = toward_y_[node.id()]; next != nullptr; next = toward_y_[next->id()]) {
      path = absl::StrCat(next->name(), " <- ", path);
    }
    return path;
  }

  static std::string Line(const Node& node) { return node.location().Suffix(); }

  const Scope& caller_;
  const Scope scope_;
  const absl::Span<const Output> ys_, xs_;
  const GradientOptions& options_;
  std::vector<bool> between_;                    // by node id: true on a path from an x to a y
  std::vector<const Node*> toward_y_;            // by node id: the next node on such a path
  std::vector<std::vector<const Node*>> users_;  // by node id: the lists of UsersBetween, once needed
  HashMap<Output, std::vector<Output>> contributions_;
};

absl::StatusOr<std::vector<Output>> Compute(const Scope& scope, absl::Span<const Output> ys,
                                            absl::Span<const Output> xs, const GradientOptions& options) {
  for (absl::Span<const Output> outputs : {ys, xs}) {
    for (const Output& output : outputs) {
      if (!output.valid()) {
        return absl::InvalidArgumentError(
            "Gradients: one of the ys or xs is an invalid Output (default-constructed, or a gradient that does not "
            "exist)");
      }
      if (&output.node->graph() != &scope.graph()) {
        return absl::InvalidArgumentError(absl::StrCat("Gradients: '", output.name(), "' belongs to another graph"));
      }
    }
  }
  return Differentiator(scope, ys, xs, options).Run();
}

}  // namespace

absl::StatusOr<std::vector<Output>> Gradients(OpScope scope, absl::Span<const Output> ys, absl::Span<const Output> xs,
                                              const GradientOptions& options) {
  RETURN_IF_ERROR(scope.status());
  absl::StatusOr<std::vector<Output>> gradients = Compute(scope, ys, xs, options);
  if (gradients.ok()) return gradients;
  return scope.WithOwnLine(gradients.status());
}

}  // namespace belfry
