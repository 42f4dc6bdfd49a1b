#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/memory/hash_table.h"
#include "framework/graph/graph.h"

namespace belfry {
namespace {

constexpr absl::string_view kColours[] = {"#dbe9f6", "#fde3c8", "#dff0d8", "#f5d7d7", "#e6dff0", "#f3efc9"};

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::CEscape(text), "\""); }

// Name scopes as a tree; Graphviz nests its clusters accordingly.
struct ScopeTree {
  std::map<std::string, ScopeTree> children;
  std::vector<const Node*> nodes;
};

void PrintTree(const ScopeTree& tree, const std::string& path, const HashMap<std::string, size_t>& colours,
               std::string* out) {
  for (const Node* node : tree.nodes) {
    absl::StrAppend(out, Quoted(node->name()), " [label=", Quoted(absl::StrCat(node->name(), "\n", node->op().name)),
                    ", fillcolor=", Quoted(kColours[colours.at(node->device_text()) % std::size(kColours)]), "];\n");
  }
  for (const auto& [name, child] : tree.children) {
    const std::string child_path = absl::StrCat(path, name, "/");
    absl::StrAppend(out, "subgraph ", Quoted(absl::StrCat("cluster_", child_path)), " { label=", Quoted(child_path),
                    ";\n");
    PrintTree(child, child_path, colours, out);
    absl::StrAppend(out, "}\n");
  }
}

}  // namespace

std::string GraphToText(const Graph& graph) {
  std::string text;
  for (int id = 0; id < graph.size(); ++id) absl::StrAppend(&text, graph.node(id).Summary(), "\n");
  return text;
}

std::string GraphToDot(const Graph& graph) {
  std::string text = "digraph belfry {\nrankdir=BT;\nnode [shape=box, style=filled];\n";
  ScopeTree root;
  HashMap<std::string, size_t> colours;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    colours.try_emplace(node.device_text(), colours.size());
    std::vector<std::string> parts = absl::StrSplit(node.name(), '/');
    ScopeTree* tree = &root;
    for (size_t i = 0; i + 1 < parts.size(); ++i) tree = &tree->children[parts[i]];
    tree->nodes.push_back(&node);
  }
  PrintTree(root, "", colours, &text);
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    for (const Output& input : node.inputs()) {
      absl::StrAppend(&text, Quoted(input.node->name()), " -> ", Quoted(node.name()),
                      " [label=", Quoted(input.shape().ToString()), "];\n");
    }
    for (const Node* control : node.control_inputs()) {
      absl::StrAppend(&text, Quoted(control->name()), " -> ", Quoted(node.name()), " [style=dashed];\n");
    }
  }
  absl::StrAppend(&text, "}\n");
  return text;
}

}  // namespace belfry
