#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/state.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

using Update = Output (*)(OpScope, const Variable&, Output);

OpCase UpdateCase(const std::string& name, Update update, double kept, double added) {
  OpCase result{.name = name, .inputs = {{.shape = {3, 5}, .variable = true}, {.shape = {3, 5}}}};
  result.build = [=](const Scope& scope, const Ins& in) {
    return Outs{update(scope, scope.graph().VariableOf(*in[0].node), in[1])};
  };
  result.reference = [=](const Arrays& in) {
    Array y = in[0];
    for (int64_t i = 0; i < y.size(); ++i) y[i] = kept * y[i] + added * in[1][i];
    return Arrays{y};
  };
  result.dtypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64};
  result.more_shapes = {{{}, {}}, {{0}, {0}}, {{211, 401}, {211, 401}}};
  result.gradient = false;
  result.unknown_axes = {};
  return result;
}

}  // namespace

std::vector<OpCase> StateCases() {
  std::vector<OpCase> cases = {UpdateCase("Assign", &ops::Assign, 0, 1), UpdateCase("AssignAdd", &ops::AssignAdd, 1, 1),
                               UpdateCase("AssignSub", &ops::AssignSub, 1, -1)};
  const std::vector<OpCase> always = cases;
  for (const OpCase& op_case : always) {
    for (bool condition : {true, false}) {
      OpCase conditional = op_case;
      conditional.name += condition ? "IfTrue" : "IfFalse";
      conditional.build = [build = op_case.build, condition](const Scope& scope, const Ins& in) {
        return build(scope.OnlyIf(ops::Const<bool>(scope, condition)), in);
      };
      if (!condition) conditional.reference = [](const Arrays& in) { return Arrays{in[0]}; };
      cases.push_back(std::move(conditional));
    }
  }
  cases.push_back(UpdateCase(
      "ReadVariable",
      [](OpScope scope, const Variable& variable, Output) { return ops::ReadVariable(scope, variable); }, 1, 0));
  return cases;
}

}  // namespace belfry::harness
