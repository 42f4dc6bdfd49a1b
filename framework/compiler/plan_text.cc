#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/units.h"
#include "framework/compiler/compile.h"

namespace belfry {
namespace {

std::string DeviceText(const DeviceSet& devices, int device) {
  return device < 0 ? "?" : devices.device(device).name().ToLocalString();
}

std::string StorageText(const Program& program, const Storage& storage) {
  switch (storage.kind) {
    case Storage::Kind::kNowhere: return "-";
    case Storage::Kind::kArena: return absl::StrCat("@", storage.offset);
    case Storage::Kind::kVariable:
      return absl::StrCat("variable ", program.nodes[storage.node].name,
                          storage.offset == 0 ? "" : absl::StrCat("@", storage.offset));
    case Storage::Kind::kConstant: return "constant";
  }
  return "";
}

// "{a = Mul(x, y), b = Add(a, z)}".
std::string BodyText(const Program& program, const ProgramNode& node) {
  std::vector<std::string> members;
  for (const ProgramNode& member : node.body) {
    std::vector<std::string> inputs;
    for (const Value& input : member.inputs) {
      inputs.push_back(input.node >= 0    ? node.body[input.node].name
                       : input.index >= 0 ? program.nodes[node.inputs[input.index].node].name
                                          : "-");
    }
    members.push_back(absl::StrCat(member.name, " = ", member.op->name, "(", absl::StrJoin(inputs, ", "), ")"));
  }
  return members.empty() ? "" : absl::StrCat("{", absl::StrJoin(members, ", "), "}");
}

std::string NodeLine(const Program& program, const ProgramNode& node) {
  std::vector<std::string> inputs, outputs;
  for (const Value& input : node.inputs) {
    inputs.push_back(
        absl::StrCat(program.nodes[input.node].name, input.index > 0 ? absl::StrCat(":", input.index) : ""));
  }
  for (int control : node.control_inputs) inputs.push_back(absl::StrCat("^", program.nodes[control].name));
  for (const TensorSpec& output : node.outputs) outputs.push_back(output.ToString());
  return absl::StrCat(node.name, " = ", node.op->name, BodyText(program, node), "(", absl::StrJoin(inputs, ", "), ")",
                      outputs.empty() ? "" : " -> ", absl::StrJoin(outputs, ", "));
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::CEscape(text), "\""); }

}  // namespace

std::string ProgramToText(const Program& program, const DeviceSet& devices) {
  std::string text;
  for (const ProgramNode& node : program.nodes) {
    absl::StrAppend(&text, DeviceText(devices, node.device), " ", NodeLine(program, node), "\n");
  }
  return text;
}

std::string ProgramToDot(const Program& program, const DeviceSet& devices) {
  constexpr absl::string_view kColours[] = {"#dbe9f6", "#fde3c8", "#dff0d8", "#f5d7d7", "#e6dff0", "#f3efc9"};
  std::string text = "digraph plan {\nrankdir=BT;\nnode [shape=box, style=filled];\n";
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    absl::StrAppend(&text, "n", i, " [label=",
                    Quoted(absl::StrCat(node.name, "\n", node.op->name, " on ", DeviceText(devices, node.device))),
                    ", fillcolor=", Quoted(kColours[(node.device + 1) % std::size(kColours)]), "];\n");
    for (const Value& input : node.inputs) {
      absl::StrAppend(&text, "n", input.node, " -> n", i, " [label=", Quoted(program.spec(input).ToString()), "];\n");
    }
    for (int control : node.control_inputs) absl::StrAppend(&text, "n", control, " -> n", i, " [style=dashed];\n");
  }
  absl::StrAppend(&text, "}\n");
  return text;
}

std::vector<TransferInfo> Plan::Transfers() const {
  std::vector<TransferInfo> transfers;
  for (const ProgramNode& node : program.nodes) {
    if (node.op != &TransferOp()) continue;
    const Value from = node.inputs[0];
    transfers.push_back({absl::StrCat(program.nodes[from.node].name, ":", from.index), program.nodes[from.node].device,
                         node.device, node.outputs[0].bytes()});
  }
  return transfers;
}

std::string Plan::ToText(const DeviceSet& devices) const {
  std::string text = "Memory\n";
  for (size_t d = 0; d < memory.arena_bytes.size(); ++d) {
    absl::StrAppendFormat(&text, "  %s: %.2f MiB at peak, %.2f MiB if nothing were shared\n",
                          DeviceText(devices, static_cast<int>(d)), memory.arena_bytes[d] / kMebi,
                          memory.sum_bytes[d] / kMebi);
  }
  absl::StrAppend(&text, "Transfers in every step\n");
  for (const TransferInfo& transfer : Transfers()) {
    absl::StrAppend(&text, "  ", transfer.tensor, ": ", DeviceText(devices, transfer.from), " -> ",
                    DeviceText(devices, transfer.to), ", ", transfer.bytes, " bytes\n");
  }
  for (const StreamProgram& stream : streams) {
    absl::StrAppend(&text, DeviceText(devices, stream.device),
                    stream.kind == StreamKind::kCollective ? " collective stream\n" : " compute stream\n");
    for (const Instruction& instruction : stream.instructions) {
      if (instruction.kind == Instruction::Kind::kWait || instruction.kind == Instruction::Kind::kRecord) {
        absl::StrAppend(&text, instruction.kind == Instruction::Kind::kWait ? "  wait event " : "  record event ",
                        instruction.index, "\n");
        continue;
      }
      const ProgramNode& node = program.nodes[instruction.index];
      std::vector<std::string> where;
      for (const Storage& storage : memory.outputs[instruction.index]) where.push_back(StorageText(program, storage));
      absl::StrAppend(&text, "  ", NodeLine(program, node), " ", absl::StrJoin(where, ", "),
                      workspace_bytes[instruction.index] > 0
                          ? absl::StrCat(", workspace ", workspace_bytes[instruction.index], " bytes")
                          : "",
                      "\n");
    }
  }
  return text;
}

}  // namespace belfry
