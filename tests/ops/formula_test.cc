#include "ops/formula.h"

#include <cmath>
#include <functional>
#include <type_traits>
#include <vector>

#include "framework/device/device_set.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/check_gradients.h"
#include "framework/runtime/session.h"
#include "ops/builtin_ops.h"
#include "ops/state.h"
#include "tests/main/testing.h"

// A user's file: no `ops`, nothing of `formulas`, and own names that Belfry has, too.
namespace user {

using namespace belfry;

struct Sum {};
constexpr int Max = 3;

Output Contrastive(Output d, Output same) { return Mean(same * Square(d) + (Max - 2 - same) * Square(Relu(1 - d))); }

}  // namespace user

namespace belfry {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

static_assert(std::is_same_v<decltype(Output() == Output()), bool> && std::is_same_v<decltype(!Output()), Output>);
static_assert(!std::is_convertible_v<bool, ops::Operand> && !std::is_convertible_v<Output*, ops::Operand>);
static_assert(std::is_convertible_v<short, ops::Operand> && !std::is_convertible_v<float, formulas::Term>);
static_assert(sizeof(Output) == 2 * sizeof(void*) && std::is_trivially_copyable_v<Output>);

class FormulaTest : public testing::Test {
 protected:
  Output Float(std::vector<float> values) {
    const auto size = static_cast<int64_t>(values.size());
    return ops::Const(root_, Tensor::Of<float>(values, {size}));
  }
  Output Feed(const Scope& scope, absl::string_view name, DType dtype = DType::kFloat32) {
    return ops::Placeholder(scope.Named(name), dtype, {-1});
  }
  std::vector<double> Values(Output x) {
    auto result = Fetch(graph_, {}, {x});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0].ToDoubles() : std::vector<double>();
  }
  static absl::StatusOr<std::vector<Tensor>> Fetch(Graph& graph, const FeedList& values,
                                                   absl::Span<const Output> fetches) {
    ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:2", {.cpu_threads = 1}));
    ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
    std::vector<belfry::Feed> feeds;
    for (const auto& [output, value] : values) feeds.push_back({output, value});
    return session->Run(feeds, fetches);
  }
  Scope TowerScope(int tower) {
    return root_.NameScope("tower_" + std::to_string(tower)).InTower(tower).Device(tower == 0 ? "/cpu:0" : "/cpu:1");
  }
  std::string Error() const { return std::string(graph_.status().message()); }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
};

std::string Line(int line) { return "formula_test.cc:" + std::to_string(line) + ")"; }

// --- The long form ---

// The graph and the plan of a loss and of its gradient, for a function of [N, 4] and [N] in the scope of a tower.
std::string Dumps(const std::function<Output(const Scope& scope, Output x, Output same)>& loss) {
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).NameScope("tower_0").Device("/cpu:1").InTower(0);
  const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {-1, 4});
  const Output same = ops::Placeholder(scope.Named("same"), DType::kFloat32, {-1});
  const Output y = loss(scope, x, same);
  EXPECT_TRUE(y.valid()) << graph.status();
  if (!y.valid()) return "";
  const DeviceSet devices = ValueOf(DeviceSet::Open("cpu:2", {.cpu_threads = 1}));
  const std::vector<Output> gradients = ValueOf(Gradients(scope, {y}, {x, same}));
  const auto session = ValueOf(Session::Create(graph, devices));
  const auto step = ValueOf(session->Prepare({{x, {10, 4}}, {same, {10}}}, {y, gradients[0]}));
  return GraphToText(graph) + step->plan().ToText(devices);
}

TEST(FormulaDumps, AreThoseOfTheLongForm) {
  const std::string formula = Dumps([](const Scope&, Output x, Output same) {
    const Output d = Norm(x, 1), near = same * Square(d);
    Output gap = Relu(1 - d);
    const Output far = (1 - same) / 3;
    gap *= far;
    return Mean(-gap + near) * 0.5;
  });
  const std::string long_form = Dumps([](const Scope& s, Output x, Output same) {
    const Output d = ops::Norm(s, x, 1), near = ops::Mul(s, same, ops::Square(s, d));
    const Output one = ops::Const(s, 1.f), gap = ops::Relu(s, ops::Sub(s, one, d));
    const Output again = ops::Const(s, 1.f), other = ops::Sub(s, again, same), three = ops::Const(s, 3.f);
    const Output far = ops::Mul(s, gap, ops::Div(s, other, three));
    return ops::Scale(s, ops::Mean(s, ops::Add(s, ops::Neg(s, far), near)), 0.5);
  });
  EXPECT_EQ(formula, long_form);
  EXPECT_THAT(formula, HasSubstr("tower_0/Relu"));
  const std::string numbers = Dumps([](const Scope& s, Output x, Output same) {
    const Output d = ops::Norm(s, x, 1), near = ops::Mul(s, same, ops::Square(s, d));
    const Output gap = ops::Relu(s, ops::Sub(s, 1, d));
    const Output far = ops::Mul(s, gap, ops::Div(s, ops::Sub(s, 1.0, same), 3));
    return ops::Mul(s, ops::Mean(s, ops::Add(s, ops::Neg(s, far), near)), 0.5);
  });
  EXPECT_EQ(numbers, long_form);
}

TEST(FormulaDumps, AreThoseOfTheLongFormForSlices) {
  const std::string formula = Dumps([](const Scope&, Output x, Output same) {
    const Output last = At(x, {}, -1), middle = At(x, {1, {}}, {1, -1});
    const Output mean = Mean(Select(last > 0.5, last, same)), sum = Sum(middle);
    return mean + sum;
  });
  const std::string long_form = Dumps([](const Scope& s, Output x, Output same) {
    const Output last = ops::Squeeze(s, ops::StridedSlice(s, x, {0, -1}, {ops::kSliceEnd, ops::kSliceEnd}, {}), {1});
    const Output middle = ops::StridedSlice(s, x, {1, 1}, {ops::kSliceEnd, -1});
    const Output half = ops::Const(s, 0.5f);
    const Output mean = ops::Mean(s, ops::Select(s, ops::Greater(s, last, half), last, same));
    const Output sum = ops::Sum(s, middle);
    return ops::Add(s, mean, sum);
  });
  EXPECT_EQ(formula, long_form);
}

TEST_F(FormulaTest, NamesOfTheUserHideNothing) {
  const Output d = Float({0.25, 2, 0.5, 3}), same = Float({1, 1, 0, 0});
  EXPECT_THAT(Values(user::Contrastive(d, same)), ElementsAre((0.0625 + 4 + 0.25) / 4));
}

// --- Values ---

TEST_F(FormulaTest, Operators) {
  const Output x = Float({-1, 0, 2}), y = Float({4, 5, 8});
  EXPECT_THAT(Values(x + y), ElementsAre(3, 5, 10));
  EXPECT_THAT(Values(x - y), ElementsAre(-5, -5, -6));
  EXPECT_THAT(Values(x * y), ElementsAre(-4, 0, 16));
  EXPECT_THAT(Values(x / y), ElementsAre(-0.25, 0, 0.25));
  EXPECT_THAT(Values(1 + x), ElementsAre(0, 1, 3));
  EXPECT_THAT(Values(x + 1.5), ElementsAre(0.5, 1.5, 3.5));
  EXPECT_THAT(Values(1 - x), ElementsAre(2, 1, -1));
  EXPECT_THAT(Values(x - 1), ElementsAre(-2, -1, 1));
  EXPECT_THAT(Values(3 * x), ElementsAre(-3, 0, 6));
  EXPECT_THAT(Values(x * 0.5f), ElementsAre(-0.5, 0, 1));
  EXPECT_THAT(Values(40 / y), ElementsAre(10, 8, 5));
  EXPECT_THAT(Values(y / 4), ElementsAre(1, 1.25, 2));
  EXPECT_THAT(Values(-x), ElementsAre(1, 0, -2));
  Output z = x;
  z += y;
  z *= 2;
  z -= 1;
  z /= x + 2;
  EXPECT_THAT(Values(z), ElementsAre(5, 4.5, 4.75));
  EXPECT_THAT(Values(x), ElementsAre(-1, 0, 2));
}

TEST_F(FormulaTest, Comparisons) {
  const Output x = Float({-1, 0, 2}), y = Float({0, 0, 0});
  EXPECT_THAT(Values(x < y), ElementsAre(1, 0, 0));
  EXPECT_THAT(Values(x <= 0), ElementsAre(1, 1, 0));
  EXPECT_THAT(Values(x > 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(Values(0 >= x), ElementsAre(1, 1, 0));
  EXPECT_THAT(Values(Equal(x, 2)), ElementsAre(0, 0, 1));
  EXPECT_THAT(Values(NotEqual(x, y)), ElementsAre(1, 0, 1));
  EXPECT_THAT(Values((x < 0) | (x > 1)), ElementsAre(1, 0, 1));
  EXPECT_THAT(Values((x > -1) & !(x > 1)), ElementsAre(0, 1, 0));
  EXPECT_THAT(Values((x > -1) ^ (x > 1)), ElementsAre(0, 1, 0));
  EXPECT_THAT(Values(Select(x > 0, x, 0)), ElementsAre(0, 0, 2));
  EXPECT_THAT(Values(Select(x > 0, 1, x)), ElementsAre(-1, 0, 1));
  EXPECT_TRUE(x == x);
  EXPECT_TRUE(x != y);
}

TEST_F(FormulaTest, FunctionsAreTheOps) {
  const Output x = Float({-0.5, 0.25, 0.75}), y = Float({0.5, 2, 3});
  const Output which = ops::Const(root_, {2, 0, 2}), label = ops::Const(root_, 1);
  const std::vector<std::pair<Output, Output>> pairs = {
      {Abs(x), ops::Abs(root_, x)},
      {Gelu(x, true), ops::Gelu(root_, x, true)},
      {LeakyRelu(x, 0.5), ops::LeakyRelu(root_, x, 0.5)},
      {ClipByValue(x, 0, 0.5), ops::ClipByValue(root_, x, 0, 0.5)},
      {Cast(x * 4, DType::kInt32), ops::Cast(root_, ops::Scale(root_, x, 4), DType::kInt32)},
      {Sigmoid(x) + Tanh(x), ops::Add(root_, ops::Sigmoid(root_, x), ops::Tanh(root_, x))},
      {Log(y) - Sqrt(y), ops::Sub(root_, ops::Log(root_, y), ops::Sqrt(root_, y))},
      {Pow(y, 3), ops::Pow(root_, y, ops::Const(root_, 3.f))},
      {Pow(2, x), ops::Pow(root_, ops::Const(root_, 2.f), x)},
      {Maximum(x, 0), ops::Relu(root_, x)},
      {Minimum(0.5, x), ops::Minimum(root_, x, ops::Const(root_, 0.5f))},
      {SquaredDifference(x, 1), ops::Square(root_, ops::Sub(root_, x, ops::Const(root_, 1.f)))},
      {Atan2(x, y), ops::Atan2(root_, x, y)},
      {FloorMod(y, 2), ops::FloorMod(root_, y, ops::Const(root_, 2.f))},
      {Softmax(x, {.temperature = 2}), ops::Softmax(root_, x, {.temperature = 2})},
      {Sum(x), ops::Sum(root_, x)},
      {Mean(x, 0, true), ops::Mean(root_, x, 0, true)},
      {ArgMax(x, 0), ops::ArgMax(root_, x, 0)},
      {LogSumExp(x, {-1}), ops::LogSumExp(root_, x, {-1})},
      {MatMul(Reshape(x, {1, 3}), ExpandDims(y, 1)),
       ops::MatMul(root_, ops::Reshape(root_, x, {1, 3}), ops::Reshape(root_, y, {3, 1}))},
      {Transpose(Reshape(y, {3, 1}), {1, 0}), ops::Reshape(root_, y, {1, 3})},
      {Gather(y, which), ops::Gather(root_, y, which)},
      {HuberLoss(x, y, 0.5), ops::HuberLoss(root_, x, y, 0.5)},
      {KlDivergence(y, x), ops::KlDivergence(root_, y, x)},
      {MeanSquaredLoss(x, y), ops::MeanSquaredLoss(root_, x, y)},
      {SigmoidCrossEntropy(y, x), ops::SigmoidCrossEntropy(root_, y, x)},
      {SoftmaxCrossEntropy(y, x), ops::SoftmaxCrossEntropy(root_, y, x)},
      {SparseSoftmaxCrossEntropy(y, label), ops::SparseSoftmaxCrossEntropy(root_, y, label)},
      {StopGradient(Squeeze(Reshape(y, {3, 1}), {1})), y}};
  for (const auto& [formula, op] : pairs) {
    ASSERT_TRUE(formula.valid() && op.valid()) << Error();
    EXPECT_EQ(formula.dtype(), op.dtype()) << formula.name();
    EXPECT_EQ(formula.shape(), op.shape()) << formula.name();
    EXPECT_EQ(Values(formula), Values(op)) << formula.name();
  }
}

TEST_F(FormulaTest, SlicesArePythons) {
  const Output x = Reshape(Float({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), {3, 4});
  EXPECT_THAT(Values(At(x, 1)), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(At(x, 1).shape(), Shape({4}));
  EXPECT_THAT(Values(At(x, -1, -2)), ElementsAre(10));
  EXPECT_EQ(At(x, -1, -2).shape(), Shape());
  EXPECT_THAT(Values(At(x, {}, 0)), ElementsAre(0, 4, 8));
  EXPECT_THAT(Values(At(x, {1, -1})), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(At(x, {1, -1}).shape(), Shape({1, 4}));
  EXPECT_THAT(Values(At(x, {1, {}}, {{}, 1})), ElementsAre(4, 8));
  EXPECT_THAT(Values(At(x, 0, {{}, {}, -1})), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(Values(At(x, 0, {{}, {}, 2})), ElementsAre(0, 2));
  EXPECT_THAT(Values(At(x, {0, 100}, 3)), ElementsAre(3, 7, 11));
  EXPECT_EQ(At(x, {}), x);
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string line = Line(__LINE__ + 1);
  const Output y = At(x, {}, 4);
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("There is no element 4 of axis 1 of 'Reshape:0', which is float32 [3,4]"),
                             EndsWith(line)));
}

TEST_F(FormulaTest, TooManyIndicesAreAnError) {
  const Output x = Float({0, 1, 2});
  const std::string line = Line(__LINE__ + 1);
  const Output y = At(x, {1, 2}, {0, 1});
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("at most 1, the rank of [3]"), EndsWith(line)));
}

TEST_F(FormulaTest, GradientsAgreeWithDifferences) {
  const Output x = Feed(root_, "x", DType::kFloat64), y = Feed(root_, "y", DType::kFloat64);
  const Output z = Exp(x * y) / (1 + Square(y)) - Log(3 + Sigmoid(x)) * 2;
  const Output loss = Mean(Select(x > 0, z, -Tanh(z)) + Pow(y, 2.5) - 1) + Sum(At(x, {1, {}}) * At(y, 0));
  const FeedList values = {{x, Tensor::Of<double>({-1, 0.5, 2, 0.25})}, {y, Tensor::Of<double>({1, 0.5, 1.5, 0.75})}};
  EXPECT_TRUE(loss.valid()) << Error();
  const absl::Status checked = CheckGradients(root_, {loss}, {x, y}, values);
  EXPECT_TRUE(checked.ok()) << checked;
}

// --- Numbers ---

TEST_F(FormulaTest, NumbersTakeTheDtypeOfTheTensor) {
  const Output x = Float({1, 2});
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    const Output a = Cast(x, dtype);
    for (const Output& y : {a + 1, 1 + a, a * 2, Maximum(a, 2), 3u - a, a + static_cast<short>(2), a - 1.0f}) {
      EXPECT_EQ(y.dtype(), dtype);
    }
    EXPECT_THAT(Values(Cast(2 * a + 1, DType::kFloat64)), ElementsAre(3, 5)) << DTypeName(dtype);
    EXPECT_THAT(Values(a > 1), ElementsAre(0, 1)) << DTypeName(dtype);
    if (!IsFloating(dtype)) continue;
    EXPECT_THAT(Values(Cast(a / 2 + 0.25, DType::kFloat64)), ElementsAre(0.75, 1.25)) << DTypeName(dtype);
  }
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
}

TEST_F(FormulaTest, NumbersAreExact) {
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;
  EXPECT_EQ(ValueOf(Fetch(graph_, {}, {Cast(Float({0}), DType::kInt64) + kOdd}))[0].scalar<int64_t>(), kOdd);
  EXPECT_THAT(Values(Cast(Float({0}), DType::kFloat64) + 0.1), ElementsAre(0.1));
  EXPECT_THAT(Values(Cast(Float({0}), DType::kFloat64) + ~uint64_t{0}), ElementsAre(0x1p64));
  EXPECT_THAT(Values(Float({0}) + 0.1), ElementsAre(0.1f));
  EXPECT_THAT(Values(Cast(Float({1}), DType::kUInt8) + 254), ElementsAre(255));
  EXPECT_THAT(Values(Minimum(Float({1}), HUGE_VAL)), ElementsAre(1));
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
}

// The error of a formula of a tensor of this dtype.
std::string ErrorOf(DType dtype, const std::function<Output(Output)>& formula) {
  Graph graph(BuiltinOps());
  EXPECT_FALSE(formula(ops::Placeholder(Scope(graph).Named("x"), dtype, {3})).valid());
  return std::string(graph.status().message());
}

TEST(FormulaNumbers, ThatDoNotFitAreErrors) {
  const std::string line = Line(__LINE__ + 1);
  const auto add = [](Output x) { return ops::Add(Scope::Beside(*x.node), x, 0.5); };
  EXPECT_THAT(ErrorOf(DType::kInt32, add),
              AllOf(HasSubstr("Cannot add a node of op Add in scope '': 0.5 is not an integer, and 'x:0' beside it is "
                              "int32; cast the tensor (ops::Cast) or give another number ("),
                    EndsWith(line)));
  const std::string other_line = Line(__LINE__ + 1);
  const auto scale = [](Output x) { return 0.5 * x; };
  EXPECT_THAT(ErrorOf(DType::kInt64, scale),
              AllOf(HasSubstr("op Mul in scope '': 0.5 is not an integer"), EndsWith(other_line)));
  EXPECT_THAT(ErrorOf(DType::kInt32, [](Output x) { return x + NAN; }), HasSubstr("nan is not an integer"));
  EXPECT_THAT(ErrorOf(DType::kInt32, [](Output x) { return x < HUGE_VAL; }), HasSubstr("int32 cannot hold inf"));
  EXPECT_THAT(ErrorOf(DType::kInt32, [](Output x) { return x - 5e9; }), HasSubstr("int32 cannot hold 5e+09"));
  EXPECT_THAT(ErrorOf(DType::kInt64, [](Output x) { return x - 0x1p63; }), HasSubstr("int64 cannot hold 9.2"));
  EXPECT_THAT(ErrorOf(DType::kUInt8, [](Output x) { return x + 256; }), HasSubstr("uint8 cannot hold 256"));
  EXPECT_THAT(ErrorOf(DType::kUInt8, [](Output x) { return -1 + x; }), HasSubstr("uint8 cannot hold -1"));
  EXPECT_THAT(ErrorOf(DType::kFloat16, [](Output x) { return x + 1000000; }), HasSubstr("float16 cannot hold 1000000"));
  EXPECT_THAT(ErrorOf(DType::kFloat32, [](Output x) { return x * 1e300; }), HasSubstr("float32 cannot hold 1e+300"));
  EXPECT_THAT(ErrorOf(DType::kBool, [](Output x) { return Equal(x, 1); }), HasSubstr("1 is not a bool"));
  EXPECT_THAT(ErrorOf(DType::kBool, [](Output x) { return Select(x, 1, 0); }),
              HasSubstr("op Select in scope '': its operands are numbers"));
}

// --- Scopes ---

TEST_F(FormulaTest, NodesHaveTheLineOfTheirFormula) {
  const Output x = Float({1, 2});
  const int line = __LINE__ + 1;
  const Output y = Square(1 - x);
  for (const Node* node : {y.node, y.node->input(0).node, y.node->input(0).node->input(0).node}) {
    EXPECT_EQ(node->location().line, line) << node->name();
    EXPECT_THAT(node->location().file, EndsWith("formula_test.cc"));
  }
  const Output z = Exp(x) *  //
                   Log(x);
  EXPECT_EQ(z.node->input(0).node->location().line, line + 5);
  EXPECT_EQ(z.node->input(1).node->location().line, line + 6);
  const Output other = Float({1, 2, 3});
  const std::string failing = Line(__LINE__ + 1);
  const Output sum = x + other;
  EXPECT_FALSE(sum.valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("op Add"), EndsWith(failing)));
}

TEST_F(FormulaTest, TheNameScopeContainsAllOperands) {
  const Scope tower = TowerScope(0), net = tower.NameScope("net"), layer = net.NameScope("layer");
  const Output x = Feed(layer, "x"), y = Feed(layer, "y"), label = Feed(tower.NameScope("batch"), "label");
  const Output loose = Feed(root_, "loose"), weights = Feed(net.NameScope("layer2"), "w");
  EXPECT_EQ(Square(x).name(), "tower_0/net/layer/Square:0");
  EXPECT_EQ((x * y).name(), "tower_0/net/layer/Mul:0");
  EXPECT_EQ((x * weights).name(), "tower_0/net/Mul:0");
  EXPECT_EQ((x - label).name(), "tower_0/Sub:0");
  EXPECT_EQ((loose + x).name(), "tower_0/net/layer/Add:0");
  EXPECT_EQ((loose + 1).name(), "Add:0");
  EXPECT_EQ((loose + 1).node->input(1).name(), "Const_1:0");
}

TEST_F(FormulaTest, DeviceAndTowerAreThoseOfAnOperand) {
  const Output x = Feed(TowerScope(1), "x"), loose = Feed(root_.Device("/cpu:0"), "loose"), none = Feed(root_, "none");
  for (const Output& y : {x + 1, loose * x, x - none, Select(none > 0, loose, x), loose - x}) {
    ASSERT_TRUE(y.valid()) << Error();
    EXPECT_EQ(y.node->device_text(), "/cpu:1");
    EXPECT_EQ(y.node->tower(), 1);
    EXPECT_EQ(y.node->tower_scope(), "tower_1/");
  }
  EXPECT_EQ((none / loose).node->device_text(), "/cpu:0");
  EXPECT_EQ((none / loose).node->tower(), -1);
  EXPECT_EQ((none + none).node->device_text(), "");
}

TEST_F(FormulaTest, ThePhaseIsTheLatest) {
  const Output x = Feed(root_, "x"), y = Square(x);
  ASSERT_OK_AND_ASSIGN(const std::vector<Output> gradients, Gradients(root_, {y}, {x}));
  const Output scaled = x * gradients[0];
  EXPECT_EQ(y.node->phase(), Phase::kForward);
  EXPECT_EQ(scaled.node->phase(), Phase::kBackward);
  EXPECT_EQ(scaled.node->computed_for(), y.node);
  EXPECT_THAT(scaled.node->colocated_with(), ElementsAre(y.node));
}

TEST_F(FormulaTest, VariablesGoWhereTheOtherOperandIs) {
  const Variable shared = GetVariable(TowerScope(0).VariableDevice("/cpu:0"), "w", {2}, ZerosInitializer());
  const Output x = Feed(TowerScope(1), "x");
  for (const Output& y : {x * shared, shared * x}) {
    ASSERT_TRUE(y.valid()) << Error();
    EXPECT_EQ(y.node->tower(), 1);
    EXPECT_THAT(y.name(), testing::StartsWith("tower_1/Mul"));
  }
  const Variable loose = GetVariable(root_.NameScope("net"), "v", {2}, ZerosInitializer());
  EXPECT_EQ((-loose).name(), "Neg:0");
  EXPECT_EQ((2 * loose).node->tower(), -1);
  EXPECT_EQ((loose - loose).dtype(), DType::kFloat32);
  EXPECT_TRUE(graph_.status().ok()) << graph_.status();
  const std::string line = Line(__LINE__ + 1);
  const Output alone = Square(shared);
  EXPECT_FALSE(alone.valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("no operand but variables, such as 'w' of tower 0 ("),
                             HasSubstr("as in ops::Square(tower, variable)"), EndsWith(line)));
}

TEST_F(FormulaTest, ControlInputsAreNotPassedOn) {
  const Output before = Feed(root_, "before"), x = Feed(root_.ControlDependencies({before}), "x");
  EXPECT_THAT((x + 1).node->control_inputs(), IsEmpty());
}

// --- Errors ---

TEST_F(FormulaTest, TwoTowersAreAnErrorThatNamesBoth) {
  const std::string made = Line(__LINE__ + 1), line = Line(__LINE__ + 2);
  const Output x = Feed(TowerScope(0).WithLocation(SourceLocation::Current()), "x"), y = Feed(TowerScope(1), "y");
  const Output sum = x + y;
  EXPECT_FALSE(sum.valid());
  EXPECT_EQ(graph_.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Error(), AllOf(HasSubstr("two towers: 'tower_0/x' of tower 0 ("), HasSubstr(made + " and 'tower_1/y'"),
                             HasSubstr("of tower 1"), EndsWith(line)));
}

TEST_F(FormulaTest, TwoGraphsAreAnErrorOfBothThatNamesBoth) {
  Graph other(BuiltinOps());
  const std::string made = Line(__LINE__ + 1), line = Line(__LINE__ + 2);
  const Output x = Feed(root_.WithLocation(SourceLocation::Current()), "x"), y = Feed(Scope(other), "y");
  const Output largest = Maximum(x, y);
  EXPECT_FALSE(largest.valid());
  for (const Graph* graph : {&graph_, &other}) {
    EXPECT_EQ(graph->status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(graph->status().message()),
                AllOf(HasSubstr("two graphs: 'x' ("), HasSubstr(made + " and 'y' ("), EndsWith(line)));
  }
}

TEST_F(FormulaTest, OfInvalidOutputsAreInvalid) {
  const Output none;
  for (const Output& y : {none + none, 1 - none, none * 2, -none, Square(none), Sum(none), At(none, 0), !none,
                          Select(none, none, 1), Reshape(none, {1}), none < 3, none & none}) {
    EXPECT_FALSE(y.valid());
  }
  EXPECT_FALSE(Square(Variable()).valid());
  EXPECT_TRUE(graph_.status().ok());
  const std::string line = Line(__LINE__ + 1);
  const Output y = Feed(root_, "x") / none;
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("Cannot add a node of op RealDiv in scope '': one of its inputs is an invalid"),
                             EndsWith(line)));
}

TEST_F(FormulaTest, TheFirstErrorStays) {
  const Output x = Feed(root_, "x"), table = ops::Const(root_, {1, 2, 3});
  const std::string line = Line(__LINE__ + 1);
  const Output y = Square(x * table) + Relu(x);
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(Error(), AllOf(HasSubstr("op Mul"), HasSubstr("int32"), EndsWith(line)));
}

}  // namespace
}  // namespace belfry
