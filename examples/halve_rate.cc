// A callback of one's own: halves the learning rate when an evaluation is no better than the best one, and ends the run
// when the rate is small. `halve_rate [FOLDER]`; started again with the same folder it goes on (docs/training.md).
#include <cstdio>
#include <string>

#include "belfry.h"
#include "waves.h"

using namespace belfry;

class HalveRate final : public trainers::Callback {
 public:
  explicit HalveRate(double rate) : rate_(rate) {}
  absl::Status OnEvaluation(trainers::TrainingState& state) override {
    if (state.best.evaluations_since() == 0) return absl::OkStatus();
    rate_ /= 2;
    state.Print(absl::StrCat("nothing better, so the learning rate is now ", rate_));
    if (rate_ < 1e-3) state.End("the learning rate is small");
    return optim::SetLearningRate(state.session, rate_);
  }
  void Store(const trainers::TrainingState&, io::Metadata& metadata) const override {
    metadata["halve_rate"] = absl::StrCat(rate_);
  }
  void Load(const io::Metadata& metadata) override {
    if (auto stored = metadata.find("halve_rate"); stored != metadata.end()) rate_ = std::stod(stored->second);
  }

 private:
  double rate_;
};

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  Output guess = models::Mlp(tower, batch["x"], {.hidden = {32, 32}, .classes = 1});
  return Mean(Square(Squeeze(guess, {1}) - batch["y"]));
}

absl::Status Train(const std::string& folder) {
  const Waves examples(2000);
  const double rate = 0.02;
  HalveRate halve(rate);
  trainers::TrainerOptions options{.steps = 10'000, .evaluate_every = 100, .directory = folder};
  options.callbacks = {&halve};
  options.resume.latest = !folder.empty();
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:1"));
  ASSIGN_OR_RETURN(auto input, data::Prefetcher::Create(examples, {.batch_size = 100}));
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = optim::Adjustable(rate)});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam);

  Scope scope = Scope(graph).NameScope("evaluation").ReuseVariables(Reuse::kAlways);
  models::Batch batch(scope, input->fields());
  ASSIGN_OR_RETURN(Output loss, Loss(scope, batch));
  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  const Waves others(333);  // points between those of the training
  options.evaluate = [&](int64_t) -> absl::StatusOr<trainers::Evaluation> {
    ASSIGN_OR_RETURN(auto all, data::Prefetcher::Create(others, {.batch_size = others.size(), .shuffle = false}));
    ASSIGN_OR_RETURN(data::Batch read, all->Next());
    ASSIGN_OR_RETURN(auto result, session->Run(batch.Feeds(read.towers()[0]), {loss}));
    return trainers::Evaluation{.examples = others.size(), .metrics = {{"loss", result[0].scalar<float>()}}};
  };
  return trainers::Trainer(*session, step, *input, options).Run();
}

int main(int argc, char** argv) {
  absl::Status status = Train(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
