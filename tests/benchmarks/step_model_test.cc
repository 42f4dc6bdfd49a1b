#include "benchmarks/prediction/step_model.h"
#include "tests/main/testing.h"

#include <iterator>
#include <string>

namespace belfry::benchmarks {
namespace {

constexpr auto Kernel = ModelInstruction::Run;
constexpr auto Average = ModelInstruction::Collective;
constexpr auto Wait = ModelInstruction::Wait;
constexpr auto Record = ModelInstruction::Record;
using ::testing::HasSubstr;
using Kind = Instruction::Kind;

// A byte takes a second.
SimulatedStep Simulate(const StepModel& model) {
  const auto step = SimulateStep(model, [](double bytes) { return Cost{.seconds = bytes}; });
  EXPECT_TRUE(step.ok()) << step.status();
  return step.value_or(SimulatedStep());
}

TEST(SimulateStep, ACollectiveBesideLongerComputingIsHidden) {
  const SimulatedStep step = Simulate({.compute = {Kernel(10), Record(0), Kernel(20), Wait(1), Kernel(1)},
                                       .collective = {Wait(0), Average(15), Record(1)}});
  EXPECT_DOUBLE_EQ(step.seconds, 31);
  EXPECT_DOUBLE_EQ(step.compute, 31);
  EXPECT_DOUBLE_EQ(step.exposed, 0);
}

TEST(SimulateStep, ACollectiveAfterAllComputingIsExposed) {
  const SimulatedStep step = Simulate(
      {.compute = {Kernel(30), Record(0), Wait(1), Kernel(1)}, .collective = {Wait(0), Average(15), Record(1)}});
  EXPECT_DOUBLE_EQ(step.seconds, 46);
  EXPECT_DOUBLE_EQ(step.compute, 31);
  EXPECT_DOUBLE_EQ(step.exposed, 15);
}

TEST(SimulateStep, OnlyTheRestOfACollectiveIsExposed) {
  const SimulatedStep step = Simulate({.compute = {Kernel(10), Record(0), Kernel(20), Wait(1), Kernel(1)},
                                       .collective = {Wait(0), Average(25), Record(1)}});
  EXPECT_DOUBLE_EQ(step.seconds, 36);
  EXPECT_DOUBLE_EQ(step.exposed, 5);
}

TEST(SimulateStep, BucketsAreServedInTheOrderOfThePlan) {
  const std::vector<ModelInstruction> compute = {Kernel(10), Record(0), Kernel(10), Record(1),
                                                 Wait(2),    Wait(3),   Kernel(1)};
  const SimulatedStep first =
      Simulate({.compute = compute, .collective = {Wait(0), Average(15), Record(2), Wait(1), Average(15), Record(3)}});
  EXPECT_DOUBLE_EQ(first.seconds, 41);  // 10 .. 25, 25 .. 40
  EXPECT_DOUBLE_EQ(first.exposed, 20);
  const SimulatedStep second =
      Simulate({.compute = compute, .collective = {Wait(1), Average(15), Record(3), Wait(0), Average(15), Record(2)}});
  EXPECT_DOUBLE_EQ(second.seconds, 51);  // 20 .. 35, 35 .. 50
  EXPECT_DOUBLE_EQ(second.exposed, 30);
}

TEST(SimulateStep, AnUpdateBeginsOnceItsOwnBucketIsThere) {
  const StepModel model = {
      .compute = {Kernel(10), Record(0), Kernel(10), Record(1), Wait(2), Kernel(8), Wait(3), Kernel(1)},
      .collective = {Wait(0), Average(15), Record(2), Wait(1), Average(15), Record(3)}};
  const SimulatedStep step = Simulate(model);
  EXPECT_DOUBLE_EQ(step.seconds, 41);  // the first update runs from 25 to 33, beside the second bucket
  EXPECT_DOUBLE_EQ(step.compute, 29);
  EXPECT_DOUBLE_EQ(step.exposed, 12);
  EXPECT_EQ(model.collectives(), 2);
  EXPECT_DOUBLE_EQ(model.bytes(), 30);
}

TEST(SimulateStep, AStepEndsWithTheLastOfBothStreams) {
  const SimulatedStep step =
      Simulate({.compute = {Kernel(10), Record(0), Kernel(3)}, .collective = {Wait(0), Average(5)}});
  EXPECT_DOUBLE_EQ(step.seconds, 15);
  EXPECT_DOUBLE_EQ(step.exposed, 2);
  EXPECT_DOUBLE_EQ(Simulate({}).seconds, 0);
}

TEST(SimulateStep, ExchangingTakesItsShareOfComputing) {
  const auto cost = [](double) { return Cost{.seconds = 10, .processor = 4}; };
  ASSERT_OK_AND_ASSIGN(const auto step, SimulateStep({.compute = {Kernel(20)}, .collective = {Average(1)}}, cost));
  EXPECT_DOUBLE_EQ(step.seconds, 24);  // 6 of 20 are done when the collective ends
  EXPECT_DOUBLE_EQ(step.slowed, 4);
  EXPECT_DOUBLE_EQ(step.compute, 20);
  EXPECT_DOUBLE_EQ(step.exposed, 0);
  // Nothing is taken from a stream that waits.
  ASSERT_OK_AND_ASSIGN(const auto exposed,
                       SimulateStep({.compute = {Kernel(20), Record(0)}, .collective = {Wait(0), Average(1)}}, cost));
  EXPECT_DOUBLE_EQ(exposed.seconds, 30);
  EXPECT_DOUBLE_EQ(exposed.slowed, 0);
}

TEST(SimulateStep, AnExchangeBesideComputingMayTakeLonger) {
  const auto cost = [](double) { return Cost{.seconds = 10, .beside = 20, .processor = 4}; };
  ASSERT_OK_AND_ASSIGN(const auto hidden, SimulateStep({.compute = {Kernel(20)}, .collective = {Average(1)}}, cost));
  EXPECT_DOUBLE_EQ(hidden.seconds, 24);  // 16 of 20 are done when the collective ends
  EXPECT_DOUBLE_EQ(hidden.slowed, 4);
  // The kernel ends after 10, when half of the collective is left, which then takes its own time.
  ASSERT_OK_AND_ASSIGN(const auto half, SimulateStep({.compute = {Kernel(8)}, .collective = {Average(1)}}, cost));
  EXPECT_DOUBLE_EQ(half.seconds, 15);
  EXPECT_DOUBLE_EQ(half.slowed, 2);
  EXPECT_DOUBLE_EQ(half.exposed, 5);
}

TEST(SimulateStep, AnExchangeThatTakesTheWholeProcessorStopsComputing) {
  const auto cost = [](double) { return Cost{.seconds = 10, .processor = 99}; };
  ASSERT_OK_AND_ASSIGN(const auto step, SimulateStep({.compute = {Kernel(20)}, .collective = {Average(1)}}, cost));
  EXPECT_DOUBLE_EQ(step.seconds, 30);
  EXPECT_DOUBLE_EQ(step.slowed, 10);
}

TEST(SimulateStep, StreamsThatWaitForEachOtherAreAnError) {
  const auto cost = [](double) { return Cost(); };
  EXPECT_THAT(SimulateStep({.compute = {Wait(7), Kernel(1)}}, cost).status().message(), HasSubstr("nothing records"));
  EXPECT_FALSE(SimulateStep({.compute = {Wait(0), Record(1)}, .collective = {Wait(1), Record(0)}}, cost).ok());
}

// Four buckets of 1 MiB, handed over in a step of 43.3 ms from a third of it on by two processes whose kernels sleep,
// over an emulated link of 1 Gbit/s. The time of a bucket was measured alone, that of the step with all four. In the
// last row, with a latency of 2 ms each way, a bucket takes longer after others than alone.
TEST(SimulateStep, MeetsMeasuredSteps) {
  const struct {
    double bucket, step, tolerance;  // ms, ms
  } kMeasured[] = {{11.1, 66.4, 0.01}, {22.9, 112.5, 0.01}, {13.0, 73.6, 0.01}, {23.8, 124.5, 0.07}};
  StepModel model;
  model.compute.push_back(Kernel(43.3 / 3));
  for (int i = 0; i < 4; ++i) {
    model.compute.push_back(Kernel(43.3 * 2 / 3 / 4));
    model.compute.push_back(Record(i));
    model.collective.push_back(Wait(i));
    model.collective.push_back(Average(1 << 20));
  }
  for (const auto& measured : kMeasured) {
    const auto step = SimulateStep(model, [&](double) { return Cost{.seconds = measured.bucket}; });
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_NEAR(step->seconds, measured.step, measured.tolerance * measured.step);
  }
}

// Two devices, 0 and 1, with a collective stream on device 0.
Plan MakePlan() {
  Plan plan;
  plan.program.nodes.resize(4);
  plan.program.nodes[0] = {.name = "forward", .device = 0};
  plan.program.nodes[1] = {.name = "bucket",
                           .attrs = {{"reduction", std::string("mean")}},
                           .outputs = {{DType::kFloat32, {10}}, {DType::kFloat32, {3}}},
                           .device = 0,
                           .collective = 0,
                           .ranks = {0}};
  plan.program.nodes[2] = {.name = "update", .device = 0};
  plan.program.nodes[3] = {.name = "other", .device = 1};
  plan.streams = {
      {.device = 0,
       .kind = StreamKind::kCompute,
       .instructions = {{Kind::kRun, 0}, {Kind::kRecord, 0}, {Kind::kWait, 1}, {Kind::kWait, 2}, {Kind::kRun, 2}}},
      {.device = 1, .kind = StreamKind::kCompute, .instructions = {{Kind::kRun, 3}, {Kind::kRecord, 2}}},
      {.device = 0,
       .kind = StreamKind::kCollective,
       .instructions = {{Kind::kWait, 0}, {Kind::kCollective, 1}, {Kind::kRecord, 1}}}};
  plan.events = 3;
  return plan;
}

TEST(StepModel, HasTheInstructionsOfItsDevice) {
  ASSERT_OK_AND_ASSIGN(const auto model, MakeStepModel(MakePlan(), 0, {{"forward", 3}, {"update", 1}}));
  ASSERT_EQ(model.compute.size(), 4u);  // without the wait for device 1
  EXPECT_EQ(model.compute[0].seconds, 3);
  EXPECT_EQ(model.compute[2].kind, Kind::kWait);
  EXPECT_EQ(model.compute[2].event, 1);
  EXPECT_EQ(model.compute[3].seconds, 1);
  ASSERT_EQ(model.collective.size(), 3u);
  EXPECT_EQ(model.collective[1].bytes, 52);
  EXPECT_DOUBLE_EQ(Simulate(model).seconds, 3 + 52 + 1);
}

TEST(StepModel, AKernelWithoutATimeIsAnError) {
  EXPECT_THAT(MakeStepModel(MakePlan(), 0, {{"forward", 3}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("update")));
}

// The tutorial network on one thread, 128 images in 53.6 ms. Its first bucket are the dense layers, ready 20 ms into
// the step; the second one the convolutions, whose backward pass is the rest of it but for the updates.
StepModel Tutorial() {
  const double dense = 4 * (2304 * 384 + 384 + 384 * 192 + 192 + 192 * 10 + 10);
  const double convolutions = 4 * (5 * 5 * 64 * 64 + 64 + 5 * 5 * 3 * 64 + 64);
  return {.compute = {Kernel(20e-3), Record(0), Kernel(33.3e-3), Record(1), Wait(2), Wait(3), Kernel(0.3e-3)},
          .collective = {Wait(0), Average(dense), Record(2), Wait(1), Average(convolutions), Record(3)}};
}

Link Over(absl::string_view link) { return Link::Find(link).value(); }

Prediction PredictOrFail(const Link& link, int64_t processes, double straggling = 0) {
  return ValueOf(Predict(Tutorial(), link, straggling, processes));
}

// Messages take about as long as over ib100.
Link WithProcessor(double seconds_per_byte) {
  std::vector<LinkPoint> points;
  for (double bytes = 1; bytes < 1e10; bytes *= 2) {
    const double seconds = Over("ib100").Message(bytes).seconds;
    points.push_back({bytes, {.seconds = seconds, .beside = seconds, .processor = bytes * seconds_per_byte}});
  }
  return Link(points, /*sum=*/0);
}

// Exact values: 1 / sqrt(pi), 3 / (2 sqrt(pi)), and by numerical integration.
TEST(ExpectedLargest, OfNormalValues) {
  EXPECT_EQ(ExpectedLargest(1), 0);
  EXPECT_NEAR(ExpectedLargest(2), 0.5642, 0.03);
  EXPECT_NEAR(ExpectedLargest(3), 0.8463, 0.03);
  EXPECT_NEAR(ExpectedLargest(10), 1.5388, 0.03);
  EXPECT_NEAR(ExpectedLargest(1000), 3.2414, 0.03);
}

// Efficiencies by the formulas alone, worked out when the exchange was designed.
TEST(Predict, TutorialNetworkByFormula) {
  const int64_t kProcesses[] = {2, 8, 64, 256, 1000};
  const struct {
    const char* link;
    double efficiency[5];
  } kRows[] = {{"1gbe", {0.93, 0.63, 0.51, 0.37, 0.18}},
               {"10gbe", {0.99, 0.98, 0.93, 0.80, 0.42}},
               {"ib100", {1.00, 1.00, 0.99, 0.98, 0.93}}};
  for (const auto& row : kRows) {
    for (size_t i = 0; i < std::size(kProcesses); ++i) {
      EXPECT_NEAR(PredictOrFail(Over(row.link), kProcesses[i]).efficiency, row.efficiency[i], 0.005)
          << row.link << ", " << kProcesses[i] << " processes";
    }
  }
}

TEST(Predict, OneProcessRunsAsItIs) {
  const Prediction alone = PredictOrFail(Over("1gbe"), 1, /*straggling=*/1);
  EXPECT_DOUBLE_EQ(alone.step, 53.6e-3);
  EXPECT_DOUBLE_EQ(alone.efficiency, 1);
  EXPECT_EQ(alone.exposed, 0);
  EXPECT_STREQ(alone.bound, "computing");
}

TEST(Predict, MoreProcessesAreNeverFasterEach) {
  for (const Link& link : {Over("1gbe"), Over("10gbe"), Over("ib100"), WithProcessor(0.3e-9)}) {
    double last = 0;
    for (int64_t processes = 1; processes <= 4096; processes = processes * 3 / 2 + 1) {
      const Prediction now = PredictOrFail(link, processes, /*straggling=*/1e-3);
      EXPECT_GE(now.step, last) << processes;
      EXPECT_LE(now.efficiency, 1) << processes;
      last = now.step;
    }
  }
}

TEST(Predict, FasterLinksAreNeverSlower) {
  for (const int64_t processes : {2, 64, 1000}) {
    const double medium = PredictOrFail(Over("10gbe"), processes).step;
    EXPECT_GT(PredictOrFail(Over("1gbe"), processes).step, medium);
    EXPECT_GE(medium, PredictOrFail(Over("ib100"), processes).step);
  }
}

TEST(Predict, TheSlowestOfManyIsWaitedFor) {
  const double step = PredictOrFail(Over("ib100"), 1000).step;
  EXPECT_NEAR(PredictOrFail(Over("ib100"), 1000, 2e-3).step, step + 2e-3 * ExpectedLargest(1000), 1e-12);
}

TEST(Predict, SaysWhatBoundsTheStep) {
  EXPECT_STREQ(PredictOrFail(Over("10gbe"), 2).bound, "computing");
  EXPECT_STREQ(PredictOrFail(Over("10gbe"), 1000).bound, "latency");
  EXPECT_STREQ(PredictOrFail(Over("1gbe"), 8).bound, "bandwidth");
  EXPECT_STREQ(PredictOrFail(Over("10gbe"), 8, 50e-3).bound, "stragglers");
  EXPECT_STREQ(PredictOrFail(WithProcessor(1e-9), 8).bound, "processor");
}

TEST(ShortestStep, LatencyFavoursFewBucketsAndBandwidthMany) {
  const double bytes = 4.27e6;
  const StepModel one = {.compute = {Kernel(50e-3), Record(0), Wait(1)},
                         .collective = {Wait(0), Average(bytes), Record(1)}};
  const StepModel two = {
      .compute = {Kernel(20e-3), Record(0), Kernel(30e-3), Record(1), Wait(2), Wait(3)},
      .collective = {Wait(0), Average(bytes / 2), Record(2), Wait(1), Average(bytes / 2), Record(3)}};
  EXPECT_EQ(ShortestStep({one, two}, Over("1gbe"), 2).value(), 1u);
  EXPECT_EQ(ShortestStep({two, one}, Over("10gbe"), 100'000).value(), 1u);
  EXPECT_EQ(ShortestStep({two, one}, Over("1gbe"), 1).value(), 1u);  // all alike: the one with fewer collectives
}

}  // namespace
}  // namespace belfry::benchmarks
