#include "framework/runtime/saver.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "framework/base/half.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/safetensors.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/state.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/io/io_testing.h"
#include "tests/framework/runtime/checkpoint_fixture.h"

namespace belfry {
namespace {

using absl::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> NamesOf(absl::Span<const io::NamedTensor> tensors) {
  std::vector<std::string> names;
  for (const io::NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::vector<io::NamedTensor> TensorsOf(Training& training) {
  Snapshot snapshot;
  EXPECT_EQ(snapshot.Take(*training.session), absl::OkStatus());
  return {snapshot.tensors().begin(), snapshot.tensors().end()};
}

TEST(Saver, ASnapshotHasAllThatOutlivesAStepByItsLogicalName) {
  Training training(2);
  training.Initialize();
  training.Steps(0, 2);
  const auto tensors = TensorsOf(training);
  std::vector<std::string> expected = {"global_step", "norm/moving_mean", "norm/moving_variance"};
  for (const char* name :
       {"hidden/weights", "hidden/biases", "norm/gamma", "norm/beta", "logits/weights", "logits/biases"}) {
    for (const char* slot : {"", "/Momentum", "/ExponentialMovingAverage"}) {
      expected.push_back(std::string(name) + slot);
    }
  }
  EXPECT_THAT(NamesOf(tensors), testing::UnorderedElementsAreArray(expected));
  for (const io::NamedTensor& tensor : tensors) {
    EXPECT_TRUE(SameBits(tensor.value, training.Value(tensor.name))) << tensor.name;
    if (tensor.name == "global_step") {
      EXPECT_EQ(tensor.value.scalar<int64_t>(), 2);
    }
  }
}

TEST(Saver, TrainingGoesOnBitForBitThroughAFile) {
  for (const int towers : {1, 2, 4}) {
    SCOPED_TRACE(towers);
    const TemporaryFolder folder;
    Training whole(towers), before(towers), after(towers, {.moving_average = 0.9}, /*seed=*/99);
    whole.Initialize();
    before.Initialize();
    const std::vector<float> first = whole.Steps(0, 3), second = whole.Steps(3, 6);
    EXPECT_EQ(before.Steps(0, 3), first);
    ASSERT_EQ(io::WriteSafetensors(folder / "file", TensorsOf(before)), absl::OkStatus());
    ASSERT_OK_AND_ASSIGN(const auto file, io::SafetensorsFile::Open(folder / "file"));
    ASSERT_EQ(Restore(*after.session, file.path(), ValueOf(file.ReadAll())).status(), absl::OkStatus());
    EXPECT_EQ(after.Steps(3, 6), second);
    for (const Variable& variable : whole.graph.variables()) {
      // Only tower 0's batch-norm statistics are saved.
      if (variable.replica() > 0 && !variable.trainable()) continue;
      EXPECT_TRUE(
          SameBits(whole.Value(variable.name(), variable.replica()), after.Value(variable.name(), variable.replica())))
          << variable.name();
    }
  }
}

TEST(Saver, AnyNumberOfTowersRestoresWhatAnyOtherSaved) {
  for (const int from : {1, 2, 4}) {
    Training saved(from);
    saved.Initialize();
    saved.Steps(0, 2);
    const auto tensors = TensorsOf(saved);
    for (const int to : {1, 2, 4}) {
      Training other(to);
      ASSERT_OK_AND_ASSIGN(const auto restored, Restore(*other.session, "memory", tensors));
      EXPECT_EQ(restored.restored.size(), tensors.size());
      EXPECT_THAT(restored.missing, IsEmpty());
      EXPECT_THAT(restored.extra, IsEmpty());
      for (const io::NamedTensor& tensor : tensors) {
        for (int replica = 0; replica < to; ++replica) {
          if (!other.Find(tensor.name, replica).valid()) continue;
          EXPECT_TRUE(SameBits(other.Value(tensor.name, replica), tensor.value)) << tensor.name << " " << replica;
        }
      }
      EXPECT_EQ(CheckReplicas(*other.session, to), absl::OkStatus());
    }
  }
}

TEST(Saver, OnlyWhatIsInitializedIsTaken) {
  Training training(2);
  Snapshot snapshot;
  ExpectError(snapshot.Take(*training.session), StatusCode::kFailedPrecondition, "initializ");
  ASSERT_EQ(training.session->WriteVariable(training.Find("norm/beta", 1), Tensor::Of<float>({1, 2, 3, 4, 5})),
            absl::OkStatus());
  ASSERT_EQ(snapshot.Take(*training.session), absl::OkStatus());
  EXPECT_THAT(NamesOf(snapshot.tensors()), ElementsAre("norm/beta"));
  ASSERT_EQ(training.session->WriteVariable(training.Find("norm/beta", 0), Tensor::Of<float>({5, 4, 3, 2, 1})),
            absl::OkStatus());
  ASSERT_EQ(snapshot.Take(*training.session), absl::OkStatus());
  EXPECT_THAT(snapshot.tensors()[0].value.span<float>(), ElementsAre(5, 4, 3, 2, 1));
}

TEST(Saver, ASnapshotUsesItsMemoryAgain) {
  Training training(1);
  training.Initialize();
  Snapshot snapshot;
  ASSERT_EQ(snapshot.Take(*training.session), absl::OkStatus());
  std::map<std::string, const void*> memory;
  for (const io::NamedTensor& tensor : snapshot.tensors()) memory[tensor.name] = tensor.value.raw();
  training.Step(0);
  ASSERT_EQ(snapshot.Take(*training.session), absl::OkStatus());
  for (const io::NamedTensor& tensor : snapshot.tensors()) {
    EXPECT_EQ(tensor.value.raw(), memory[tensor.name]);
    EXPECT_TRUE(SameBits(tensor.value, training.Value(tensor.name))) << tensor.name;
  }
}

TEST(Saver, ASnapshotIsOfOneMoment) {
  const DeviceSet devices = DeviceSet::Open("cpu:2").value();
  Graph graph(BuiltinOps());
  const Scope root(graph);
  std::vector<Variable> counters;
  std::vector<const Node*> updates;
  for (int i = 0; i < 8; ++i) {
    const Scope scope = root.Device("/cpu:" + std::to_string(i % 2));
    counters.push_back(GetVariable(scope, "counter" + std::to_string(i), {1000}, ZerosInitializer()));
    updates.push_back(ops::AssignAdd(scope, counters[i], ops::OnesLike(scope, counters[i])).node);
  }
  const Node *step = ops::Group(root, updates), *initialize = InitializeVariables(root);
  auto session = Session::Create(graph, devices).value();
  ASSERT_EQ(session->RunTarget(initialize), absl::OkStatus());
  std::atomic<bool> enough{false};
  std::atomic<int> steps{0};
  std::thread training([&] {
    for (; !enough; ++steps) EXPECT_EQ(session->RunTarget(step), absl::OkStatus());
  });
  Snapshot snapshot;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(snapshot.Take(*session), absl::OkStatus());
    const float first = snapshot.tensors()[0].value.span<float>()[0];
    for (const io::NamedTensor& tensor : snapshot.tensors()) {
      for (const float value : tensor.value.span<float>()) ASSERT_EQ(value, first);
    }
    for (const int done = steps; steps == done;) std::this_thread::yield();
  }
  enough = true;
  training.join();
}

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() {
    Training saved(1);
    saved.Initialize();
    saved.Steps(0, 2);
    tensors_ = TensorsOf(saved);
    training_.Initialize();
    before_ = TensorsOf(training_);
  }
  io::NamedTensor& At(const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& tensor) { return tensor.name == name; });
  }
  void Drop(const std::string& name) { tensors_.erase(tensors_.begin() + (&At(name) - tensors_.data())); }
  absl::StatusOr<Restored> Try(const RestoreOptions& options = {}) {
    return Restore(*training_.session, "some/file", tensors_, options);
  }
  void ExpectUntouched() {
    for (const io::NamedTensor& tensor : before_) EXPECT_TRUE(SameBits(training_.Value(tensor.name), tensor.value));
  }

  Training training_{2, {.moving_average = 0.9}, 77};
  std::vector<io::NamedTensor> tensors_, before_;
};

TEST_F(RestoreTest, WhatDoesNotFitIsListedAndNothingIsWritten) {
  Drop("norm/gamma");
  tensors_.push_back({"other/thing", Tensor::Scalar(1.0f)});
  At("logits/weights").value = Tensor::Zeros(DType::kFloat32, {5, 4});
  At("global_step").value = Tensor::Scalar(2.0f);
  ExpectError(Try().status(), StatusCode::kInvalidArgument, "some/file", "not in the file: norm/gamma\n",
              "only in the file: other/thing\n", "logits/weights (float32 [5,4], in the graph float32 [5,3])",
              "global_step (float32 [], in the graph int64 [])");
  ExpectUntouched();
  ExpectError(Try({.allow_missing = true, .allow_extra = true}).status(), StatusCode::kInvalidArgument,
              "logits/weights");
  ExpectUntouched();
}

// Each variable once, however many towers have it, and without the state of a training, which counts as missing in no
// file of weights.
TEST_F(RestoreTest, ListsAVariableOnce) {
  for (io::NamedTensor& tensor : tensors_) {
    if (tensor.name == "logits/weights" || tensor.name == "logits/biases") {
      tensor.value = Tensor::Zeros(DType::kFloat32, {7});
    }
  }
  std::string message(Try().status().message());
  for (const char* const name : {"logits/weights (", "logits/biases ("}) {
    EXPECT_EQ(message.find(name), message.rfind(name)) << message;
  }
  tensors_.clear();
  message = std::string(Try({.allow_missing = true}).status().message());
  EXPECT_THAT(message, testing::HasSubstr("not in the file: "));
  EXPECT_THAT(message, Not(testing::HasSubstr("global_step"))) << message;
  EXPECT_THAT(message, Not(testing::HasSubstr("Momentum"))) << message;
}

TEST_F(RestoreTest, LongListsAreCut) {
  for (int i = 0; i < 13; ++i) tensors_.push_back({"extra" + std::to_string(i), Tensor::Scalar(1.0f)});
  ExpectError(Try().status(), StatusCode::kInvalidArgument, "extra9 and 3 more");
  tensors_.clear();
  ExpectError(Try().status(), StatusCode::kInvalidArgument, "and 11 more");
  ExpectUntouched();
}

TEST_F(RestoreTest, MissingOnesKeepTheirValues) {
  Drop("norm/gamma");
  ExpectError(Try({.allow_extra = true}).status(), StatusCode::kInvalidArgument, "norm/gamma");
  ASSERT_OK_AND_ASSIGN(const auto restored, Try({.allow_missing = true}));
  EXPECT_THAT(restored.missing, ElementsAre("norm/gamma"));
  EXPECT_THAT(restored.restored, Not(Contains("norm/gamma")));
  for (int replica = 0; replica < 2; ++replica) {
    EXPECT_TRUE(SameBits(training_.Value("logits/weights", replica), At("logits/weights").value));
    EXPECT_TRUE(SameBits(training_.Value("norm/gamma", replica), Tensor::Of<float>({1, 1, 1, 1, 1})));
  }
}

TEST_F(RestoreTest, ExtraOnesAreLeftOut) {
  tensors_.push_back({"other", Tensor::Scalar(1.0f)});
  ExpectError(Try({.allow_missing = true}).status(), StatusCode::kInvalidArgument, "only in the file: other");
  ASSERT_OK_AND_ASSIGN(const auto restored, Try({.allow_extra = true}));
  EXPECT_THAT(restored.extra, ElementsAre("other"));
}

TEST_F(RestoreTest, APartIsRestored) {
  ASSERT_OK_AND_ASSIGN(const auto restored,
                       Try({.only = {"hidden/", "logit", "norm"}, .except = {"hidden/biases", "norm/moving_mean"}}));
  EXPECT_THAT(restored.restored, Contains("hidden/weights/Momentum"));
  for (const std::string& name : restored.restored) {
    EXPECT_THAT(name, testing::AnyOf(testing::StartsWith("hidden/weights"), testing::StartsWith("norm/")));
    EXPECT_NE(name, "norm/moving_mean");
    EXPECT_TRUE(SameBits(training_.Value(name, 0), At(name).value)) << name;
  }
  for (const io::NamedTensor& tensor : before_) {
    const bool left_out =
        std::find(restored.restored.begin(), restored.restored.end(), tensor.name) == restored.restored.end();
    if (left_out) {
      EXPECT_TRUE(SameBits(training_.Value(tensor.name), tensor.value)) << tensor.name;
    }
  }
  ExpectError(Try({.only = {"nowhere"}}).status(), StatusCode::kInvalidArgument, "none of the model's variables");
}

TEST_F(RestoreTest, NamesOfTheFileAreChanged) {
  for (io::NamedTensor& tensor : tensors_) {
    if (InScope(tensor.name, "hidden")) tensor.name = "encoder/body" + tensor.name.substr(6);
    if (InScope(tensor.name, "norm")) tensor.name = "encoder/" + tensor.name;
  }
  ExpectError(Try().status(), StatusCode::kInvalidArgument, "encoder/body/weights", "rename");
  ExpectError(Try({.renames = {{"encoder/bod", "hidden"}}}).status(), StatusCode::kInvalidArgument,
              "no tensor is left for the rename of 'encoder/bod' to 'hidden'", "in the file: ", "encoder/body/weights");
  ExpectError(Try({.renames = {{"encoder", ""}, {"encoder/body", "hidden"}}}).status(), StatusCode::kInvalidArgument,
              "no tensor is left for the rename of 'encoder/body'");
  ExpectError(Try({.renames = {{"encoder/body/weights", "logits/weights"}}}).status(), StatusCode::kInvalidArgument,
              "two tensors are named 'logits/weights");
  ExpectUntouched();
  ASSERT_OK_AND_ASSIGN(const auto restored, Try({.renames = {{"encoder/body/", "hidden"}, {"encoder", ""}}}));
  EXPECT_THAT(restored.restored, Contains("hidden/weights/Momentum"));
  EXPECT_TRUE(SameBits(training_.Value("hidden/weights", 1), At("encoder/body/weights").value));
  EXPECT_TRUE(SameBits(training_.Value("norm/gamma", 1), At("encoder/norm/gamma").value));
}

TEST_F(RestoreTest, TypesAreCastIfThatIsAsked) {
  const Tensor exact = At("logits/weights").value;
  Tensor wide(DType::kFloat64, exact.shape()), narrow(DType::kBFloat16, exact.shape());
  for (int64_t i = 0; i < exact.elements(); ++i) {
    wide.data<double>()[i] = exact.data<float>()[i];
    narrow.data<BFloat16>()[i] = static_cast<BFloat16>(exact.data<float>()[i]);
  }
  At("logits/weights").value = wide;
  ExpectError(Try().status(), StatusCode::kInvalidArgument,
              "logits/weights (float64 [5,3], in the graph float32 [5,3])");
  ASSERT_OK_AND_ASSIGN(const auto restored, Try({.cast = true}));
  EXPECT_THAT(restored.cast, ElementsAre("logits/weights"));
  EXPECT_TRUE(SameBits(training_.Value("logits/weights"), exact));
  At("logits/weights").value = narrow;
  ASSERT_TRUE(Try({.cast = true}).ok());
  const Tensor now = training_.Value("logits/weights");
  for (int64_t i = 0; i < exact.elements(); ++i) {
    EXPECT_EQ(now.data<float>()[i], static_cast<float>(narrow.data<BFloat16>()[i]));
  }
  // Numbers that count are no floating-point numbers.
  At("global_step").value = Tensor::Scalar(2.0f);
  ExpectError(Try({.cast = true}).status(), StatusCode::kInvalidArgument, "global_step");
}

TEST_F(RestoreTest, ACastThatOverflowsIsAnError) {
  Tensor wide(DType::kFloat64, {5, 3});
  for (int64_t i = 0; i < wide.elements(); ++i) wide.data<double>()[i] = static_cast<double>(i);
  wide.data<double>()[0] = std::numeric_limits<double>::infinity();  // stays what it is
  At("logits/weights").value = wide;
  EXPECT_TRUE(Try({.cast = true}).ok());
  const Tensor before = training_.Value("logits/weights");
  wide.data<double>()[7] = 1e300;
  At("logits/weights").value = wide;
  ExpectError(Try({.cast = true}).status(), StatusCode::kInvalidArgument, "would become infinite",
              "logits/weights (element 7 is 1e+300, but float32 is too small for it)");
  EXPECT_TRUE(SameBits(training_.Value("logits/weights"), before));
}

// By way of float32 it would be rounded to 1 + 2^-8 first, and this to the even neighbour, 1.
TEST(Restore, ACastToSixteenBitsRoundsOnce) {
  Graph graph(BuiltinOps());
  const Variable variable = GetVariable(Scope(graph), "w", {1}, ZerosInitializer(), {.dtype = DType::kBFloat16});
  const Node* const initialize = InitializeVariables(Scope(graph));
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices).value();
  ASSERT_TRUE(session->RunTarget(initialize).ok());
  const std::vector<io::NamedTensor> tensors = {{"w", Tensor::Of<double>({1 + 0x1p-8 + 0x1p-40})}};
  EXPECT_TRUE(Restore(*session, "file", tensors, {.cast = true}).ok());
  EXPECT_EQ(session->ReadVariable(variable)->ToDoubles(), std::vector<double>{1 + 0x1p-7});
}

TEST(Restore, ACastToSixteenBitsThatOverflowsIsAnError) {
  for (const auto& [dtype, large, most] : std::vector<std::tuple<DType, float, float>>{
           {DType::kFloat16, 7e4f, 65504.f}, {DType::kBFloat16, 3.4e38f, 3.38e38f}}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Variable variable = GetVariable(scope, "w", {2}, ZerosInitializer(), {.dtype = dtype});
    const Node* const initialize = InitializeVariables(scope);
    const DeviceSet devices = DeviceSet::Open("cpu:1").value();
    const auto session = Session::Create(graph, devices).value();
    ASSERT_TRUE(session->RunTarget(initialize).ok());
    std::vector<io::NamedTensor> tensors(1);
    tensors[0] = {"w", Tensor::Of<float>({1, -large})};
    EXPECT_THAT(Restore(*session, "file", tensors, {.cast = true}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("w (element 1 is -")));
    EXPECT_EQ(session->ReadVariable(variable)->ToDoubles(), std::vector<double>(2, 0));
    tensors[0] = {"w", Tensor::Of<float>({1, -most})};
    EXPECT_TRUE(Restore(*session, "file", tensors, {.cast = true}).ok());
  }
}

// Byte by byte as Python's library writes it: no metadata, names with dots, 16 bits.
TEST_F(RestoreTest, WeightsOfAFileThatAnotherProgramWrote) {
  const TemporaryFolder folder;
  const std::string header = R"({"enc.bias":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},)"
                             R"("enc.weight":{"dtype":"BF16","shape":[5,3],"data_offsets":[6,36]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header;
  for (const char* half : {"\x00\x3c", "\x00\xc0", "\x00\x38"}) bytes.append(half, 2);  // 1, -2, 0.5
  for (int i = 0; i < 15; ++i) bytes.append("\xc0\x3f", 2);                             // 1.5
  folder.Write("python.safetensors", bytes);
  const std::string path = folder / "python.safetensors";
  ExpectError(io::LoadCheckpoint(path).status(), StatusCode::kInvalidArgument, "belfry.step", "ReadSafetensors");
  tensors_ = ValueOf(io::ReadSafetensors(path));
  ASSERT_OK_AND_ASSIGN(const auto restored,
                       Try({.renames = {{"enc.weight", "logits/weights"}, {"enc.bias", "logits/biases"}},
                            .cast = true,
                            .allow_missing = true}));
  EXPECT_THAT(restored.restored, testing::UnorderedElementsAre("logits/weights", "logits/biases"));
  EXPECT_TRUE(SameBits(training_.Value("logits/biases", 1), Tensor::Of<float>({1, -2, 0.5})));
  EXPECT_EQ(training_.Value("logits/weights", 1).ToDoubles(), std::vector<double>(15, 1.5));
}

TEST_F(RestoreTest, AWarmStartWithoutAnyWeightIsAnError) {
  for (io::NamedTensor& tensor : tensors_) {
    if (tensor.name != "global_step") tensor.name = "other/" + tensor.name;
  }
  ExpectError(Try({.allow_missing = true, .allow_extra = true}).status(), StatusCode::kInvalidArgument,
              "it has none of the model's weights");
  ExpectUntouched();
  EXPECT_TRUE(Try({.only = {"global_step"}, .allow_extra = true}).ok());
}

TEST_F(RestoreTest, TwoTensorsOfOneNameAreAnError) {
  tensors_.push_back(tensors_.front());
  ExpectError(Try().status(), StatusCode::kInvalidArgument, "two tensors", tensors_.front().name);
  ExpectUntouched();
}

// Weights from elsewhere have no state of a training; a checkpoint that lacks a part of it is another matter.
TEST(Restore, SlotsAndCountersAreNotMissingFromWeights) {
  Training trained(2), fresh(2, {.moving_average = 0.9}, /*seed=*/9);
  trained.Initialize();
  trained.Steps(0, 3);
  fresh.Initialize();
  std::vector<io::NamedTensor> weights, without_slots;
  for (io::NamedTensor& tensor : TensorsOf(trained)) {
    const bool slot = absl::StrContains(tensor.name, "/Momentum") || absl::StrContains(tensor.name, "Average");
    if (slot) continue;
    if (tensor.name != "global_step") weights.push_back(tensor);
    without_slots.push_back(tensor);
  }
  ASSERT_OK_AND_ASSIGN(const auto restored, Restore(*fresh.session, "weights", weights));
  EXPECT_EQ(restored.restored.size(), weights.size());
  EXPECT_THAT(restored.missing, Contains("global_step"));
  EXPECT_THAT(restored.missing, Contains("hidden/biases/Momentum"));
  EXPECT_TRUE(SameBits(fresh.Value("hidden/weights", 1), trained.Value("hidden/weights")));
  EXPECT_EQ(fresh.Value("global_step").scalar<int64_t>(), 0);

  ExpectError(Restore(*fresh.session, "checkpoint", without_slots).status(), StatusCode::kInvalidArgument,
              "hidden/biases/Momentum");
  weights.erase(weights.begin());
  ExpectError(Restore(*fresh.session, "weights", weights).status(), StatusCode::kInvalidArgument, "not in the file");
}

TEST(CheckReplicas, SaysWhichTowersDiffer) {
  Training training(3);
  training.Initialize();
  training.Steps(0, 3);
  // Only tower 0 keeps batch norm's statistics.
  EXPECT_FALSE(SameBits(training.Value("norm/moving_mean", 0), training.Value("norm/moving_mean", 1)));
  EXPECT_EQ(CheckReplicas(*training.session, 3), absl::OkStatus());
  for (const char* name : {"hidden/weights", "hidden/weights/Momentum"}) {
    const Variable variable = training.Find(name, 2);
    const Tensor whole = training.Value(name, 2);
    Tensor changed = whole.Clone();
    changed.data<float>()[7] += 1;
    ASSERT_EQ(training.session->WriteVariable(variable, changed), absl::OkStatus());
    ExpectError(CheckReplicas(*training.session, 3), StatusCode::kDataLoss, name, "tower 0 and tower 2", "element 7");
    EXPECT_EQ(CheckReplicas(*training.session, 2), absl::OkStatus());
    ASSERT_EQ(training.session->WriteVariable(variable, whole), absl::OkStatus());
  }
  ASSERT_EQ(training.session->WriteVariable(training.Find("global_step", 1), Tensor::Scalar(int64_t{9})),
            absl::OkStatus());
  ExpectError(CheckReplicas(*training.session, 3), StatusCode::kDataLoss, "global_step", "3 and 9");
}

TEST(CheckReplicas, TowersWithoutAveragesDiffer) {
  Training training(2, {.variable_update = models::VariableUpdate::kIndependent});
  training.Initialize();
  EXPECT_EQ(CheckReplicas(*training.session, 2), absl::OkStatus());
  training.Steps(0, 1);
  ExpectError(CheckReplicas(*training.session, 2), StatusCode::kDataLoss, "tower 0 and tower 1");
}

TEST(CheckReplicas, OneCopyIsAlwaysAlike) {
  Training training(2, {.variable_update = models::VariableUpdate::kParameterDevice});
  training.Initialize();
  training.Steps(0, 2);
  EXPECT_EQ(CheckReplicas(*training.session, 2), absl::OkStatus());
}

}  // namespace
}  // namespace belfry
