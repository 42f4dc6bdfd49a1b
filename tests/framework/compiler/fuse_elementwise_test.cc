// Fusion of element-wise nodes into one pass: which nodes are fused, and that nothing else changes.
#include <random>

#include "absl/strings/str_cat.h"
#include "framework/compiler/verify/verify.h"
#include "framework/graph/gradients.h"
#include "ops/nn.h"
#include "ops/training.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/compiler/execution.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPass[] = "_Elementwise";
const SessionOptions kFuse = {.fuse_elementwise_from = 0};

class FuseElementwiseTest : public SessionFixture {
 protected:
  Output Input(const Shape& shape, DType dtype = DType::kFloat32) { return ops::Placeholder(root_, dtype, shape); }
  static Tensor Ramp(const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = std::sin(1.7f * static_cast<float>(i));
    return tensor;
  }
  // The members of the pass that computes `name`; empty if no pass does.
  static std::vector<std::string> Members(const Plan& plan, const std::string& name) {
    std::vector<std::string> members;
    for (const ProgramNode& node : plan.program.nodes) {
      if (node.name != name) continue;
      for (const ProgramNode& member : node.body) members.push_back(member.op->name);
    }
    return members;
  }
};

TEST_F(FuseElementwiseTest, AChainIsOnePass) {
  const Output x = Input({1000});
  const Output y = ops::Neg(root_, ops::Add(root_, ops::Square(root_, x), ops::Const(root_, 2.0f)));
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {1000}}}, {y});
  EXPECT_THAT(Members(step->plan(), y.node->name()), ElementsAre("Square", "Add", "Neg"));
  EXPECT_EQ(Count(step->plan(), "Square"), 0);
  EXPECT_THAT(step->plan().ToText(*devices_), HasSubstr("{Square = Square("));
  const Tensor in = Ramp({1000});
  ASSERT_TRUE(step->Run({in}).ok());
  for (int64_t i = 0; i < 1000; ++i) {
    const float v = in.data<float>()[i];
    ASSERT_FLOAT_EQ(step->fetched(0).data<float>()[i], -(v * v + 2)) << i;
  }
}

TEST_F(FuseElementwiseTest, WithoutFusionThereIsNone) {
  const Output x = Input({8});
  const Output y = ops::Neg(root_, ops::Square(root_, x));
  Open("cpu:1", {.fuse = false, .fuse_elementwise_from = 0});
  EXPECT_EQ(Count(Prepare({{x, {8}}}, {y})->plan(), kPass), 0);
}

TEST_F(FuseElementwiseTest, SmallTensorsStayInTheCacheAnyway) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {Shape::kUnknown});
  const Output y = ops::Neg(root_, ops::Square(root_, x));
  Open("cpu:1");
  EXPECT_EQ(Count(Prepare({{x, {kFuseFrom - 1}}}, {y})->plan(), kPass), 0);
  EXPECT_EQ(Count(Prepare({{x, {kFuseFrom}}}, {y})->plan(), kPass), 1);
}

// A consumer of a member's shape alone reads it from another result of the pass, so the member need not be stored.
TEST_F(FuseElementwiseTest, AShapeIsNoReasonForAnOutput) {
  const Output x = Input({6});
  const Output inner = ops::Square(root_, x), y = ops::Neg(root_, inner);
  const Output stretched = ops::BroadcastLike(root_, ops::Sum(root_, y), inner);
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {6}}}, {y, ops::Concat(root_, {stretched, stretched}, 0)});
  for (const ProgramNode& node : step->plan().program.nodes) {
    if (node.name != y.node->name()) continue;
    EXPECT_THAT(node.results, ElementsAre(1));
  }
  ASSERT_TRUE(step->Run({Tensor::Of<float>({1, 1, 1, 1, 1, 1})}).ok());
  EXPECT_EQ(step->fetched(1).ToDoubles(), std::vector<double>(12, -6));
}

TEST_F(FuseElementwiseTest, WhatIsSeenOutsideIsAnOutput) {
  const Output x = Input({8});
  const Output fetched = ops::Square(root_, x), target = ops::Exp(root_, x), kept = ops::Abs(root_, x);
  const Output y = ops::AddN(root_, {fetched, target, kept});
  const Output sum = ops::Sum(root_, kept);
  const Output after = ops::Sum(root_.ControlDependencies({fetched}), x);
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {8}}}, {fetched, y, sum, after}, {target.node});
  EXPECT_THAT(Members(step->plan(), y.node->name()), ElementsAre("Square", "Exp", "Abs", "Sum", "AddN"));
  const Tensor in = Ramp({8});
  ASSERT_TRUE(step->Run({in}).ok());
  float expected = 0;
  for (int64_t i = 0; i < 8; ++i) {
    const float v = in.data<float>()[i];
    EXPECT_EQ(step->fetched(0).data<float>()[i], v * v);
    EXPECT_FLOAT_EQ(step->fetched(1).data<float>()[i], v * v + std::exp(v) + std::abs(v));
    expected += std::abs(v);
  }
  EXPECT_FLOAT_EQ(step->fetched(2).scalar<float>(), expected);
}

// The second member depends on a node that depends on the first.
TEST_F(FuseElementwiseTest, WhatOthersNeedBeforeStaysApart) {
  const Output x = Input({8});
  const Output first = ops::Square(root_, x);
  const Output y = ops::Mul(root_, first, ops::Cumsum(root_, first, 0));
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {8}}}, {y});
  EXPECT_EQ(Count(step->plan(), kPass), 0);
}

// The backward pass reads intermediate results of the forward pass, but the two are not fused into one.
TEST_F(FuseElementwiseTest, ForwardAndBackwardAreAPassEach) {
  const Output x = Input({64});
  const Output t = ops::Tanh(root_, ops::Scale(root_, x, 2)), y = ops::Mul(root_, t, ops::Exp(root_, x));
  ASSERT_OK_AND_ASSIGN(const auto gradients, Gradients(root_, {ops::Sum(root_, y)}, {x}));
  Open("cpu:1", kFuse);
  const Output sum = ops::Sum(root_, y);
  const auto step = Prepare({{x, {64}}}, {sum, gradients[0]});
  EXPECT_THAT(Members(step->plan(), sum.node->name()), ElementsAre("Scale", "Tanh", "Exp", "Mul", "Sum"));
  EXPECT_GT(Members(step->plan(), gradients[0].node->name()).size(), 3u);
}

TEST_F(FuseElementwiseTest, OtherShapesAndDevicesStayApart) {
  const Output x = Input({8, 1});
  const Output wide = ops::Add(root_, ops::Square(root_, x), ops::Fill(root_, {1, 3}, 0));
  const Output scalar = ops::Mul(root_, x, ops::Square(root_, ops::Sum(root_, x)));
  const Output elsewhere = ops::Neg(root_.Device("/cpu:1"), ops::Square(root_.Device("/cpu:0"), x));
  Open("cpu:2", kFuse);
  EXPECT_EQ(Count(Prepare({{x, {8, 1}}}, {wide, scalar, elsewhere})->plan(), kPass), 0);
}

// Rows of 10 elements are processed in blocks of 1280; rows of 300 would need blocks of 19200, which fit in no cache.
TEST_F(FuseElementwiseTest, RowsRepeat) {
  for (const int64_t width : {1, 10, 300}) {
    const Output x = Input({500, width}), row = Input({width});
    const Output y = ops::Neg(root_, ops::BiasAdd(root_, ops::Mul(root_, row, x), row));
    Open("cpu:1", kFuse);
    const auto step = Prepare({{x, {500, width}}, {row, {width}}}, {y});
    EXPECT_EQ(Members(step->plan(), y.node->name()).size(), width <= 10 ? 3u : 0u);
    const Tensor in = Ramp({500, width}), factors = Ramp({width});
    ASSERT_TRUE(step->Run({in, factors}).ok());
    for (int64_t i = 0; i < in.elements(); ++i) {
      const float f = factors.data<float>()[i % width];
      ASSERT_NEAR(step->fetched(0).data<float>()[i], -(in.data<float>()[i] * f + f), 1e-6) << i;
    }
  }
}

TEST_F(FuseElementwiseTest, ViewsBetweenArePassedOver) {
  const Output x = Input({6, 4});
  const Output y = ops::Neg(root_, ops::Reshape(root_, ops::Square(root_, x), {24}));
  const Output z = ops::Neg(root_, ops::Square(root_, ops::Reshape(root_, x, {3, 8})));
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {6, 4}}}, {y, z});
  EXPECT_THAT(Members(step->plan(), y.node->name()), ElementsAre("Square", "Neg"));
  EXPECT_THAT(Members(step->plan(), z.node->name()), ElementsAre("Square", "Neg"));
  ASSERT_TRUE(step->Run({Ramp({6, 4})}).ok());
  EXPECT_EQ(step->fetched(0).ToDoubles(), step->fetched(1).ToDoubles());
}

// The view cannot join the pass, so the node that it takes its shape from cannot either.
TEST_F(FuseElementwiseTest, AViewThatLooksLikeAMemberComesBeforeThePass) {
  const Output z = Input({8, 4, 2}), m = Input({8, 8}), k = Input({8, 8});
  const Output b = ops::Relu(root_, z);
  const Output y = ops::Neg(root_, ops::Add(root_, ops::ReshapeLike(root_, ops::MatMul(root_, m, k), b), b));
  Open("cpu:1", kFuse);
  const auto step = Prepare({{z, {8, 4, 2}}, {m, {8, 8}}, {k, {8, 8}}}, {y});
  ASSERT_NE(step, nullptr);
  EXPECT_THAT(Members(step->plan(), y.node->name()), ElementsAre("Add", "Neg"));
  Tensor identity(DType::kFloat32, {8, 8});
  for (int64_t i = 0; i < 64; ++i) identity.data<float>()[i] = i % 9 == 0 ? 1 : 0;
  const Tensor x = Ramp({8, 4, 2}), rows = Ramp({8, 8});
  ASSERT_TRUE(step->Run({x, rows, identity}).ok());
  for (int64_t i = 0; i < 64; ++i) {
    const float want = -(rows.data<float>()[i] + std::max(0.0f, x.data<float>()[i]));
    ASSERT_NEAR(step->fetched(0).data<float>()[i], want, 1e-6) << i;
  }
}

// One pass runs before the update, and another one after it.
TEST_F(FuseElementwiseTest, AVariableIsReadBeforeItsUpdate) {
  const Variable v = GetVariable(root_, "v", {3}, ConstantInitializer(1));
  const Output update = ops::AssignAdd(root_, v, ops::Const(root_, {10.f, 10.f, 10.f}));
  const Output y = ops::Add(root_, ops::Scale(root_, v, 100), ops::Square(root_.ControlDependencies({update}), v));
  const Output after = ops::Neg(root_, ops::Add(root_, update, v));
  Open("cpu:1", kFuse);
  Initialize();
  const auto step = Prepare({}, {y, after});
  EXPECT_THAT(Members(step->plan(), y.node->name()), ElementsAre("Square", "Add"));
  EXPECT_THAT(Members(step->plan(), after.node->name()), ElementsAre("Add", "Neg"));
  ASSERT_TRUE(step->Run().ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), ElementsAre(221, 221, 221));
  EXPECT_THAT(step->fetched(1).ToDoubles(), ElementsAre(-22, -22, -22));
}

// The last result of a pass reuses an operand's memory; an earlier one must not, because the operand is still read.
TEST_F(FuseElementwiseTest, AResultTakesThePlaceOfAnOperand) {
  const Output x = Input({32});
  const Output operand = ops::Concat(root_, {x, x}, 0);
  const Output kept = ops::Neg(root_, operand);
  const Output y = ops::Mul(root_, kept, operand);
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {32}}}, {kept, y});
  const Plan& plan = step->plan();
  const auto offset = [&](const std::string& name, int output) {
    for (size_t i = 0; i < plan.program.nodes.size(); ++i) {
      if (plan.program.nodes[i].name == name) return plan.memory.outputs[i][output].offset;
    }
    ADD_FAILURE() << "no " << name;
    return size_t{0};
  };
  ASSERT_THAT(Members(plan, y.node->name()), ElementsAre("Neg", "Mul"));
  EXPECT_EQ(offset(y.node->name(), 1), offset(operand.node->name(), 0));
  EXPECT_NE(offset(y.node->name(), 0), offset(operand.node->name(), 0));
  EXPECT_EQ(VerifyPlan(plan).status(), absl::OkStatus());
  EXPECT_TRUE(execution::OrdersAllAccesses(plan));
  ASSERT_TRUE(step->Run({Tensor::Zeros(DType::kFloat32, {32})}).ok());
}

TEST_F(FuseElementwiseTest, TheFirstOpThatIsNotFiniteIsNamed) {
  const Output x = Input({4});
  const Output y = ops::Neg(root_, ops::Log(root_.NameScope("culprit"), ops::Square(root_, x)));
  Open("cpu:1", {.fuse_elementwise_from = 0, .check_numerics = true});
  const auto status = session_->Run({{x, Tensor::Zeros(DType::kFloat32, {4})}}, {y}).status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("culprit/Log"), HasSubstr("(op Log")));
}

// A user's op that needs a workspace, keeps a sum from run to run, and rejects 13.
OpDef Picky() {
  const auto make = [](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    const int64_t n = spec.outputs[0].shape.elements();
    const auto run = [n, sum = std::make_shared<float>(0.f)](const KernelContext& context) -> absl::Status {
      auto* const copy = static_cast<float*>(context.workspace);
      *sum = 0;
      for (int64_t i = 0; i < n; ++i) *sum += copy[i] = context.input<float>(0)[i];
      float again = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (copy[i] == 13) return absl::InvalidArgumentError("an unlucky number");
        again += copy[i];
        context.output<float>(0)[i] = copy[i] + 1;
      }
      return again == *sum ? absl::OkStatus() : absl::InternalError("two threads at once");
    };
    return Kernel{run, static_cast<size_t>(n) * sizeof(float)};
  };
  return {.name = "Picky",
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "y"}},
          .types = {{"T", kWideFloatTypes}},
          .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
            return std::vector<Shape>{args.inputs[0]};
          },
          .not_differentiable = true,
          .elementwise = true,
          .kernels = {{"CPU", DType::kFloat32, make}}};
}

TEST_F(FuseElementwiseTest, AnOpOfTheUserIsFused) {
  registry_.Add(Picky());
  constexpr int64_t kSize = 100'003;
  const Output x = Input({kSize});
  const Output y = ops::Neg(root_, root_.Add("Picky", {ops::Abs(root_, x)}));
  Open("cpu:1", kFuse);
  const auto step = Prepare({{x, {kSize}}}, {y});
  EXPECT_THAT(Members(step->plan(), y.node->name()), ElementsAre("Abs", "Picky", "Neg"));
  Tensor in = Ramp({kSize});
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(step->Run({in}).ok());
    for (int64_t i = 0; i < kSize; ++i) {
      ASSERT_EQ(step->fetched(0).data<float>()[i], -(std::abs(in.data<float>()[i]) + 1)) << i;
    }
    in.data<float>()[turn * 50'000] = -13;
    const std::string message(step->Run({in}).message());
    EXPECT_THAT(message, AllOf(HasSubstr("an unlucky number [in node 'Picky' (op Picky"), HasSubstr("(op _Elementwise"),
                               HasSubstr("of Abs, Picky, Neg")));
    in.data<float>()[turn * 50'000] = 0;
  }
}

// The op declares that it works in place, but its kernel does not.
TEST_F(FuseElementwiseTest, AKernelMayNotRefuseToWorkInPlace) {
  OpDef stubborn = Picky();
  stubborn.name = "Stubborn";
  stubborn.in_place = {{0, 0}};
  stubborn.kernels[0].make = [make = stubborn.kernels[0].make](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    absl::StatusOr<Kernel> kernel = make(spec);
    if (kernel.ok()) kernel->in_place = false;
    return kernel;
  };
  registry_.Add(stubborn);
  const Output x = Input({100'003});
  const Output y = ops::Neg(root_, root_.Add("Stubborn", {ops::Abs(root_, x)}));
  Open("cpu:1", kFuse);
  EXPECT_THAT(
      session_->Prepare({{x, {100'003}}}, {y}, {}).status(),
      StatusIs(absl::StatusCode::kUnimplemented, AllOf(HasSubstr("must work in place"), HasSubstr("Stubborn"))));
}

// Random graphs of element-wise ops of all kinds, with variables that the step updates, on several devices.
class RandomElementwise {
 public:
  RandomElementwise(const Scope& scope, int devices, const Shape& shape, uint64_t seed)
      : scope_(scope), devices_(devices), shape_(shape), random_(seed) {
    for (DType dtype : kTypes) {
      inputs.push_back(ops::Placeholder(Anywhere(), DType::kFloat32, shape_));
      values_.push_back(ops::Cast(Anywhere(), inputs.back(), dtype));
      if (!IsFloating(dtype)) continue;
      places_.push_back(Anywhere());
      variables.push_back(GetVariable(places_.back(), absl::StrCat("v_", DTypeName(dtype)), shape_,
                                      ConstantInitializer(0.5), {.dtype = dtype}));
      values_.push_back(variables.back().value());
      slots_.push_back(GetVariable(places_.back(), absl::StrCat("slot_", DTypeName(dtype)), shape_,
                                   ConstantInitializer(0), {.dtype = dtype}));
    }
  }

  void Grow() {
    const Output x = Some();
    const Scope scope = Somewhere();
    switch (Pick(20)) {
      case 0: return Add(ops::Neg(scope, x));
      case 1: return Add(ops::Square(scope, x));
      case 2: return Add(IsFloating(x.dtype()) ? ops::Tanh(scope, x) : ops::Abs(scope, x));
      case 3: return Add(IsFloating(x.dtype()) ? ops::Exp(scope, x) : ops::Sign(scope, x));
      case 4: return Add(IsFloating(x.dtype()) ? ops::Gelu(scope, x) : x);
      case 5: return Add(IsFloating(x.dtype()) ? ops::Sigmoid(scope, x) : x);
      case 6: return Add(ops::Add(scope, x, Like(x)));
      case 7: return Add(ops::Sub(scope, Like(x), x));
      case 8: return Add(ops::Mul(scope, x, ops::Cast(scope, ops::Const(scope, 0.75f), x.dtype())));
      case 9: return Add(ops::Maximum(scope, x, Like(x)));
      case 10: return Add(ops::AddN(scope, {x, Like(x), Like(x)}));
      case 11: return Add(ops::Select(scope, ops::Greater(scope, x, Like(x)), Like(x), x));
      case 12: return Add(ops::Cast(scope, x, kTypes[Pick(std::size(kTypes))]));
      case 13: return Add(ops::Reshape(scope, ops::Neg(scope, ops::Reshape(scope, x, {shape_.elements()})), shape_));
      case 14: return Add(ops::Add(scope, x, ops::Sum(scope, Like(x))));
      case 15: return Update(scope);
      case 16: return Add(ops::BroadcastLike(scope, ops::Sum(scope, x), Some()));
      case 17: {
        if (shape_.rank() < 2) return Add(ops::Neg(scope, x));
        const Output row = ops::Sum(scope, x, {0});
        if (IsFloating(x.dtype()) && Pick(2) == 0) return Add(ops::BiasAdd(scope, x, row));
        return Add(Pick(2) == 0 ? ops::Sub(scope, row, x) : ops::BroadcastTo(scope, row, shape_));
      }
      case 18: {
        const int last = shape_.rank() - 1;
        const Output each = last < 0 ? ops::Sum(scope, x) : ops::Max(scope, x, {last}, /*keep_dims=*/true);
        return Add(ops::Maximum(scope, x, each));
      }
      case 19: return Descend(scope);
    }
  }

  std::vector<Output> Fetches() {
    std::vector<Output> fetches = {values_.back()};
    while (Pick(5) > 0) fetches.push_back(Some());
    return fetches;
  }
  std::vector<Tensor> Feeds() {
    std::vector<Tensor> feeds;
    for (size_t k = 0; k < inputs.size(); ++k) {
      Tensor& feed = feeds.emplace_back(DType::kFloat32, shape_);
      std::uniform_real_distribution<float> number(-3, 3);
      for (int64_t i = 0; i < feed.elements(); ++i) feed.data<float>()[i] = number(random_);
    }
    return feeds;
  }

  std::vector<Output> inputs;
  std::vector<Variable> variables;
  std::vector<const Node*> updates;

 private:
  static constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                                     DType::kInt32};

  size_t Pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  Scope Anywhere() { return scope_.Device(absl::StrCat("/cpu:", Pick(devices_))); }
  // A scope sometimes after another node, mostly on the device of the one before.
  Scope Somewhere() {
    if (Pick(8) == 0 || !last_.has_value()) last_ = Anywhere();
    if (Pick(10) > 0) return *last_;
    const std::vector<const Node*>& after = updates;
    return after.empty() || Pick(2) == 0 ? last_->ControlDependencies({Some()})
                                         : last_->ControlDependencies({after[Pick(after.size())]});
  }
  Output Some() {
    const size_t late = std::min<size_t>(values_.size(), 6);
    return Pick(3) > 0 ? values_[values_.size() - 1 - Pick(late)] : values_[Pick(values_.size())];
  }
  Output Like(Output x) {
    for (int i = 0; i < 8; ++i) {
      const Output y = Some();
      if (y.dtype() == x.dtype()) return y;
    }
    return x;
  }
  void Add(Output y) { values_.push_back(y); }
  void Update(const Scope& scope) {
    const size_t at = Pick(variables.size());
    const Variable& variable = variables[at];
    const Output by = ops::Cast(scope, ops::Tanh(scope, ops::Cast(scope, Some(), DType::kFloat32)), variable.dtype());
    const Output updated = ops::AssignAdd(places_[at], variable, by);
    updates.push_back(updated.node);
    if (Pick(2) == 0) Add(updated);
  }

  // Updates a variable by a rule with a slot; only the variable is read elsewhere.
  void Descend(const Scope& scope) {
    const size_t at = Pick(variables.size());
    const Output value = ops::Tanh(scope, ops::Cast(scope, Some(), DType::kFloat32));
    const Output by = ops::Cast(scope, value, variables[at].dtype()), rate = ops::Const(places_[at], 0.125f);
    updates.push_back(
        ops::ApplyMomentum(places_[at], variables[at], slots_[at], rate, by, {.weight_decay = 0.25}).node);
  }

  const Scope scope_;
  const int devices_;
  const Shape shape_;
  std::mt19937_64 random_;
  std::vector<Scope> places_;    // by variable
  std::vector<Variable> slots_;  // by variable
  std::optional<Scope> last_;
  std::vector<Output> values_;
};

class RandomElementwiseTest : public SessionFixture, public testing::WithParamInterface<int> {};

TEST_P(RandomElementwiseTest, IsBitEqualToTheOpsOneByOne) {
  const Shape shapes[] = {{}, {1}, {7}, {0, 3}, {1, 33}, {257}, {40, 33}, {30'011}, {500, 64}};
  const int seed = GetParam(), devices = 1 + seed % 3;
  const Shape& shape = shapes[seed / 3 % std::size(shapes)];
  RandomElementwise random(root_, devices, shape, seed);
  for (int i = 0; i < 60; ++i) random.Grow();
  const std::vector<Output> fetches = random.Fetches();
  const std::vector<Tensor> feeds = random.Feeds();
  const Node* init = InitializeVariables(root_);
  std::vector<FeedSpec> specs;
  for (const Output& input : random.inputs) specs.push_back({input, shape});

  std::vector<Tensor> results[2];
  for (const bool fuse : {false, true}) {
    Open(absl::StrCat("cpu:", devices), {.fuse = fuse, .fuse_elementwise_from = 0});
    ASSERT_TRUE(session_->RunTarget(init).ok());
    const auto step = session_->Prepare(specs, fetches, random.updates);
    if (!step.ok()) {
      // Two variables whose updates wait for each other: an error with and without fusion.
      ASSERT_THAT(step.status().message(), HasSubstr("has a cycle")) << step.status();
      continue;
    }
    EXPECT_EQ(VerifyPlan((*step)->plan()).status(), absl::OkStatus());
    EXPECT_TRUE(execution::OrdersAllAccesses((*step)->plan()) && execution::OrdersDependences((*step)->plan()));
    EXPECT_TRUE(fuse || Count((*step)->plan(), kPass) == 0);
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ((*step)->Run(feeds), absl::OkStatus());
      for (size_t i = 0; i < fetches.size(); ++i)
        results[fuse].push_back((*step)->fetched(static_cast<int>(i)).Clone());
    }
    for (const Variable& variable : random.variables) results[fuse].push_back(*session_->ReadVariable(variable));
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(SameBits(results[0][i], results[1][i]))
        << "fetch " << i % fetches.size() << " of run " << i / fetches.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomElementwiseTest, testing::Range(0, 108));

}  // namespace
}  // namespace belfry
