// Learns to say whether the first sign of a text comes again as its last, in texts of 2 to 60 signs, and tells how
// often it is right about new ones: sequence_classifier [STEPS]
#include <cstdio>
#include <cstdlib>
#include <random>

#include "belfry.h"

using namespace belfry;

constexpr int kSigns = 4;

// Texts of signs, and whether the first sign equals the last, which half of them have.
absl::StatusOr<std::unique_ptr<data::SequenceDataset>> MakeTexts(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> lengths, signs, same;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(2 + static_cast<int32_t>(random() % 59));
    const size_t first = signs.size();
    for (int t = 0; t < lengths.back(); ++t) signs.push_back(static_cast<int32_t>(random() % kSigns));
    same.push_back(static_cast<int32_t>(random() % 2));
    const int32_t other = 1 + static_cast<int32_t>(random() % (kSigns - 1));
    signs.back() = (signs[first] + (same.back() == 1 ? 0 : other)) % kSigns;
  }
  return data::FromSequences(Tensor::Of<int32_t>(lengths, {count}),
                             {{"sign", Tensor::Of<int32_t>(signs, {static_cast<int64_t>(signs.size())}), kSigns}},
                             {{"same", Tensor::Of<int32_t>(same, {count}), 2}});
}

// Signs [N, T], padded, and the lengths of the texts to logits [N, 2].
Output Model(const Scope& scope, const models::Batch& batch) {
  Output signs = models::Embedding(scope, "signs", batch["sign"], kSigns, 8);
  models::RecurrentStackOutputs lstm =
      models::LstmStack(scope, "lstm", signs, 24, {.bidirectional = true, .lengths = batch["length"]});
  // The states after the last step of each direction: the last sign forwards, the first one backwards.
  Output both = models::Dense(scope, "both", lstm.hidden.back(), 32, {.activation = models::Activation::kRelu});
  return models::Dense(scope, "logits", both, 2);
}

absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) {
  return models::AddCrossEntropy(tower, Model(tower, batch), batch["same"]);
}

absl::Status Train(int64_t steps) {
  ASSIGN_OR_RETURN(auto texts, MakeTexts(4000, 1));
  ASSIGN_OR_RETURN(DeviceSet devices, DeviceSet::Open("cpu:2"));
  ASSIGN_OR_RETURN(auto input, data::BucketBatcher::Create(*texts, {.batch_size = 100, .towers = 2}));
  std::printf("%.0f%% of the steps in batches are padding\n", 100 * input->padding());
  Graph graph(BuiltinOps());
  optim::Adam adam({.learning_rate = 0.01});
  models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, Loss, adam);

  Scope scope = Scope(graph).NameScope("test").ReuseVariables(Reuse::kAlways);
  models::Batch asked(scope, input->fields());
  Output right = Sum(models::Correct(scope, Model(scope, asked), asked["same"]));

  ASSIGN_OR_RETURN(auto session, Session::Create(graph, devices));
  RETURN_IF_ERROR(trainers::Trainer(*session, step, *input, {.steps = steps}).Run());
  ASSIGN_OR_RETURN(auto new_texts, MakeTexts(1000, 2));
  ASSIGN_OR_RETURN(auto test, data::BucketBatcher::Create(*new_texts, {.batch_size = 100}));
  double sum = 0;
  for (int64_t i = 0; i < test->batches_per_epoch(); ++i) {
    ASSIGN_OR_RETURN(data::Batch batch, test->Next());
    ASSIGN_OR_RETURN(auto result, session->Run(asked.Feeds(batch.towers()[0]), {right}));
    sum += result[0].scalar<float>();
  }
  std::printf("right about %.1f%% of new texts\n", sum / 10);
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  absl::Status status = Train(argc > 1 ? std::atoll(argv[1]) : 500);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
