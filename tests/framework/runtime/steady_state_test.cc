// After its first runs a prepared step allocates nothing and, on one CPU device, takes no lock. Every allocation of the
// process and every lock of a pthread_mutex is counted: the program has its own malloc and pthread_mutex_lock. An
// allocation is attributed to the library whose code requested it, because oneDNN may build a table in each call of a
// primitive, which we cannot prevent.
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "framework/graph/gradients.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "tests/environment/malloc_hooks.h"
#include "tests/main/testing.h"

namespace {

constexpr int kFrames = 12, kMaxRecords = 4096;

struct Record {
  std::array<void*, kFrames> frames{};
  int depth = 0;
};

std::atomic<bool> counting{false};
std::atomic<int> allocations{0}, locks{0};
std::array<Record, kMaxRecords> records;

// Notes the source of an allocation. The first call of backtrace() loads a library, so the tests make one before they
// count.
bool NoteAllocation() {
  if (!counting.load(std::memory_order_relaxed) || !counting.exchange(false)) return false;  // backtrace() may allocate
  const int index = allocations.fetch_add(1);
  if (index < kMaxRecords) records[index].depth = backtrace(records[index].frames.data(), kFrames);
  counting.store(true);
  return false;
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static std::atomic<Lock> real{nullptr};
  Lock lock = real.load(std::memory_order_acquire);
  if (lock == nullptr) {
    lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    real.store(lock, std::memory_order_release);
  }
  if (counting.load(std::memory_order_relaxed)) ++locks;
  return lock(mutex);
}

}  // extern "C"

namespace belfry {
namespace {

// The file of the program or library that made a recorded allocation, above the C and C++ libraries.
std::string Culprit(const Record& record) {
  for (int i = 2; i < record.depth; ++i) {
    Dl_info info;
    if (dladdr(record.frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    const std::string file =
        std::strrchr(info.dli_fname, '/') == nullptr ? info.dli_fname : std::strrchr(info.dli_fname, '/') + 1;
    if (file.rfind("libc.", 0) == 0 || file.rfind("libstdc++.", 0) == 0) continue;
    return file;
  }
  return "unknown";
}

struct Counts {
  std::map<std::string, int> allocations;  // by culprit, over all runs
  int locks = 0;

  int all() const {
    int sum = 0;
    for (const auto& [culprit, count] : allocations) sum += count;
    return sum;
  }
  int ours() const {
    const auto found = allocations.find("steady_state_test");
    return found == allocations.end() ? 0 : found->second;
  }
  std::string ToString() const {
    std::string text;
    for (const auto& [culprit, count] : allocations) text += culprit + ": " + std::to_string(count) + " allocations\n";
    return text + std::to_string(locks) + " locks\n";
  }
};

constexpr int kRuns = 10;

class SteadyState : public testing::Test {
 protected:
  void SetUp() override {
    // Read when the first team of threads starts: no other thread watches it (spinning.h), which on a busy machine
    // starts a team of its own.
    setenv("OMP_WAIT_POLICY", "active", 0);
    void* frames[kFrames];
    backtrace(frames, kFrames);
    SetMallocHook(&NoteAllocation);
  }
  void TearDown() override { SetMallocHook(nullptr); }

  // Counts of kRuns runs, after the same number of runs to warm up.
  Counts Count(PreparedStep& step, const std::vector<Tensor>& feeds) {
    for (int i = 0; i < kRuns; ++i) EXPECT_TRUE(step.Run(feeds).ok());
    allocations = locks = 0;
    counting = true;
    bool ok = true;
    for (int i = 0; i < kRuns; ++i) ok = step.Run(feeds).ok() && ok;
    counting = false;
    EXPECT_TRUE(ok);
    Counts counts{.locks = locks};
    for (int i = 0; i < std::min<int>(allocations, kMaxRecords); ++i) ++counts.allocations[Culprit(records[i])];
    return counts;
  }

  void Open(const char* spec, SessionOptions options = {}) {
    options.short_step = absl::ZeroDuration();
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    const Node* init = InitializeVariables(root_);
    session_.reset();
    devices_ = std::make_unique<DeviceSet>(*DeviceSet::Open(spec));
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, *devices_, options));
    ASSERT_TRUE(session_->RunTarget(init).ok());
  }

  // The updates that train the variables of one replica to reduce `loss`.
  std::vector<Output> Gradient(const Scope& scope, Output loss, int replica = 0) {
    std::vector<Output> xs;
    for (const Variable& v : graph_.variables()) {
      if (v.replica() == replica) xs.push_back(v);
    }
    return ValueOf(Gradients(scope, {loss}, xs));
  }
  const Node* Descend(const Scope& scope, const std::vector<Output>& gradients, int replica = 0) {
    std::vector<Output> updates;
    for (const Variable& v : graph_.variables()) {
      if (v.replica() != replica) continue;
      updates.push_back(ops::AssignSub(scope, v, ops::Scale(scope, gradients[updates.size()], 0.01)));
    }
    return ops::Group(scope, updates);
  }
  Output Weights(const Scope& scope, const char* name, const Shape& shape) {
    return GetVariable(scope, name, shape, GlorotUniformInitializer());
  }
  // Has no matrix product, so it does not use oneDNN.
  Output ElementwiseLoss(const Scope& scope, const Output& x) {
    const Output h = ops::Relu(
        scope, ops::BiasAdd(scope, ops::Mul(scope, x, Weights(scope, "w1", {16})), Weights(scope, "b1", {16})));
    const Output logits = ops::Mul(scope, h, Weights(scope, "w2", {16}));
    return ops::Mean(scope, ops::Square(scope, logits));
  }
  Output MlpLoss(const Scope& scope, const Output& x, const Output& labels) {
    const Output h = ops::Relu(
        scope, ops::BiasAdd(scope, ops::MatMul(scope, x, Weights(scope, "w1", {16, 32})), Weights(scope, "b1", {32})));
    const Output logits =
        ops::BiasAdd(scope, ops::MatMul(scope, h, Weights(scope, "w2", {32, 10})), Weights(scope, "b2", {10}));
    return ops::Mean(scope, ops::SparseSoftmaxCrossEntropy(scope, logits, labels));
  }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Session> session_;
  const Tensor images_ = Tensor::Zeros(DType::kFloat32, {8, 16}), labels_ = Tensor::Zeros(DType::kInt32, {8});
};

TEST_F(SteadyState, TheCountersCount) {
  allocations = locks = 0;
  counting = true;
  void* volatile memory = std::malloc(3);  // a pair that nobody sees would be left out
  std::free(memory);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  counting = false;
  pthread_mutex_unlock(&mutex);
  EXPECT_GE(allocations, 1);
  EXPECT_GE(locks, 1);
  EXPECT_EQ(Culprit(records[0]), "steady_state_test");
}

TEST_F(SteadyState, OneDeviceAllocatesAndLocksNothing) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {8, 16});
  const Output loss = ElementwiseLoss(root_, x);
  const Node* train = Descend(root_, Gradient(root_, loss));
  for (const double recheck : {0.0, 1.0}) {
    Open("cpu:1", {.recheck = recheck});
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {8, 16}}}, {loss}, {train}));
    const Counts counts = Count(*step, {images_});
    EXPECT_EQ(counts.all(), 0) << counts.ToString();
    EXPECT_EQ(counts.locks, 0) << counts.ToString();
  }
}

// With one block, and with several on as many threads as there are.
TEST_F(SteadyState, ElementwisePassesAllocateAndLockNothing) {
  for (const int64_t size : {100, 100'000}) {
    const Output x = ops::Placeholder(root_, DType::kFloat32, {size});
    const Output y = ops::Neg(root_, ops::Exp(root_, ops::Add(root_, ops::Square(root_, x), x)));
    Open("cpu:1", {.fuse_elementwise_from = 0});
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {size}}}, {y}));
    EXPECT_EQ(step->plan().streams[0].instructions.size(), 1u);
    const Counts counts = Count(*step, {Tensor::Zeros(DType::kFloat32, {size})});
    EXPECT_EQ(counts.ours(), 0) << counts.ToString();
    EXPECT_EQ(counts.locks, 0) << counts.ToString();
  }
}

TEST_F(SteadyState, AnMlpOnOneDevice) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {8, 16});
  const Output labels = ops::Placeholder(root_, DType::kInt32, {8});
  const Output loss = MlpLoss(root_, x, labels);
  const Node* train = Descend(root_, Gradient(root_, loss));
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {8, 16}}, {labels, {8}}}, {loss}, {train}));
  const Counts counts = Count(*step, {images_, labels_});
  EXPECT_EQ(counts.ours(), 0) << counts.ToString();
  EXPECT_EQ(counts.locks, 0) << counts.ToString();
  std::printf("%d runs:\n%s", kRuns, counts.ToString().c_str());
}

TEST_F(SteadyState, TwoTowersAllocateNothing) {
  std::vector<FeedSpec> feeds;
  std::vector<Output> losses;
  std::vector<const Node*> updates;
  for (int i = 0; i < 2; ++i) {
    const std::string n = std::to_string(i);
    const Scope tower = root_.NameScope("tower_" + n).Device("/cpu:" + n).Replica(i);
    const Output x = ops::Placeholder(tower, DType::kFloat32, {8, 16});
    feeds.push_back({x, {8, 16}});
    losses.push_back(ElementwiseLoss(tower, x));
    const auto mean = ops::AllReduceMean(tower, {.group = "gradients", .rank = i, .size = 2}, ops::Const(tower, 1.0f),
                                         Gradient(tower, losses.back(), i));
    updates.push_back(Descend(tower, mean, i));
  }
  for (const double recheck : {0.0, 1.0}) {
    Open("cpu:2", {.recheck = recheck});
    ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare(feeds, losses, updates));
    const Counts counts = Count(*step, {images_, images_});
    EXPECT_EQ(counts.all(), 0) << counts.ToString();
    EXPECT_EQ(counts.locks, 0) << counts.ToString();
  }
}

TEST_F(SteadyState, AConvolutionalNetworkOnOneDevice) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {4, 12, 12, 3});
  const Output labels = ops::Placeholder(root_, DType::kInt32, {4});
  Output h = x;
  for (int layer = 1; layer <= 2; ++layer) {
    const std::string n = std::to_string(layer);
    const Output filter = Weights(root_, ("filter" + n).c_str(), {5, 5, layer == 1 ? 3 : 16, 16});
    h = ops::Relu(root_,
                  ops::BiasAdd(root_, ops::Conv2D(root_, h, filter), Weights(root_, ("bias" + n).c_str(), {16})));
    h = ops::LocalResponseNormalization(root_, ops::MaxPool(root_, h), {.depth_radius = 4, .beta = 0.75});
  }
  const Output flat = ops::Reshape(root_, h, {4, 3 * 3 * 16});
  const Output logits = ops::MatMul(root_, flat, Weights(root_, "w", {3 * 3 * 16, 10}));
  const Output loss = ops::Mean(root_, ops::SparseSoftmaxCrossEntropy(root_, logits, labels));
  const Node* train = Descend(root_, Gradient(root_, loss));
  Open("cpu:1");
  ASSERT_OK_AND_ASSIGN(auto step, session_->Prepare({{x, {4, 12, 12, 3}}, {labels, {4}}}, {loss}, {train}));
  const Counts counts =
      Count(*step, {Tensor::Zeros(DType::kFloat32, {4, 12, 12, 3}), Tensor::Zeros(DType::kInt32, {4})});
  EXPECT_EQ(counts.ours(), 0) << counts.ToString();
  std::printf("%d runs:\n%s", kRuns, counts.ToString().c_str());
}

}  // namespace
}  // namespace belfry
