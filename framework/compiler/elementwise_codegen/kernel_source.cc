#include "framework/compiler/elementwise_codegen/kernel_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/compiler/elementwise_codegen/prelude.h"
#include "framework/graph/infer.h"

namespace belfry {
namespace {

constexpr int kMaxLanes = 8;
// Packs that a thread computes one after another, so that what it computes once for all of them costs little.
constexpr int kPacks = 2;
constexpr int64_t kMaxRow = int64_t{1} << 30;  // elements, whose places are computed in 32 bits

// The type of stored elements in the text.
absl::string_view Stored(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return "double";
    case DType::kFloat16: return "Half";
    case DType::kBFloat16: return "BFloat16";
    case DType::kInt32: return "int32_t";
    case DType::kInt64: return "int64_t";
    case DType::kUInt8: return "uint8_t";
    case DType::kBool: return "bool";
    default: return "float";
  }
}

// An input of a node, as its members read it.
struct Access {
  DType dtype = DType::kFloat32;
  bool elements = false;    // one for each of the result
  bool row = false;         // a row that repeats
  bool number = false;      // one element, for all
  bool transposed = false;  // a matrix, transposed
  std::string place;        // broadcast otherwise: where element `e` of the result reads, as an expression
  bool condition = false;
  bool updated = false;
  int64_t size = 0;  // elements
};

// The places that broadcasting `from` to `to` reads.
struct Broadcast {
  bool row = false;   // all of `from`, over and over
  std::string place;  // else an expression of the result's element `e`
};

// Axes side by side that are not stretched are one. The outermost extent of the result is not in the expression, so
// that batches of all sizes share a kernel.
Broadcast BroadcastOf(const Shape& from, const Shape& to) {
  std::vector<std::string> terms;
  bool inner_only = true;
  int64_t below = 1, stride = 1;
  for (int axis = to.rank(); axis > 0;) {
    const auto stretched = [&] {
      const int own = axis - 1 - (to.rank() - from.rank());
      return own < 0 || from[own] != to[axis - 1];
    };
    int64_t extent = 1;
    for (; axis > 0 && !stretched(); --axis) extent *= to[axis - 1];
    if (extent > 1) {
      inner_only = inner_only && below == 1;
      const std::string within = axis > 0 ? absl::StrCat(" % ", extent) : "";
      terms.push_back(absl::StrCat("e / ", below, within, " * ", stride));
    }
    below *= extent;
    stride *= extent;
    for (; axis > 0 && stretched(); --axis) below *= to[axis - 1];
  }
  return {inner_only && stride <= kMaxRow, absl::StrJoin(terms, " + ")};
}

class SourceWriter {
 public:
  SourceWriter(const Program& program, const ProgramNode& node, Device& device)
      : program_(program), node_(node), device_(device) {}

  // False if a member has no code, or reads an input in a way that no kernel does.
  bool Analyse() {
    accesses_.resize(node_.inputs.size());
    elements_ = node_.body.back().outputs[0].shape.elements();
    for (size_t k = 0; k < node_.inputs.size(); ++k) {
      const TensorSpec& spec = program_.spec(node_.inputs[k]);
      accesses_[k].dtype = spec.dtype;
      accesses_[k].size = spec.shape.elements();
    }
    for (const ProgramNode& member : node_.body) {
      if (!HasElementCode(member, device_)) return false;
      const std::vector<TensorSpec> inputs = InputSpecs(program_, node_, member);
      std::optional<ElementCode> code =
          member.op->element_code({member.name, member.attrs, inputs, member.outputs, &device_});
      if (!code.has_value() || !See(member, *code)) return false;
      codes_.push_back(*std::move(code));
    }
    return true;
  }

  KernelSource Write(const std::vector<bool>& shared, int capacity, absl::string_view declarations) {
    KernelSource source;
    source.rows = rows_;
    source.columns = columns_;
    Place(shared, source);
    source.capacity = std::min(capacity, MostJoined(source.pointers, source.shared));
    if (source.capacity < 1) return {};
    source.chunk = int64_t{kCompiledThreads} * Lanes() * kPacks;
    lanes_ = Lanes();
    source.text = absl::StrCat(KernelPrelude(), declarations, Argument(source), Kernel(source));
    return source;
  }

 private:
  bool See(const ProgramNode& member, const ElementCode& code) {
    const auto input_of = [&](int k) -> Access* {
      const Value input = member.inputs[k];
      return input.node < 0 && input.index >= 0 ? &accesses_[input.index] : nullptr;
    };
    for (int k : code.operands) {
      Access* const access = input_of(k);
      if (access == nullptr) continue;
      if (code.rows > 0) {
        access->transposed = true;
        if ((rows_ != 0 && (rows_ != code.rows || columns_ != code.columns)) || elements_ >= int64_t{1} << 31)
          return false;
        rows_ = code.rows;
        columns_ = code.columns;
      } else if (access->size == elements_) {
        access->elements = true;
        access->updated |= member.op->input_arg(k).ref;
      } else if (access->size == 1) {
        access->number = true;
      } else if (!SeeBroadcast(
                     BroadcastOf(program_.spec(node_.inputs[member.inputs[k].index]).shape, member.outputs[0].shape),
                     *access)) {
        return false;
      }
    }
    for (int k : Numbers(code)) {
      Access* const access = input_of(k);
      if (access == nullptr || access->size != 1) return false;
      access->number = true;
    }
    if (code.condition < 0) return true;
    Access* const access = input_of(code.condition);
    if (access == nullptr) return false;
    access->condition = true;
    return true;
  }

  // False if another member reads other places of the same operand.
  static bool SeeBroadcast(const Broadcast& broadcast, Access& access) {
    if (broadcast.row) {
      access.row = true;
    } else {
      if (!access.place.empty() && access.place != broadcast.place) return false;
      access.place = broadcast.place;
    }
    return !access.row || access.place.empty();
  }

  // The inputs k that `function` names as "$k".
  static std::vector<int> Numbers(const ElementCode& code) {
    std::vector<int> numbers;
    for (size_t at = code.function.find('$'); at != std::string::npos; at = code.function.find('$', at + 1)) {
      numbers.push_back(code.function[at + 1] - '0');
    }
    return numbers;
  }

  void Place(const std::vector<bool>& shared, KernelSource& source) const {
    for (size_t k = 0; k < node_.inputs.size(); ++k) {
      const bool common = k < shared.size() && shared[k] && !accesses_[k].elements && !accesses_[k].transposed;
      source.places.push_back(common ? source.shared++ : -1 - source.pointers++);
    }
    source.pointers += static_cast<int>(node_.results.size());
  }

  int Lanes() const {
    size_t smallest = 16;
    const auto see = [&](DType dtype) { smallest = std::min(smallest, SizeOf(dtype)); };
    for (const Access& access : accesses_) {
      if (access.elements) see(access.dtype);
    }
    for (int result : node_.results) see(node_.body[result].outputs[0].dtype);
    return std::min<int>(kMaxLanes, 16 / static_cast<int>(smallest));
  }

  static std::string Argument(const KernelSource& source) {
    return absl::StrCat("namespace belfry {\nstruct Node { const void* at[", std::max(source.pointers, 1),
                        "]; int64_t n; uint32_t rows, columns, first, aligned; };\n",
                        "struct Table { uint32_t count, chunks; const void* shared[", std::max(source.shared, 1),
                        "]; Node node[", source.capacity, "]; };\n}  // namespace belfry\n");
  }

  std::string Kernel(const KernelSource& source) const {
    std::string text = absl::StrCat(
        "namespace belfry::ops {\nconstexpr int kLanes = ", lanes_, ", kChunk = ", source.chunk, ";\n",
        "extern \"C\" __global__ void __launch_bounds__(", kCompiledThreads,
        ") belfry_kernel(const __grid_constant__ Table table) {\n"
        "for (uint32_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {\n",
        source.capacity == 1 ? "const Node& node = table.node[0];\n"
                             : "uint32_t low = 0;\n"
                               "for (uint32_t high = table.count - 1; low < high;) {\n"
                               "const uint32_t middle = (low + high + 1) / 2;\n"
                               "if (table.node[middle].first <= chunk) low = middle; else high = middle - 1;\n}\n"
                               "const Node& node = table.node[low];\n",
        "const int64_t begin = int64_t(chunk - node.first) * kChunk;\n"
        "const int n = node.n - begin < kChunk ? int(node.n - begin) : kChunk;\n");
    absl::StrAppend(&text, Once(source), "for (int i = threadIdx.x * kLanes; i < n; i += ", kCompiledThreads,
                    " * kLanes) {\nconst int lanes = n - i < kLanes ? n - i : kLanes;\n"
                    "const bool whole = node.aligned != 0 && lanes == kLanes;\n",
                    Loads(), "#pragma unroll\nfor (int j = 0; j < kLanes; ++j) {\n", Lane(), "}\n", Stores(),
                    "}\n}\n}\n}  // namespace belfry::ops\n");
    return text;
  }

  // The pointers and numbers that a thread finds once for a chunk.
  std::string Once(const KernelSource& source) const {
    std::string text;
    for (size_t k = 0; k < accesses_.size(); ++k) {
      const Access& access = accesses_[k];
      const int place = source.places[k];
      const std::string from =
          place >= 0 ? absl::StrCat("table.shared[", place, "]") : absl::StrCat("node.at[", -1 - place, "]");
      absl::StrAppend(&text, "const auto* const in", k, " = static_cast<const ", Stored(access.dtype), "*>(", from,
                      ");\n");
      if (access.condition) absl::StrAppend(&text, "if (!*in", k, ") continue;\n");
      if (access.number) absl::StrAppend(&text, "const auto u", k, " = Widen(*in", k, ");\n");
      if (access.row) absl::StrAppend(&text, "const uint32_t r", k, " = begin % ", access.size, ";\n");
    }
    for (size_t o = 0; o < node_.results.size(); ++o) {
      const DType dtype = node_.body[node_.results[o]].outputs[0].dtype;
      absl::StrAppend(&text, "auto* const out", o, " = static_cast<", Stored(dtype), "*>(const_cast<void*>(node.at[",
                      source.pointers - static_cast<int>(node_.results.size()) + static_cast<int>(o), "])) + begin;\n");
    }
    for (size_t m = 0; m < codes_.size(); ++m) {
      if (codes_[m].rows > 0) continue;
      std::vector<std::pair<std::string, std::string>> names;
      for (int k : Numbers(codes_[m])) {
        names.emplace_back(absl::StrCat("$", k), absl::StrCat("u", node_.body[m].inputs[k].index));
      }
      absl::StrAppend(&text, "const auto f", m, " = ", absl::StrReplaceAll(codes_[m].function, names), ";\n");
    }
    return text;
  }

  std::string Loads() const {
    std::string text;
    for (size_t k = 0; k < accesses_.size(); ++k) {
      const Access& access = accesses_[k];
      if (access.elements)
        absl::StrAppend(&text, "auto x", k, " = Load<kLanes>(in", k, " + begin + i, lanes, whole);\n");
      if (access.row) {
        absl::StrAppend(&text, "const auto y", k, " = LoadRow<kLanes, ", access.size, ">(in", k, ", (r", k, " + i) % ",
                        access.size, ", lanes, whole);\n");
      }
      if (!access.place.empty()) {
        const absl::string_view index = elements_ < int64_t{1} << 31 ? "uint32_t" : "int64_t";
        absl::StrAppend(&text, "const auto y", k, " = LoadAt<kLanes>(in", k, ", lanes, [&](int j) {\nconst ", index,
                        " e = ", index, "(begin) + i + j;\nreturn ", access.place, ";\n});\n");
      }
      if (access.transposed) {
        absl::StrAppend(&text, "const auto t", k, " = LoadTransposed<kLanes>(in", k,
                        ", node.rows, node.columns, uint32_t(begin) + i, lanes);\n");
      }
    }
    for (size_t o = 0; o < node_.results.size(); ++o) {
      absl::StrAppend(&text, "Pack<", Stored(node_.body[node_.results[o]].outputs[0].dtype), ", kLanes> w", o, ";\n");
    }
    return text;
  }

  std::string Operand(const ProgramNode& member, const ElementCode& code, int k) const {
    const Value input = member.inputs[k];
    if (input.node >= 0) return absl::StrCat("v", input.node);
    const Access& access = accesses_[input.index];
    if (code.rows > 0) return absl::StrCat("Widen(t", input.index, ".at[j])");
    if (access.size == elements_) return absl::StrCat("Widen(x", input.index, ".at[j])");
    return access.size == 1 ? absl::StrCat("u", input.index) : absl::StrCat("Widen(y", input.index, ".at[j])");
  }

  std::string Lane() const {
    std::string text;
    for (size_t m = 0; m < codes_.size(); ++m) {
      const ProgramNode& member = node_.body[m];
      std::vector<std::string> operands;
      std::string before, after;
      for (int k : codes_[m].operands) {
        operands.push_back(Operand(member, codes_[m], k));
        if (!member.op->input_arg(k).ref) continue;
        const std::string name = absl::StrCat("a", k), element = absl::StrCat("x", member.inputs[k].index, ".at[j]");
        absl::StrAppend(&before, "auto ", name, " = ", operands.back(), ";\n");
        absl::StrAppend(&after, element, " = Narrow<", Stored(accesses_[member.inputs[k].index].dtype), ">(", name,
                        ");\n");
        operands.back() = name;
      }
      const std::string call = absl::StrCat("f", m, "(", absl::StrJoin(operands, ", "), ")");
      if (!before.empty()) {
        absl::StrAppend(&text, before, call, ";\n", after);
        continue;
      }
      absl::StrAppend(&text, "const auto s", m, " = Narrow<", Stored(member.outputs[0].dtype), ">(",
                      codes_[m].rows > 0 ? operands[0] : call, ");\nconst auto v", m, " = Widen(s", m, ");\n");
      const auto result = std::find(node_.results.begin(), node_.results.end(), static_cast<int>(m));
      if (result != node_.results.end()) {
        absl::StrAppend(&text, "w", result - node_.results.begin(), ".at[j] = s", m, ";\n");
      }
    }
    return text;
  }

  std::string Stores() const {
    std::string text;
    for (size_t o = 0; o < node_.results.size(); ++o) {
      absl::StrAppend(&text, "Store<kLanes>(out", o, " + i, w", o, ", lanes, whole);\n");
    }
    for (size_t k = 0; k < accesses_.size(); ++k) {
      if (!accesses_[k].updated) continue;
      const absl::string_view type = Stored(accesses_[k].dtype);
      absl::StrAppend(&text, "Store<kLanes>(const_cast<", type, "*>(in", k, ") + begin + i, x", k,
                      ", lanes, whole);\n");
    }
    return text;
  }

  const Program& program_;
  const ProgramNode& node_;
  Device& device_;
  std::vector<ElementCode> codes_;  // by member
  std::vector<Access> accesses_;    // by input
  int64_t elements_ = 0, rows_ = 0, columns_ = 0;
  int lanes_ = 1;
};

}  // namespace

int MostJoined(int pointers, int shared) {
  const size_t header = 8 + sizeof(void*) * static_cast<size_t>(std::max(shared, 1));
  const size_t entry = 24 + sizeof(void*) * static_cast<size_t>(std::max(pointers, 1));
  return static_cast<int>((kMaxCompiledArgument - header) / entry);
}

bool HasElementCode(const ProgramNode& node, const Device& device) {
  if (node.op->element_code == nullptr || node.op->types.empty()) return false;
  const DType dtype = KernelDType(*node.op, node.attrs);
  return node.op->FindKernel(device.type(), dtype) != nullptr && !node.op->HasReplacement(device.type(), dtype);
}

std::optional<ElementCode> CodeOf(const Program& program, const ProgramNode& node, Device& device) {
  const std::vector<TensorSpec> inputs = InputSpecs(program, node);
  return node.op->element_code({node.name, node.attrs, inputs, node.outputs, &device});
}

std::optional<KernelSource> SourceOf(const Program& program, const ProgramNode& node, const std::vector<bool>& shared,
                                     int capacity, Device& device, absl::string_view declarations) {
  SourceWriter writer(program, node, device);
  if (!writer.Analyse()) return std::nullopt;
  KernelSource source = writer.Write(shared, capacity, declarations);
  if (source.capacity < 1) return std::nullopt;
  return source;
}

}  // namespace belfry
