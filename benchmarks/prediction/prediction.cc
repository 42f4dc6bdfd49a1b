// Prediction of training in many processes, from the plan and a trace of one CPU tower and the link between the
// processes; and of published speeds of other frameworks by the same simulation.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/main.h"
#include "benchmarks/prediction/link.h"
#include "benchmarks/prediction/published.h"
#include "benchmarks/prediction/traced_tower.h"
#include "benchmarks/report.h"
#include "framework/base/launcher.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "framework/collective/open_world.h"

ABSL_FLAG(std::string, model, "cifar_net", "Model to train; see --model of `training`.");
ABSL_FLAG(int64_t, processes, 1000, "Predict 1, 2, 4 ... processes, up to this number.");
ABSL_FLAG(std::string, link, "10gbe",
          "Link between the processes: 1gbe, 10gbe, ib100, or measured: that between two processes of the launcher "
          "(mpirun -n 2 prediction ...), whose times are printed.");
ABSL_FLAG(int64_t, batch_size, 0, "Examples of each process in a step; 0: the model's default.");
ABSL_FLAG(int, real, 0,
          "With --link=measured, number of steps to time in the processes of the launcher, for the row of their "
          "number. 0: none.");
ABSL_FLAG(bool, published, false, "Predict published speeds of other frameworks instead; nothing is measured.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV. Default: none.");

namespace belfry::benchmarks {
namespace {

constexpr double kGoodEfficiency = 0.9;
constexpr int64_t kMostProcesses = 1'000'000;
constexpr absl::Duration kStart = absl::Minutes(5);  // for processes to meet

// Measurements of the processes that a launcher started.
struct Measured {
  TracedTower tower;
  std::string model;
  int64_t batch = 0;
  int64_t processes = 1;
  std::optional<double> step;  // seconds, of that many processes
};

absl::StatusOr<Report> MakeReport(const Measured& measured, const Link& link) {
  std::vector<StepModel> models;
  for (const BucketedStep& step : measured.tower.steps) models.push_back(step.model);
  const std::string what =
      absl::StrCat(measured.model, ", ", measured.batch, " examples a process, over ", absl::GetFlag(FLAGS_link));
  const double straggling = measured.tower.straggling;
  Report report("prediction",
                absl::StrFormat("Prediction for %s: %.3f MiB of each tower averaged in %s, %s ms of standard "
                                "deviation of a step",
                                what, models[0].bytes() / kMebi, Counted(models[0].collectives(), "bucket"),
                                ShortNumber(straggling * 1e3)));
  const int64_t most = absl::GetFlag(FLAGS_processes);
  int64_t efficient = 1;
  for (int64_t count = 1; count <= most; count = count < most ? std::min(2 * count, most) : most + 1) {
    ASSIGN_OR_RETURN(const Prediction prediction, Predict(models[0], link, straggling, count));
    const double images = static_cast<double>(count * measured.batch);
    nlohmann::ordered_json row = {{"processes", count},
                                  {"step_ms", prediction.step * 1e3},
                                  {"images/s", images / prediction.step},
                                  {"efficiency", prediction.efficiency},
                                  {"exposed_ms", prediction.exposed * 1e3},
                                  {"bound_by", prediction.bound}};
    if (prediction.efficiency >= kGoodEfficiency) efficient = count;
    if (count > 1) {
      ASSIGN_OR_RETURN(const size_t best, ShortestStep(models, link, count));
      ASSIGN_OR_RETURN(const Prediction with, Predict(models[best], link, straggling, count));
      row["best_bucket_KiB"] = static_cast<int64_t>(measured.tower.steps[best].bucket_bytes >> 10);
      row["best_step_ms"] = with.step * 1e3;
    } else {
      row["measured_ms"] = measured.tower.alone * 1e3;
    }
    if (measured.step.has_value() && count == measured.processes) {
      row["real_ms"] = *measured.step * 1e3;
      row["error"] = prediction.step / *measured.step - 1;
    }
    report.Add(std::move(row));
  }
  report.Summarize(absl::StrFormat("%s: an efficiency of %.1f or more up to %s", what, kGoodEfficiency,
                                   efficient == 1 ? "1 process" : absl::StrCat(efficient, " processes")));
  return report;
}

// Processes of a launcher trace at the same time, since those of one machine may slow each other.
absl::Status PredictIn(World& world, const Link& link) {
  ASSIGN_OR_RETURN(const BenchModel model, FindModel(absl::GetFlag(FLAGS_model)));
  const TrainingOptions training{
      .model = absl::GetFlag(FLAGS_model),
      .device = {.cpu_threads = 1, .ignore_launcher = true},
      .batch = absl::GetFlag(FLAGS_batch_size) > 0 ? absl::GetFlag(FLAGS_batch_size) : model.batch};
  RETURN_IF_ERROR(world.AllGather("", SteadyNow() + kStart).status());
  Measured measured{.model = training.model, .batch = training.batch, .processes = world.size()};
  ASSIGN_OR_RETURN(measured.tower, TraceTower(training));
  RETURN_IF_ERROR(TakeSlowest(world, measured.tower));
  if (const int steps = absl::GetFlag(FLAGS_real); steps > 0) {
    ASSIGN_OR_RETURN(measured.step, TimeStep(world, training, steps));
  }
  if (world.rank() != 0) return absl::OkStatus();
  if (!link.points().empty()) {
    std::printf("# bytes, seconds both ways at once over %s, beside computing, of computing lost\n",
                world.library().c_str());
  }
  for (const auto& [bytes, cost] : link.points()) {
    std::printf("%.0f %.9f %.9f %.9f\n", bytes, cost.seconds, cost.beside, cost.processor);
  }
  ASSIGN_OR_RETURN(const Report report, MakeReport(measured, link));
  return report.Finish(absl::GetFlag(FLAGS_out));
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_published)) {
    ASSIGN_OR_RETURN(const Report report, ComparePublished());
    return report.Finish(absl::GetFlag(FLAGS_out));
  }
  if (const int64_t most = absl::GetFlag(FLAGS_processes); most < 1 || most > kMostProcesses) {
    return absl::InvalidArgumentError(absl::StrCat("--processes=", most, " must be from 1 to ", kMostProcesses));
  }
  const std::string name = absl::GetFlag(FLAGS_link);
  if (name != "measured") {
    if (absl::GetFlag(FLAGS_real) != 0) return absl::InvalidArgumentError("--real needs --link=measured");
    const absl::StatusOr<Link> link = Link::Find(name);
    if (!link.ok()) return absl::InvalidArgumentError(absl::StrCat("--link: ", link.status().message()));
    return PredictIn(*World::Alone(), *link);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<World> world, OpenWorld(FindLaunch(), SteadyNow() + kStart));
  ASSIGN_OR_RETURN(const Link link, MeasureLink(*world, SteadyNow() + kStart));
  const absl::Status status = PredictIn(*world, link);
  if (!status.ok()) world->Fail(status);
  return status.ok() ? world->Close(SteadyNow() + kStart) : status;
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Predicts training speed by number of processes.",
                                          belfry::benchmarks::Run);
}
