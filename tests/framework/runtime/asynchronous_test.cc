// Sessions on asynchronous devices: results equal those of a CPU device bit by bit, in whatever order the streams
// progress.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/saver.h"
#include "framework/runtime/session.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/layers/losses.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/random.h"
#include "ops/state.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/main/testing.h"
#include "tests/models/classified_fields.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The averager for a session's kind of devices.
absl::StatusOr<std::unique_ptr<Collective>> MakeCollective(CollectiveSpec spec) {
  return spec.participants[0]->type() == "GPU" ? MakeFakeGpuCollective(std::move(spec))
                                               : MakeLocalCollective(std::move(spec));
}

class AsynchronousTest : public testing::Test {
 protected:
  AsynchronousTest() {
    // Blocks until it is opened, then passes its input on.
    registry_.Add({.name = "Gate",
                   .inputs = {{.name = "x"}},
                   .outputs = {{.name = "y"}},
                   .types = {{"T", kWideFloatTypes}},
                   .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
                     return std::vector<Shape>{args.inputs[0]};
                   },
                   .not_differentiable = true,
                   .stateful = true,
                   .kernels = {{"CPU", DType::kFloat32, [this](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                                  return Kernel{[this, bytes = spec.outputs[0].bytes()](const KernelContext& at) {
                                    ++arrived_;
                                    while (closed_) std::this_thread::yield();
                                    std::memcpy(at.outputs[0], at.inputs[0], bytes);
                                    ++passed_;
                                    return absl::OkStatus();
                                  }};
                                }}}});
    AddFakeGpuKernels(registry_);
    graph_ = std::make_unique<Graph>(registry_);
  }

  Scope Root() { return Scope(*graph_); }
  Scope Gpu(int i) { return Root().Device(absl::StrCat("/gpu:", i)); }

  void Open(int gpus) {
    devices_ = OpenFakeGpus(gpus);
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(*graph_, devices_, {.collectives = MakeCollective}));
  }
  void Initialize() { ASSERT_EQ(session_->RunTarget(InitializeVariables(Root())), absl::OkStatus()); }

  std::atomic<bool> closed_{false};
  std::atomic<int> arrived_{0}, passed_{0};
  OpRegistry registry_ = BuiltinOps();
  std::unique_ptr<Graph> graph_;
  DeviceSet devices_;
  std::unique_ptr<Session> session_;
};

TEST_F(AsynchronousTest, FeedsConstantsAndFetchesCrossByThemselves) {
  const Output x = ops::Placeholder(Gpu(0), DType::kFloat32, {Shape::kUnknown});
  const Output y = ops::Mul(Gpu(0), x, ops::Const(Gpu(0), {2.f, 3.f}));
  const Output moved = ops::Neg(Root().Device("/cpu:0"), y);  // from a GPU to the CPU
  const Output back = ops::Square(Gpu(1), moved);             // and to another GPU
  const Output nothing = ops::Slice(Gpu(1), back, {0}, {0});
  Open(2);
  for (float value : {1.f, 5.f}) {
    ASSERT_OK_AND_ASSIGN(auto result,
                         session_->Run({{x, Tensor::Of<float>({value, 1})}}, {y, moved, back, x, nothing}));
    EXPECT_THAT(result[0].ToDoubles(), ElementsAre(2 * value, 3));
    EXPECT_THAT(result[1].ToDoubles(), ElementsAre(-2 * value, -3));
    EXPECT_THAT(result[2].ToDoubles(), ElementsAre(4 * value * value, 9));
    EXPECT_THAT(result[3].ToDoubles(), ElementsAre(value, 1));
    EXPECT_EQ(result[4].shape(), Shape({0}));
  }
}

// Nothing but copies on the first GPU, which has no kernel to run.
TEST_F(AsynchronousTest, OtherDevicesWaitForFeeds) {
  const Output x = ops::Placeholder(Gpu(0), DType::kFloat32, {2, 500});
  const Output flat = ops::Reshape(Gpu(0), x, {1000});
  const Output on_cpu = ops::Sum(Root().Device("/cpu:0"), x), on_gpu = ops::Sum(Gpu(1), flat);
  Open(2);
  for (const std::vector<Output>& fetches : {std::vector<Output>{on_cpu}, {on_gpu}, {on_cpu, on_gpu}}) {
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {2, 500}}}, fetches));
    for (int i = 1; i < 20; ++i) {
      Tensor value(DType::kFloat32, {2, 500});
      std::fill_n(value.data<float>(), 1000, static_cast<float>(i));
      ASSERT_EQ(step->Run({value}), absl::OkStatus());
      for (size_t k = 0; k < fetches.size(); ++k) {
        ASSERT_EQ(step->fetched(static_cast<int>(k)).scalar<float>(), 1000.f * static_cast<float>(i));
      }
    }
  }
}

TEST_F(AsynchronousTest, RechecksAreForCpus) {
  const Output x = ops::RandomUniform(Root().Device("/cpu:0"), {4}), y = ops::Neg(Gpu(0), x);
  devices_ = OpenFakeGpus(1);
  const auto session = Session::Create(*graph_, devices_, {.recheck = 0.5}).value();
  EXPECT_TRUE(session->Run({x}).ok());
  EXPECT_THAT(
      session->Run({y}).status(),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("on CPU devices only, and this step uses /job:localhost/")));
}

TEST_F(AsynchronousTest, VariablesAreReadAndWritten) {
  const Variable v = GetVariable(Gpu(1), "v", {2}, ConstantInitializer(3));
  const Output add = ops::AssignAdd(Gpu(1), v, ops::Const(Gpu(1), {1.f, 2.f}));
  Open(2);
  EXPECT_FALSE(session_->ReadVariable(v).ok());
  Initialize();
  ASSERT_TRUE(session_->RunTarget(add.node).ok());
  EXPECT_THAT(session_->ReadVariable(v)->ToDoubles(), ElementsAre(4, 5));
  ASSERT_TRUE(session_->WriteVariable(v, Tensor::Of<float>({7, 8})).ok());
  ASSERT_TRUE(session_->RunTarget(add.node).ok());
  EXPECT_THAT(session_->ReadVariable(v)->ToDoubles(), ElementsAre(8, 10));
}

TEST_F(AsynchronousTest, ASnapshotComesAfterTheStepsThatAreUnderWay) {
  const Variable v = GetVariable(Gpu(0), "v", {2}, ConstantInitializer(3));
  const Variable w = GetVariable(Gpu(1).Replica(1), "v", {2}, ConstantInitializer(3));
  const Output step = ops::AssignAdd(Gpu(0), v, Gpu(0).Add("Gate", {ops::Const(Gpu(0), {1.f, 2.f})}));
  Open(2);
  Initialize();
  EXPECT_EQ(CheckReplicas(*session_, 2), absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(auto prepared, session_->Prepare({}, {}, {step.node}));
  closed_ = true;
  ASSERT_TRUE(prepared->Run().ok());
  std::thread opener([&] {
    while (arrived_ == 0) std::this_thread::yield();
    closed_ = false;
  });
  Snapshot snapshot;
  EXPECT_EQ(snapshot.Take(*session_), absl::OkStatus());
  opener.join();
  ASSERT_EQ(snapshot.tensors().size(), 1u);
  EXPECT_THAT(snapshot.tensors()[0].value.ToDoubles(), ElementsAre(4, 5));
  EXPECT_TRUE(absl::IsDataLoss(CheckReplicas(*session_, 2)));
  ASSERT_TRUE(Restore(*session_, "the snapshot", snapshot.tensors()).ok());
  for (const Variable& replica : {v, w}) {
    EXPECT_THAT(session_->ReadVariable(replica)->ToDoubles(), ElementsAre(4, 5));
  }
}

TEST_F(AsynchronousTest, TheHostRunsAheadOfTheDevice) {
  const Output x = ops::Placeholder(Gpu(0), DType::kFloat32, {});
  const Output y = Gpu(0).Add("Gate", {ops::Neg(Gpu(0), x)});
  Open(1);
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {}}}, {y}));
  closed_ = true;
  ASSERT_TRUE(step->Run({Tensor::Scalar(1.f)}).ok());
  ASSERT_TRUE(step->Run({Tensor::Scalar(2.f)}).ok());
  EXPECT_LE(arrived_, 1) << "two runs are under way, and the first is not done";
  // The third run waits until the first is done.
  std::thread opener([&] {
    while (arrived_ == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    closed_ = false;
  });
  ASSERT_TRUE(step->Run({Tensor::Scalar(3.f)}).ok());
  EXPECT_GE(passed_, 1);
  opener.join();
  EXPECT_EQ(step->fetched(0).scalar<float>(), -3) << "fetched waits";
  EXPECT_EQ(passed_, 3);
}

TEST_F(AsynchronousTest, AStepThatIsGivenUpIsWaitedFor) {
  const Variable v = GetVariable(Gpu(0), "v", {}, ConstantInitializer(1));
  const Output add = ops::AssignAdd(Gpu(0), v, Gpu(0).Add("Gate", {ops::Const(Gpu(0), 1.0f)}));
  Open(1);
  Initialize();
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({}, {}, {add.node}));
  closed_ = true;
  ASSERT_TRUE(step->Run().ok());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    closed_ = false;
  });
  step.reset();
  EXPECT_EQ(session_->ReadVariable(v)->scalar<float>(), 2);
  opener.join();
}

TEST_F(AsynchronousTest, ErrorsOfTheDeviceComeLaterAndPass) {
  const Output x = ops::Placeholder(Gpu(0), DType::kFloat32, {});
  const Output y = ops::CheckNumerics(Gpu(0), x, "the gradient");
  Open(1);
  const auto failed = session_->Run({{x, Tensor::Scalar(NAN)}}, {y});
  EXPECT_THAT(failed.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the gradient")));
  EXPECT_THAT(failed.status().message(), HasSubstr("GPU:0"));
  EXPECT_TRUE(session_->Run({{x, Tensor::Scalar(1.f)}}, {y}).ok());

  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {}}}, {y}));
  ASSERT_TRUE(step->Run({Tensor::Scalar(NAN)}).ok());
  EXPECT_FALSE(step->Wait().ok());
  EXPECT_TRUE(step->Wait().ok());
  ASSERT_TRUE(step->Run({Tensor::Scalar(2.f)}).ok());
  EXPECT_EQ(step->fetched(0).scalar<float>(), 2);
}

// Writes and reads of steps follow the steps' order, although different executables run them and nothing waits between
// them.
TEST_F(AsynchronousTest, StepsFollowEachOtherOnTheDevices) {
  const Variable a = GetVariable(Gpu(0), "a", {1000}, ZerosInitializer());
  const Output add = ops::AssignAdd(Gpu(0), a, ops::OnesLike(Gpu(0), a));
  const Output moved = ops::Identity(Gpu(1), ops::Scale(Gpu(1), a, 2));  // GPU 1 reads the memory of GPU 0
  const Variable b = GetVariable(Gpu(1), "b", {1000}, ZerosInitializer());
  const Output copy = ops::Assign(Gpu(1), b, moved);
  Open(2);
  Initialize();
  auto first = session_->Prepare({}, {}, {add.node}), second = session_->Prepare({}, {}, {copy.node});
  ASSERT_TRUE(first.ok() && second.ok());
  for (int i = 1; i <= 200; ++i) {
    ASSERT_TRUE((*first)->Run().ok());
    ASSERT_TRUE((*second)->Run().ok());
    ASSERT_TRUE((*first)->Run().ok());
    if (i % 20 != 0) continue;
    const Tensor value = *session_->ReadVariable(b);
    for (int k = 0; k < 1000; ++k) ASSERT_EQ(value.data<float>()[k], 2.0f * (2 * i - 1));
  }
}

TEST_F(AsynchronousTest, ManyThreads) {
  const Variable v = GetVariable(Gpu(0), "v", {}, ZerosInitializer());
  const Output add = ops::AssignAdd(Gpu(0), v, ops::Identity(Gpu(1), ops::Const(Gpu(1), 1.0f)));
  const Output x = ops::Placeholder(Gpu(1), DType::kFloat32, {});
  const Output y = ops::Square(Gpu(1), x);
  Open(2);
  Initialize();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(session_->RunTarget(add.node).ok());
        const auto value = static_cast<float>(30 * t + i);
        ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x, Tensor::Scalar(value)}}, {y}));
        ASSERT_EQ(result[0].scalar<float>(), value * value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session_->ReadVariable(v)->scalar<float>(), 120);
}

TEST_F(AsynchronousTest, AFailureOnTheHostIsRecoveredFrom) {
  const Output x = ops::Placeholder(Root().Device("/cpu:0"), DType::kFloat32, {});
  const Output checked = ops::CheckNumerics(Root().Device("/cpu:0"), x, "x");
  std::vector<Output> sums;
  for (int i = 0; i < 2; ++i) {
    sums.push_back(ops::AllReduceSum(Gpu(i), {.group = "g", .rank = i, .size = 2},
                                     {ops::Add(Gpu(i), checked, ops::Const(Gpu(i), 1.0f))})[0]);
  }
  Open(2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(session_->Run({{x, Tensor::Scalar(NAN)}}, sums).ok());
    ASSERT_OK_AND_ASSIGN(auto result, session_->Run({{x, Tensor::Scalar(2.f)}}, sums));
    EXPECT_EQ(result[1].scalar<float>(), 6);
  }
}

// The CPU fails when the GPU has copied its fetch to the host.
TEST_F(AsynchronousTest, FailedRunsKeepTheFetchesOfTheLastGoodOne) {
  const Scope cpu = Root().Device("/cpu:0");
  const Output x = ops::Placeholder(Gpu(0), DType::kFloat32, {});
  const Output y = ops::Neg(Gpu(0), x);
  const Output z = ops::Placeholder(cpu, DType::kFloat32, {});
  const Output checked = ops::CheckNumerics(cpu, cpu.Add("Gate", {z}), "z");
  Open(1);
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {}}, {z, {}}}, {y}, {checked.node}));
  ASSERT_TRUE(step->Run({Tensor::Scalar(1.f), Tensor::Scalar(0.f)}).ok());
  for (float value : {2.f, 3.f, 4.f}) {
    arrived_ = 0;
    closed_ = true;
    std::thread opener([&] {
      while (arrived_ == 0) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      closed_ = false;
    });
    EXPECT_FALSE(step->Run({Tensor::Scalar(value), Tensor::Scalar(NAN)}).ok());
    opener.join();
  }
  EXPECT_EQ(step->fetched(0).scalar<float>(), -1);
  ASSERT_TRUE(step->Run({Tensor::Scalar(5.f), Tensor::Scalar(0.f)}).ok());
  EXPECT_EQ(step->fetched(0).scalar<float>(), -5);
}

// Thread 1 runs a step; thread 2 evicts another one, which waits until the first is done.
TEST_F(AsynchronousTest, OtherCallsGoOnWhileAnEvictedStepWaits) {
  const Scope cpu = Root().Device("/cpu:0");
  const Output slow = cpu.Add("Gate", {ops::Const(cpu, 1.0f)});
  const Output x = ops::Const(Gpu(0), 1.0f), y = ops::Neg(Gpu(0), x), z = ops::Square(Gpu(0), x);
  devices_ = OpenFakeGpus(1);
  session_ = Session::Create(*graph_, devices_, {.plan_cache_bytes = 1}).value();
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({}, {slow}));
  ASSERT_TRUE(session_->Run({y}).ok());
  closed_ = true;
  std::thread runner([&] { EXPECT_TRUE(step->Run().ok()); });
  while (arrived_ == 0) std::this_thread::yield();
  std::thread evicting([&] { EXPECT_TRUE(session_->Prepare({}, {z}).ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::atomic<bool> answered = false;
  std::thread asking([&] {
    EXPECT_TRUE(session_->DeviceOf(*y.node).ok());
    answered = true;
  });
  for (int i = 0; i < 1000 && !answered; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(answered);
  closed_ = false;
  for (std::thread* thread : {&runner, &evicting, &asking}) thread->join();
}

struct Case {
  models::VariableUpdate update;
  models::BatchNormPolicy batch_norm;
};

class AsynchronousTowers : public AsynchronousTest, public testing::WithParamInterface<Case> {
 protected:
  static absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
    Output x = models::Conv2D(tower, "conv", batch["image"], 5, 3);
    x = ops::Relu(tower, models::BatchNorm(tower, "bn", x));
    x = models::Dropout(tower, "dropout", models::Flatten(tower, x), 0.3, true);
    models::AddCrossEntropy(tower, models::Dense(tower, "logits", x, 3, {.weight_decay = 0.01}), batch["label"]);
    return models::TotalLoss(tower);
  }

  // The losses of several steps, and the weights after them.
  std::vector<std::vector<double>> Train(const DeviceSet& devices, bool replay = true) {
    Graph graph(registry_);
    graph.set_seed(5);
    const models::TrainStep step = models::ReplicateTowers(
        Scope(graph), devices, models::ClassifiedFields({6, 5, 2}), Loss,
        optim::Momentum({.learning_rate = 0.1, .momentum = 0.9}),
        {.variable_update = GetParam().update, .batch_norm = GetParam().batch_norm, .bucket_bytes = 256});
    auto session = Session::Create(graph, devices, {.collectives = MakeCollective, .replay = replay});
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok() || !(*session)->RunTarget(step.initialize).ok()) return {};
    std::vector<FeedSpec> specs;
    for (const models::TrainTower& tower : step.towers) {
      specs.push_back({tower.batch["image"], {4, 6, 5, 2}});
      specs.push_back({tower.batch["label"], {4}});
    }
    auto prepared = (*session)->Prepare(specs, {step.loss}, {step.update});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    if (!prepared.ok()) return {};
    std::minstd_rand random(7);
    std::vector<std::vector<double>> result(1);
    for (int i = 0; i < 24; ++i) {
      std::vector<Tensor> feeds;
      for (const FeedSpec& spec : specs) {
        feeds.emplace_back(spec.output.dtype(), spec.shape);
        for (int64_t k = 0; k < feeds.back().elements(); ++k) {
          const auto number = static_cast<int>(random() % 1000);
          if (spec.output.dtype() == DType::kInt32) {
            feeds.back().data<int32_t>()[k] = number % 3;
          } else {
            feeds.back().data<float>()[k] = static_cast<float>(number) / 500 - 1;
          }
        }
      }
      EXPECT_EQ((*prepared)->Run(feeds), absl::OkStatus());
      if (i % 6 == 5) result[0].push_back((*prepared)->fetched(0).template scalar<float>());
    }
    const bool only_gpus = devices.size() > static_cast<int>(devices.TowerDevices().size()) &&
                           GetParam().update != models::VariableUpdate::kParameterDevice;
    EXPECT_EQ((*prepared)->replays(), replay && only_gpus);
    for (const models::TrainTower& tower : step.towers) {
      for (const Variable& variable : tower.variables)
        result.push_back((*session)->ReadVariable(variable)->ToDoubles());
    }
    return result;
  }
};

TEST_P(AsynchronousTowers, TrainAsOnCpus) {
  const auto expected = Train(DeviceSet::Open("cpu:3", {.cpu_threads = 1}).value());
  ASSERT_GT(expected.size(), 1u);
  EXPECT_EQ(expected[0].size(), 4u);
  for (int repeat = 0; repeat < 4; ++repeat) EXPECT_EQ(Train(OpenFakeGpus(3), repeat % 2 == 0), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Updates, AsynchronousTowers,
    testing::Values(Case{models::VariableUpdate::kReplicated, models::BatchNormPolicy::kPerTower},
                    Case{models::VariableUpdate::kReplicated, models::BatchNormPolicy::kSynchronised},
                    Case{models::VariableUpdate::kParameterDevice, models::BatchNormPolicy::kPerTower},
                    Case{models::VariableUpdate::kIndependent, models::BatchNormPolicy::kPerTower}));

// Large enough to be fed ahead, alternating between two buffers, while earlier steps still run.
TEST_F(AsynchronousTest, LargeFeedsDoNotOverwriteEachOther) {
  constexpr int64_t kElements = 40'000;
  static_assert(kElements * sizeof(float) > kFedAheadBytes);
  std::vector<Output> xs;
  std::vector<Variable> sums;
  std::vector<const Node*> targets;
  for (int gpu = 0; gpu < 2; ++gpu) {
    xs.push_back(ops::Placeholder(Gpu(gpu), DType::kFloat32, {kElements}));
    sums.push_back(GetVariable(Gpu(gpu), absl::StrCat("sum", gpu), {kElements}, ConstantInitializer(0)));
    // The first target reads its feed late.
    Output late = xs[gpu];
    for (int i = 0; i < 5; ++i) late = ops::Neg(Gpu(gpu), ops::Neg(Gpu(gpu), late));
    targets.push_back(ops::AssignAdd(Gpu(gpu), sums[gpu], late).node);
  }
  const Output small = ops::Placeholder(Gpu(0), DType::kFloat32, {2});
  const Output seen = ops::Sum(Gpu(0), small);
  Open(2);
  Initialize();
  ASSERT_OK_AND_ASSIGN(auto step,
                       session_->Prepare({{xs[0], {kElements}}, {xs[1], {kElements}}, {small, {2}}}, {seen}, targets));
  std::vector<float> expected(2, 0);
  constexpr int kSteps = 30;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Tensor> feeds;
    for (int gpu = 0; gpu < 2; ++gpu) {
      feeds.emplace_back(DType::kFloat32, Shape{kElements});
      std::fill_n(feeds[gpu].data<float>(), kElements, static_cast<float>(1 + i + 100 * gpu));
      expected[gpu] += static_cast<float>(1 + i + 100 * gpu);
    }
    feeds.push_back(Tensor::Of<float>({static_cast<float>(i), 1}));
    ASSERT_EQ(step->Run(feeds), absl::OkStatus());
    if (i % 7 == 0) {
      EXPECT_EQ(step->fetched(0).scalar<float>(), static_cast<float>(i + 1));
    }
  }
  EXPECT_TRUE(step->replays());
  for (int gpu = 0; gpu < 2; ++gpu) {
    ASSERT_OK_AND_ASSIGN(const auto value, session_->ReadVariable(sums[gpu]));
    for (int64_t k = 0; k < kElements; ++k) ASSERT_EQ(value.data<float>()[k], expected[gpu]) << k;
  }
}

}  // namespace
}  // namespace belfry
