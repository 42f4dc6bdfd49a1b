// Steps that are replayed whole and in pieces on CUDA's streams, events and graphs, over the fake of its runtime.
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/native.h"
#include "framework/device/device_set.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/framework/runtime/collective_ops.h"
#include "tests/framework/runtime/uncaptured_collective.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

constexpr int kCards = 2;
constexpr int64_t kElements = 1000;

// y = x / 2 + 1 on a card.
struct Halving {
  void *x, *y;
  static void Run(void* data) {
    const auto& at = *static_cast<const Halving*>(data);
    const auto* x = static_cast<const float*>(fake_cuda::Real(at.x));
    auto* y = static_cast<float*>(fake_cuda::Real(at.y));
    for (int64_t i = 0; i < kElements; ++i) y[i] = x[i] / 2 + 1;
  }
};
struct Reduction {
  CollectiveSpec spec;
  int64_t begin, end;
  static void Run(void* data) {
    const auto& at = *static_cast<const Reduction*>(data);
    ReduceOnHost(at.spec, at.begin, at.end).IgnoreError();
  }
};

absl::Status LaunchOn(Stream& stream, void (*kernel)(void*), void* data) {
  const cudaError_t error = fake_cuda::Launch(NativeStream(stream), kernel, data);
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

class FakeCudaPieces : public testing::Test {
 protected:
  FakeCudaPieces() {
    fake_cuda::SetCards(kCards);
    registry_.Add({.name = "Halve",
                   .inputs = {{.name = "x"}},
                   .outputs = {{.name = "y"}},
                   .types = {{"T", kWideFloatTypes}},
                   .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
                     return std::vector<Shape>{args.inputs[0]};
                   },
                   .not_differentiable = true,
                   .kernels = {{"GPU", DType::kFloat32, [this](const KernelSpec&) -> absl::StatusOr<Kernel> {
                                  return Kernel{[this](const KernelContext& at) {
                                    return LaunchOn(*at.stream, Halving::Run, Keep(at));
                                  }};
                                }}}});
    devices_ = *DeviceSet::Open(absl::StrCat("gpu:", kCards));
    for (int r = 0; r < kCards; ++r) {
      const Scope tower = Scope(graph_).NameScope(absl::StrCat("tower_", r)).Device(absl::StrCat("/gpu:", r));
      const auto feed = [&](const Shape& shape) {
        feeds_.push_back({tower.Add("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", shape}}), shape});
        return feeds_.back().output;
      };
      const Output weight = feed(Shape{});
      Output x = feed(Shape{kElements});
      for (const std::string group : {"first", "second"}) {
        for (int i = 0; i < 6; ++i) x = tower.Add("Halve", {x});
        x = tower.Add("AllReduce", {weight, x}, {{"group", group}, {"rank", int64_t{r}}, {"size", int64_t{kCards}}});
      }
      for (int i = 0; i < 6; ++i) x = tower.Add("Halve", {x});
      fetches_.push_back(x);
    }
  }
  ~FakeCudaPieces() override {
    devices_ = DeviceSet();
    EXPECT_EQ(fake_cuda::Handles(), 0) << "streams, events and graphs are destroyed";
  }

  Halving* Keep(const KernelContext& at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return &halvings_.emplace_back(Halving{const_cast<void*>(at.inputs[0]), at.outputs[0]});
  }
  absl::StatusOr<std::unique_ptr<Collective>> MakeCollective(CollectiveSpec spec, bool captured) {
    CollectiveSpec real = spec;
    for (CollectiveRank& rank : real.ranks) {
      rank.data = fake_cuda::Real(rank.data);
      rank.weight = static_cast<const float*>(fake_cuda::Real(const_cast<float*>(rank.weight)));
    }
    const auto slice = [this, real](const CollectiveSpec&, const CollectivePart& part, Stream& stream) {
      const std::lock_guard<std::mutex> lock(mutex_);
      return LaunchOn(stream, Reduction::Run, &reductions_.emplace_back(Reduction{real, part.begin, part.end}));
    };
    ASSIGN_OR_RETURN(std::unique_ptr<Collective> local, MakeSlicedCollective(std::move(spec), slice));
    if (captured) return local;
    return std::make_unique<UncapturedCollective>(std::move(local), fail_in_);
  }

  // The fetches of the last of several steps, of which some are in flight together.
  std::vector<std::vector<double>> Run(bool replay, bool captured) {
    auto session = Session::Create(
        graph_, devices_,
        {.collectives = [this, captured](CollectiveSpec spec) { return MakeCollective(spec, captured); },
         .replay = replay});
    EXPECT_TRUE(session.ok()) << session.status();
    auto step = ValueOf((*session)->Prepare(feeds_, fetches_));
    std::vector<std::vector<double>> results;
    for (int i = 0; i < 12; ++i) {
      std::minstd_rand random(TestSeed() + i);
      std::vector<Tensor> batch;
      for (const FeedSpec& feed : feeds_) {
        batch.emplace_back(DType::kFloat32, feed.shape);
        for (int64_t k = 0; k < batch.back().elements(); ++k) {
          batch.back().data<float>()[k] = static_cast<float>(1 + random() % 1000);
        }
      }
      EXPECT_EQ(step->Run(batch), absl::OkStatus());
      if (i % 3 != 2) continue;
      for (int r = 0; r < kCards; ++r) results.push_back(step->fetched(r).ToDoubles());
    }
    EXPECT_EQ(step->replays(), replay);
    return results;
  }

  std::mutex mutex_;
  std::deque<Halving> halvings_;  // graphs point at them
  std::deque<Reduction> reductions_;
  std::atomic<int> fail_in_{0};
  OpRegistry registry_ = CollectiveOps();
  Graph graph_{registry_};
  DeviceSet devices_;
  std::vector<FeedSpec> feeds_;
  std::vector<Output> fetches_;
};

TEST_F(FakeCudaPieces, GiveTheBitsOfPlainAndOfWholeRuns) {
  const auto plain = Run(/*replay=*/false, /*captured=*/true);
  ASSERT_EQ(plain.size(), 8u);
  EXPECT_EQ(Run(/*replay=*/true, /*captured=*/true), plain);
  EXPECT_EQ(Run(/*replay=*/true, /*captured=*/false), plain);
}

}  // namespace
}  // namespace belfry
