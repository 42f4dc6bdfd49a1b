#include "benchmarks/prediction/published.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmarks/prediction/step_model.h"
#include "framework/base/status.h"

namespace belfry::benchmarks {
namespace {

// The ring that a run's all-reduces go round: `processes` GPUs on `nodes` machines.
struct PublishedRing {
  int processes = 1;
  int nodes = 1;
  double bandwidth = 0;  // bytes a second of the slowest link, one direction
};

// Two speeds of one program.
struct PublishedRun {
  const char* framework = "";
  const char* system = "";
  const char* model = "";
  double megabytes = 0;  // of gradients, 1e6 bytes
  int batch = 0;         // images of each process
  PublishedRing base;
  double base_rate = 0;  // images/s
  PublishedRing ring;
  double rate = 0;  // images/s, the one to predict
};

constexpr double kMega = 1e6;
constexpr double kBucketMegabytes = 25;
constexpr double kTolerance = 0.05;

// NCCL's src/graph/topo.h, in bytes a second for 4, 6 and 12 NVLinks; dual HDR 200 for each node of four GPUs, and
// 25 Gbit/s Ethernet.
constexpr double kP100 = 72e9, kV100 = 120e9, kA100 = 240e9, kHdr = 46e9, kEthernet = 3e9;
// NCCL's src/graph/tuning.cc, ring with protocol Simple: seconds of a message by NVLink, and by network.
constexpr double kNvlinkHop = 3.4e-6, kNetworkHop = 14e-6;

// Gradients in megabytes: 4 bytes for each of 25.56 million parameters of ResNet-50, 138.4 of VGG-16, 61.1 of AlexNet
// and 23.8 of Inception-v3; 2 bytes where they are averaged in 16 bits.
constexpr double kResNet = 102, kResNet16 = 51, kVgg = 553, kAlexNet = 244, kInception = 95;

// TensorFlow 1: tensorflow/docs_src/performance/benchmarks.md of May 2017. MXNet, TensorFlow with XLA, PyTorch:
// NVIDIA/DeepLearningExamples at 729963d. MLPerf: mlcommons/training_results_v3.0, Dell's ResNet-50. Horovod: the
// efficiencies of its docs/benchmarks.rst, with TensorFlow's speed of one P100 as a base, which is an assumption.
constexpr PublishedRun kRuns[] = {
    {"TensorFlow 1", "DGX-1 P100", "VGG-16", kVgg, 64, {}, 154, {2, 1, kP100}, 295},
    {"TensorFlow 1", "DGX-1 P100", "VGG-16", kVgg, 64, {}, 154, {4, 1, kP100}, 584},
    {"TensorFlow 1", "DGX-1 P100", "VGG-16", kVgg, 64, {}, 154, {8, 1, kP100}, 1081},
    {"TensorFlow 1", "DGX-1 P100", "VGG-16", kVgg, 32, {}, 144, {8, 1, kP100}, 820},
    {"TensorFlow 1", "DGX-1 P100", "AlexNet", kAlexNet, 512, {}, 2987, {8, 1, kP100}, 17822},
    {"MXNet", "DGX-1 V100", "ResNet-50, mixed", kResNet16, 192, {}, 1376, {2, 1, kV100}, 2768},
    {"MXNet", "DGX-1 V100", "ResNet-50, mixed", kResNet16, 192, {}, 1376, {4, 1, kV100}, 5357},
    {"MXNet", "DGX-1 V100", "ResNet-50, mixed", kResNet16, 192, {}, 1376, {8, 1, kV100}, 10723},
    {"MXNet", "DGX-1 V100", "ResNet-50", kResNet, 96, {}, 384, {8, 1, kV100}, 3005},
    {"MXNet", "DGX-2 V100", "ResNet-50, mixed", kResNet16, 256, {}, 1492, {8, 1, kV100}, 11368},
    {"MXNet", "DGX-2 V100", "ResNet-50, mixed", kResNet16, 256, {}, 1492, {16, 1, kV100}, 21484},
    {"MXNet", "DGX-2 V100", "ResNet-50", kResNet, 128, {}, 417, {16, 1, kV100}, 6338},
    {"MXNet", "DGX A100", "ResNet-50, mixed", kResNet16, 512, {}, 3411, {4, 1, kA100}, 13443},
    {"MXNet", "DGX A100", "ResNet-50, mixed", kResNet16, 512, {}, 3411, {8, 1, kA100}, 26674},
    {"TensorFlow 1, XLA", "DGX A100", "ResNet-50, mixed", kResNet16, 256, {}, 2375, {8, 1, kA100}, 17400},
    {"TensorFlow 1, XLA", "DGX-2 V100", "ResNet-50, mixed", kResNet16, 256, {}, 1300, {16, 1, kV100}, 17250},
    {"PyTorch DDP", "DGX A100", "ResNet-50, mixed", kResNet, 256, {}, 2470, {8, 1, kA100}, 16621},
    {"PyTorch DDP", "DGX A100", "ResNet-50, TF32", kResNet, 256, {}, 938, {8, 1, kA100}, 7248},
    {"MLPerf v3.0", "2 x 4 A100-80", "ResNet-50", kResNet16, 408, {4, 1, kA100}, 13895, {8, 2, kHdr}, 26738},
    {"MLPerf v3.0", "4 x 4 A100-40", "ResNet-50", kResNet16, 204, {8, 2, kHdr}, 22657, {16, 4, kHdr}, 44931},
    {"MLPerf v3.0", "16 x 4 A100-40", "ResNet-50", kResNet16, 204, {8, 2, kHdr}, 22657, {64, 16, kHdr}, 174962},
    {"Horovod", "128 x 4 P100", "VGG-16", kVgg, 64, {}, 154, {512, 128, kEthernet}, 53617},
    {"Horovod", "128 x 4 P100", "Inception-v3", kInception, 64, {}, 142, {512, 128, kEthernet}, 65434},
};

// A ring's messages in one direction: two go over each node's network, the rest over NVLink.
Link LinkOf(const PublishedRing& ring) {
  if (ring.processes == 1) return {};
  const double hops = 2.0 * (ring.processes - 1), between = ring.nodes > 1 ? 2.0 * ring.nodes : 0;
  return Link::Linear(((hops - between) * kNvlinkHop + between * kNetworkHop) / hops, ring.bandwidth);
}

StepModel ModelOf(double megabytes, double compute) {
  const int buckets = static_cast<int>(std::ceil(megabytes / kBucketMegabytes));
  StepModel model;
  model.compute.push_back(ModelInstruction::Run(compute / 3));
  for (int i = 0; i < buckets; ++i) {
    model.compute.push_back(ModelInstruction::Run(compute * 2 / 3 / buckets));
    model.compute.push_back(ModelInstruction::Record(i));
    model.collective.push_back(ModelInstruction::Wait(i));
    model.collective.push_back(ModelInstruction::Collective(megabytes * kMega / buckets));
  }
  return model;
}

// Images a second; `host`: seconds that are added to each step of several processes.
absl::StatusOr<double> RateOf(const PublishedRun& run, const PublishedRing& ring, double compute, double host) {
  ASSIGN_OR_RETURN(const Prediction prediction,
                   Predict(ModelOf(run.megabytes, compute), LinkOf(ring), /*straggling=*/0, ring.processes));
  return ring.processes * run.batch / (prediction.step + (ring.processes > 1 ? host : 0));
}

absl::StatusOr<double> PredictRun(const PublishedRun& run, double host) {
  double low = 0, high = run.base.processes * run.batch / run.base_rate;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    ASSIGN_OR_RETURN(const double rate, RateOf(run, run.base, middle, host));
    (rate > run.base_rate ? low : high) = middle;
  }
  return RateOf(run, run.ring, high, host);
}

// The host constant of the runs of a framework, without `left_out`; 0 if none counts.
absl::StatusOr<double> FitHost(absl::string_view framework, const PublishedRun* left_out) {
  double sum = 0, weights = 0;
  for (const PublishedRun& run : kRuns) {
    if (run.framework != framework || &run == left_out || run.base.processes > 1) continue;
    ASSIGN_OR_RETURN(const double rate, PredictRun(run, 0));
    const double images = run.ring.processes * run.batch, published = images / run.rate;
    sum += (published - images / rate) / (published * published);
    weights += 1 / (published * published);
  }
  return weights > 0 ? std::max(sum / weights, 0.0) : 0.0;
}

}  // namespace

absl::StatusOr<Report> ComparePublished() {
  Report report("published", "Published speeds and predicted ones, with one host constant a framework: images/s, ms");
  int within = 0, others_within = 0, bare_within = 0;
  for (const PublishedRun& run : kRuns) {
    ASSIGN_OR_RETURN(const double host, FitHost(run.framework, nullptr));
    ASSIGN_OR_RETURN(const double host_of_others, FitHost(run.framework, &run));
    ASSIGN_OR_RETURN(const double predicted, PredictRun(run, host));
    ASSIGN_OR_RETURN(const double by_others, PredictRun(run, host_of_others));
    ASSIGN_OR_RETURN(const double bare, PredictRun(run, 0));
    const auto error = [&](double rate, int& count) {
      const double relative = rate / run.rate - 1;
      if (std::abs(relative) <= kTolerance) ++count;
      return relative;
    };
    report.Add({{"framework", run.framework},
                {"system", run.system},
                {"model", run.model},
                {"processes", run.ring.processes},
                {"published", run.rate},
                {"predicted", predicted},
                {"host_ms", host * 1e3},
                {"error", error(predicted, within)},
                {"error_by_others", error(by_others, others_within)},
                {"error_without", error(bare, bare_within)}});
  }
  report.Summarize(absl::StrCat(within, " of ", std::size(kRuns), " published speeds are predicted to 5 %; ",
                                others_within, " with the constant of the framework's other runs, ", bare_within,
                                " without one"));
  return report;
}

}  // namespace belfry::benchmarks
