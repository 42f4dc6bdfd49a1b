// Bytes, launches and times of small steps, counted by hand.
#include "trainers/prediction/gpu_cost.h"

#include "framework/device/described_gpu.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/main/testing.h"
#include "tests/trainers/prediction/networks.h"
#include "trainers/prediction/gpu_report.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

// All rates are 1 and all shares 1, so that times are numbers of bytes or operations.
GpuCard UnitCard() {
  GpuCard card;
  for (double GpuCard::*value :
       {&GpuCard::memory, &GpuCard::bandwidth, &GpuCard::multiprocessors, &GpuCard::flops_16bit, &GpuCard::flops_tf32,
        &GpuCard::flops_float32, &GpuCard::link, &GpuCard::host_link, &GpuCard::bandwidth_share, &GpuCard::cache_speed,
        &GpuCard::product_share, &GpuCard::conv_share, &GpuCard::conv_share_float32, &GpuCard::attention_share,
        &GpuCard::link_share}) {
    card.*value = 1;
  }
  return card;
}

// relu(x w) + x w, summed over the rows: x [256, 32], w [32, 64], 64 KiB each in between.
class SmallStep : public testing::Test {
 protected:
  SmallStep() {
    const Scope scope(graph_);
    const Output x = ops::Placeholder(scope.Named("x"), DType::kFloat32, {256, 32});
    const Output w = ops::Placeholder(scope.Named("w"), DType::kFloat32, {32, 64});
    const Output product = ops::MatMul(scope.Named("product"), x, w);
    const Output relu = ops::Relu(scope.Named("relu"), product);
    const Output sum = ops::Add(scope.Named("sum"), relu, product);
    const Output total = ops::Sum(scope.Named("total"), sum, {0});
    const auto session = Session::Create(graph_, devices_, {.fuse = false});
    const auto explained = ValueOf((*session)->Explain({{x, {256, 32}}, {w, {32, 64}}}, {total}));
    plan_ = explained.plan;
  }
  Demand Of(absl::string_view name) const {
    for (const ProgramNode& node : plan_->program.nodes) {
      if (node.name == name) return DemandOf(plan_->program, node);
    }
    ADD_FAILURE() << name;
    return {};
  }

  static constexpr double kX = 256 * 32 * 4, kW = 32 * 64 * 4, kY = 256 * 64 * 4, kTotal = 64 * 4;
  const DeviceSet devices_ = DescribedH100();
  Graph graph_{BuiltinOps()};
  std::shared_ptr<const Plan> plan_;
};

TEST_F(SmallStep, NodesReadAndWriteTheirTensors) {
  const Demand product = Of("product");
  EXPECT_EQ(product.work, Work::kProduct);
  EXPECT_EQ(product.bytes, kX + kW + kY);
  EXPECT_EQ(product.flops, 2.0 * 256 * 32 * 64);
  EXPECT_EQ(std::vector({product.batch, product.m, product.n, product.k}), std::vector<double>({1, 256, 64, 32}));
  EXPECT_EQ(Of("relu").bytes, 2 * kY);
  EXPECT_EQ(Of("sum").bytes, 3 * kY);
  EXPECT_EQ(Of("total").bytes, kY + kTotal);
  EXPECT_EQ(Of("total").work, Work::kReduction);
}

// Every kernel is that of one node without fusion, however it is counted.
TEST(FuseStep, WithoutRulesHasTheBytesOfTheNodes) {
  ASSERT_OK_AND_ASSIGN(const auto planned, PlanOf(CifarResNet(20, DType::kBFloat16), DescribedH100(), 64));
  const Plan& plan = *planned.plan;
  const std::vector<Demand> kernels = FuseStep(plan, 1, kNoFusion);
  size_t at = 0;
  for (const ProgramNode& node : plan.program.nodes) {
    if (node.device != 1 || !Runs(node)) continue;
    ASSERT_LT(at, kernels.size());
    EXPECT_EQ(kernels[at++].bytes, DemandOf(plan.program, node).bytes) << Describe(node);
  }
  EXPECT_EQ(at, kernels.size());
}

TEST_F(SmallStep, FusionKeepsWhatOneKernelSees) {
  const auto sum = [&](const FusionRules& rules) { return SumOf(FuseStep(*plan_, 1, rules), UnitCard()); };
  EXPECT_EQ(sum(kNoFusion).launches, 4);
  EXPECT_EQ(sum(kNoFusion).bytes, (kX + kW + kY) + 2 * kY + 3 * kY + (kY + kTotal));
  // The product by itself; relu, sum and total as one.
  EXPECT_EQ(sum(kTorchCompile).launches, 2);
  EXPECT_EQ(sum(kTorchCompile).bytes, (kX + kW + kY) + (kY + kTotal));
  // relu and sum in the product, which stores their result only.
  EXPECT_EQ(sum(kPerfectFusion).launches, 2);
  EXPECT_EQ(sum(kPerfectFusion).bytes, (kX + kW + kY) + (kY + kTotal));
  EXPECT_EQ(sum(kPerfectFusion).flops, sum(kNoFusion).flops);
}

TEST_F(SmallStep, ReportListsWorkLayersAndOps) {
  const std::string text = PredictionText(*plan_, *plan_, 1, 1, GpuCard::Find("h100").value());
  for (const char* part : {"Predicted for 1 of NVIDIA H100 SXM5 80GB: a step takes about", "true to about 15 %",
                           "of this plan", "with perfect fusion", "products", "Layer", "MatMul"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(SecondsOf, IsTheLongerOfBytesAndOperations) {
  GpuCard card = UnitCard();
  card.kernel = 5;
  EXPECT_EQ(SecondsOf({.launches = 2, .bytes = 100}, card), 2 * 5 + 100);
  EXPECT_EQ(SecondsOf({}, card), 0);
  EXPECT_EQ(SecondsOf({.work = Work::kAttention, .launches = 1, .bytes = 100, .flops = 300}, card), 5 + 300);
  card.bandwidth_share = 0.5;
  EXPECT_EQ(SecondsOf({.launches = 1, .bytes = 100}, card), 5 + 200);
  card.cache = 200, card.cache_speed = 4;
  EXPECT_EQ(SecondsOf({.launches = 1, .bytes = 100}, card), 5 + 50);
}

TEST(SecondsOf, CountsWholeWavesOfTiles) {
  GpuCard card = UnitCard();
  card.multiprocessors = 4;
  Demand demand{.work = Work::kProduct, .launches = 1, .m = 512, .n = 256, .k = 192, .dtype = DType::kBFloat16};
  // Four tiles of 256 x 128, one for each multiprocessor, of 192 steps along k and 64 that hide nothing.
  EXPECT_EQ(SecondsOf(demand, card), 4 * 2.0 * 256 * 128 * (192 + 64));
  // A fifth tile's row makes another wave of a smaller tile the better choice, but never less than the work itself.
  demand.m = 513;
  EXPECT_GT(SecondsOf(demand, card), 4 * 2.0 * 256 * 128 * (192 + 64));
  EXPECT_LT(SecondsOf(demand, card), 2 * 4 * 2.0 * 256 * 128 * (192 + 64));
}

TEST(PredictStep, AveragesThatNothingHidesTakeTime) {
  const DeviceSet devices = OpenDescribedGpus("gpu:2", {.model = "two", .memory_bytes = size_t{80} << 30}).value();
  ASSERT_OK_AND_ASSIGN(const auto planned, PlanOf(TutorialNetwork(DType::kFloat32), devices, 64));
  GpuCard card = GpuCard::Find("h100").value();
  const PredictedStep fast = PredictStep(*planned.plan, 1, 2, card);
  card.link /= 1000;
  const PredictedStep slow = PredictStep(*planned.plan, 1, 2, card);
  // 4.27 MB of gradients, sent and received once by each of two, at 0.45 GB/s.
  EXPECT_NEAR(slow.step - fast.step, 1'068'298 * 4 / (450e6 * card.link_share), 1.5e-3);
  EXPECT_GT(slow.exposed, fast.exposed);
  // A reduce-scatter is half of an average.
  Plan scattered = *planned.plan;
  for (ProgramNode& node : scattered.program.nodes) {
    if (node.op->kind == OpKind::kAllReduce) node.attrs.Set("reduction", std::string("reduce_scatter"));
  }
  const PredictedStep half = PredictStep(scattered, 1, 2, card);
  for (size_t i = 0; i < scattered.program.nodes.size(); ++i) {
    if (scattered.program.nodes[i].op->kind != OpKind::kAllReduce || slow.seconds[i] == 0) continue;
    EXPECT_NEAR(half.seconds[i] - card.average, (slow.seconds[i] - card.average) / 2, 1e-9);
  }
  card.link = 1e30, card.average = 1e-12;
  EXPECT_NEAR(PredictStep(*planned.plan, 1, 2, card).exposed, 0, 1e-9);
}

}  // namespace
}  // namespace belfry
