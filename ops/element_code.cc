#include "ops/element_code.h"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "element_declarations.h"  // made by CMake

namespace belfry::ops {
namespace {

// The type in which elements of a dtype are computed.
absl::string_view ComputeType(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return "double";
    case DType::kInt32: return "int32_t";
    case DType::kInt64: return "int64_t";
    case DType::kUInt8: return "uint8_t";
    case DType::kBool: return "bool";
    default: return "float";
  }
}

// The number to its last bit.
std::string Number(double x) {
  if (std::isnan(x)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(x)) return absl::StrCat(x < 0 ? "-" : "", "std::numeric_limits<double>::infinity()");
  return absl::StrFormat("%a", x);
}

std::vector<int> AllInputs(const KernelSpec& spec) {
  std::vector<int> inputs(spec.inputs.size());
  std::iota(inputs.begin(), inputs.end(), 0);
  return inputs;
}

// `function` with "{T}" for the type in which input 0 is computed, and "{name}" for an attribute.
std::string Fill(const KernelSpec& spec, absl::string_view function) {
  std::vector<std::pair<std::string, std::string>> names = {{"{T}", std::string(ComputeType(spec.inputs[0].dtype))}};
  for (const auto& [name, value] : spec.attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) {
      names.emplace_back(absl::StrCat("{", name, "}"), Number(*number));
    }
  }
  return absl::StrReplaceAll(function, names);
}

// A functor of input 0 alone.
ElementCodeFactory MapOfFirst(std::string function) {
  return [function = std::move(function)](const KernelSpec& spec) -> std::optional<ElementCode> {
    return ElementCode{.function = Fill(spec, function), .operands = {0}};
  };
}

std::optional<ElementCode> CastCode(const KernelSpec& spec) {
  const DType to = spec.outputs[0].dtype;
  const bool narrow = to == DType::kFloat16 || to == DType::kBFloat16;
  return ElementCode{.function = narrow ? "ToSixteenBits{}" : absl::StrCat("ConvertTo<", ComputeType(to), ">{}"),
                     .operands = {0}};
}

// A permutation that only turns the axes is a transposed matrix.
std::optional<ElementCode> TransposeCode(const KernelSpec& spec) {
  const Shape& from = spec.inputs[0].shape;
  const std::vector<int64_t> perm = spec.attrs.Ints("perm");
  const int rank = from.rank();
  if (static_cast<int>(perm.size()) != rank || rank < 2 || from.elements() == 0) return std::nullopt;
  const auto first = static_cast<int>(perm[0] < 0 ? perm[0] + rank : perm[0]);
  for (int axis = 0; axis < rank; ++axis) {
    if ((perm[axis] + rank) % rank != (first + axis) % rank) return std::nullopt;
  }
  return ElementCode{
      .function = "", .operands = {0}, .rows = from.elements(0, first), .columns = from.elements(first, rank)};
}

// The attributes of a rule, as KernelPrelude's Attrs.
std::string AttrsText(const KernelSpec& spec) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : spec.attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) {
      entries.push_back(absl::StrCat("{\"", name, "\", ", Number(*number), "}"));
    } else if (const bool* flag = std::get_if<bool>(&value)) {
      entries.push_back(absl::StrCat("{\"", name, "\", ", *flag ? 1 : 0, "}"));
    }
  }
  return absl::StrCat("Attrs{{", absl::StrJoin(entries, ", "), "}}");
}

// An update by a rule of rules.h: of the variable and its slots, then the step if the rule needs it, the learning rate
// and the gradient.
ElementCodeFactory Update(std::string rule, int slots, bool step) {
  return [rule = std::move(rule), slots, step](const KernelSpec& spec) -> std::optional<ElementCode> {
    const std::string type = Fill(spec, absl::StrCat(rule, "<{T}>"));
    const int rate = 1 + slots + (step ? 1 : 0), gradient = rate + 1;
    ElementCode code;
    code.function = absl::StrCat("UpdateBy<", ComputeType(spec.inputs[0].dtype), ">(RuleOf<", type, ">(",
                                 AttrsText(spec), "), $", rate, ", ", step ? absl::StrCat("$", 1 + slots) : "0", ")");
    for (int k = 0; k <= slots; ++k) code.operands.push_back(k);
    code.operands.push_back(gradient);
    if (static_cast<int>(spec.inputs.size()) > gradient + 1) code.condition = gradient + 1;
    return code;
  };
}

std::optional<ElementCode> MovingAverage(const KernelSpec& spec) {
  return ElementCode{.function = absl::StrCat("RuleOf<MovingAverageRule>(", AttrsText(spec), ").At<",
                                              ComputeType(spec.inputs[0].dtype), ">($1)"),
                     .operands = {0, 2},
                     .condition = spec.inputs.size() > 3 ? 3 : -1};
}

ElementCodeFactory Accumulation(std::string function) {
  return [function = std::move(function)](const KernelSpec& spec) -> std::optional<ElementCode> {
    return ElementCode{.function = Fill(spec, absl::StrCat("Accumulate<functor::", function, "<{T}>, {T}>{}")),
                       .operands = {0, 1},
                       .condition = spec.inputs.size() > 2 ? 2 : -1};
  };
}

constexpr absl::string_view kHelpers = R"(
namespace belfry::ops {
template <class To> struct ConvertTo {
  template <class From> To operator()(From x) const { return ConvertNumber<To>(x); }
};
struct ToSixteenBits {  // rounded once, when it is stored
  template <class From> float operator()(From x) const { return RoundToOdd(x); }
};
template <class T> struct Sum {
  template <class... Rest> T operator()(T all, Rest... rest) const {
    ((all = functor::Add<T>()(all, rest)), ...);
    return all;
  }
};
// Kernels cannot fail, so an integer divided by 0 gives 0.
template <template <class> class F, class T> struct Divide {
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
    }
    return F<T>()(a, b);
  }
};
struct Choose {
  template <class T> T operator()(bool condition, T a, T b) const { return condition ? a : b; }
};
template <class F, class T> struct Accumulate {
  void operator()(T& v, T x) const { v = F()(v, x); }
};
template <class Rule> consteval Rule RuleOf(const Attrs& attrs) { return Rule(attrs); }
template <class Rule, class C> struct Decayed {
  typename Rule::Update update;
  C decay;
  void operator()(C& v, C g) const { update(v, g + decay * v); }
  void operator()(C& v, C& a, C g) const { update(v, a, g + decay * v); }
  void operator()(C& v, C& a, C& b, C g) const { update(v, a, b, g + decay * v); }
};
template <class C, class Rule> Decayed<Rule, C> UpdateBy(const Rule& rule, double rate, int64_t step) {
  return {rule.At(rate, step), static_cast<C>(rule.weight_decay)};
}
}  // namespace belfry::ops
)";

void AddMaps(OpRegistry& registry) {
  registry.SetElementCode("BiasAdd", ElementMap("functor::Add<{T}>{}"));
  registry.SetElementCode("AddN", ElementMap("Sum<{T}>{}"));
  registry.SetElementCode("Select", ElementMap("Choose{}"));
  registry.SetElementCode("BroadcastTo", MapOfFirst("functor::Identity<{T}>{}"));
  registry.SetElementCode("BroadcastLike", MapOfFirst("functor::Identity<{T}>{}"));
  registry.SetElementCode("ClipToNorm", MapOfFirst("ClipRule<{T}>($1, {clip_norm})"));
  registry.SetElementCode("Cast", CastCode);
  registry.SetElementCode("Transpose", TransposeCode);
}

void AddUpdates(OpRegistry& registry) {
  registry.SetElementCode("ApplyGradientDescent", Update("GradientDescentRule", 0, false));
  registry.SetElementCode("ApplyMomentum", Update("MomentumRule", 1, false));
  registry.SetElementCode("ApplyRMSProp", Update("RMSPropRule", 2, false));
  registry.SetElementCode("ApplyAdagrad", Update("AdagradRule", 1, false));
  registry.SetElementCode("ApplyAdam", Update("CoupledAdamRule", 2, true));
  registry.SetElementCode("ApplyAdamW", Update("DecoupledAdamRule", 2, true));
  registry.SetElementCode("ApplyMovingAverage", MovingAverage);
  registry.SetElementCode("AssignAdd", Accumulation("Add"));
  registry.SetElementCode("AssignSub", Accumulation("Sub"));
}

}  // namespace

ElementCodeFactory ElementMap(std::string function) {
  return [function = std::move(function)](const KernelSpec& spec) -> std::optional<ElementCode> {
    return ElementCode{.function = Fill(spec, function), .operands = AllInputs(spec)};
  };
}

void AddElementCode(OpRegistry& registry) {
  AddMaps(registry);
  AddUpdates(registry);
  std::string declarations;
  for (const char* text : kElementDeclarations) declarations += text;
  registry.SetElementDeclarations(absl::StrCat(declarations, kHelpers));
}

}  // namespace belfry::ops
