// Fits a wave in one process or several: `several_tasks FOLDER [STEPS]`, or `mpirun -n 2 several_tasks FOLDER`. Started
// again with the same folder it goes on where it stopped, also with another number of processes (docs/machines.md).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "belfry.h"
#include "waves.h"

using namespace belfry;

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output guess = models::Mlp(tower, batch["x"], {.hidden = {32, 32}, .classes = 1});
  return Mean(Square(Squeeze(guess, {1}) - batch["y"]));
}

// One task of the run. Returns the signal that stopped it, or 0.
absl::StatusOr<int> Train(World& world, const std::string& folder, int64_t steps) {
  ASSIGN_OR_RETURN(DeviceSet devices, trainers::OpenDevices(world, "cpu:1"));
  const int local = static_cast<int>(devices.TowerDevices().size());
  ASSIGN_OR_RETURN(TowersOfWorld towers, TowersOfWorld::Gather(world, local, SteadyNow() + trainers::kTaskTimeout));
  const int first = towers.first[world.rank()];

  const Waves examples(2000);  // each task reads the same, and takes its towers' shares of each batch
  data::PrefetcherOptions order{
      .batch_size = 100, .towers = towers.total(), .first_tower = first, .local_towers = local};
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(examples, order));

  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = 0.01});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam,
                                                   {.first_tower = first, .towers = towers.total()});
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices, {.collectives = WorldCollectives(world, towers)}));
  trainers::StopSignals signals;
  trainers::TrainerOptions options{.world = &world, .steps = steps, .directory = folder, .resume = {.latest = true}};
  options.stop = &trainers::StopSignals::noted;
  trainers::Trainer trainer(*session, step, *input, options);
  RETURN_IF_ERROR(trainer.Run());
  return trainer.stopped();
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: several_tasks FOLDER [STEPS]\n");
    return 2;
  }
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 1000;
  absl::StatusOr<int> stopped = trainers::RunInWorld([&](World& world) { return Train(world, argv[1], steps); });
  if (!stopped.ok()) std::fprintf(stderr, "%s\n", stopped.status().ToString().c_str());
  return stopped.ok() ? (*stopped == 0 ? 0 : 128 + *stopped) : 1;
}
