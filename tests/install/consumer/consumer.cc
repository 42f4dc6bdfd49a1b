// A third party's program: fits a line with two towers, using only the installed headers and libraries.
#include <cmath>
#include <cstdio>

#include "framework/io/summary_writer.h"
#include "framework/runtime/session.h"
#include "models/networks/linear_regression.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"

using namespace belfry;

absl::Status Train(float* loss) {
  auto devices = DeviceSet::Open("cpu:2");
  if (!devices.ok()) return devices.status();
  Graph graph(BuiltinOps());
  const auto model = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    return models::LinearRegression(tower, batch["x"], batch["y"]).loss;
  };
  const models::TrainStep step =
      models::ReplicateTowers(Scope(graph), *devices, {{"x", DType::kFloat32, {}}, {"y", DType::kFloat32, {}}}, model,
                              optim::GradientDescent({.learning_rate = 0.1}));
  auto session = Session::Create(graph, *devices);
  if (!session.ok()) return session.status();
  if (absl::Status status = (*session)->RunTarget(step.initialize); !status.ok()) return status;
  std::vector<FeedSpec> specs = step.towers[0].batch.FeedSpecs(2);
  for (const FeedSpec& spec : step.towers[1].batch.FeedSpecs(1)) specs.push_back(spec);
  auto prepared = (*session)->Prepare(specs, {step.loss}, {step.update});
  if (!prepared.ok()) return prepared.status();
  const std::vector<Tensor> feeds = {Tensor::Of<float>({0, 1}), Tensor::Of<float>({1, 3}), Tensor::Of<float>({2}),
                                     Tensor::Of<float>({5})};
  for (int i = 0; i < 300; ++i) {
    if (absl::Status status = (*prepared)->Run(feeds); !status.ok()) return status;
  }
  *loss = (*prepared)->fetched(0).scalar<float>();
  return absl::OkStatus();
}

// Writes images too, which needs libpng in the installed library.
absl::Status WriteSummary(const std::string& directory, float loss) {
  auto writer = io::SummaryWriter::Open(directory);
  if (!writer.ok()) return writer.status();
  io::Summary summary;
  summary.AddScalar("loss", loss);
  const absl::Status added = summary.AddImages("image", Tensor::Zeros(DType::kUInt8, {2, 2, 1}));
  return added.ok() ? (*writer)->Write(300, summary) : added;
}

int main(int, char** argv) {
  float loss = NAN;
  absl::Status status = Train(&loss);
  if (status.ok()) status = WriteSummary(std::string(argv[0]) + "_events", loss);
  std::printf("%s, loss %g\n", status.ToString().c_str(), loss);
  return status.ok() && loss < 1e-3f ? 0 : 1;
}
