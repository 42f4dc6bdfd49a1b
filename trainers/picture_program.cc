#include "trainers/picture_program.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "framework/data/subset.h"
#include "framework/io/file.h"
#include "ops/array.h"
#include "trainers/callbacks/progress.h"
#include "trainers/datasets/picture_set.h"
#include "trainers/row_split.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kGeneratedSize = 64;

// Mean and deviation of each channel over ImageNet, in units of the bytes, with which published weights were trained.
constexpr float kMean[] = {123.675f, 116.28f, 103.53f}, kDeviation[] = {58.395f, 57.12f, 57.375f};

data::ImagePolicy Normalised() {
  return {.normalise = data::ImagePolicy::Normalise::kPerChannel,
          .mean = {kMean, kMean + 3},
          .deviation = {kDeviation, kDeviation + 3}};
}

// The folder of the data: the given one, or that of the generated set, which the first process of each machine writes.
absl::StatusOr<std::string> Place(const std::string& data_dir, World& world, absl::Time deadline) {
  std::string place = data_dir;
  absl::Status written;
  if (data_dir.empty()) {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    if (error) return absl::UnavailableError(absl::StrCat("No temporary directory (TMPDIR): ", error.message()));
    place = (temporary / absl::StrCat("belfry_pictures_1_", getuid())).string();
    if (world.processes()[world.rank()].local_rank == 0) written = data::WritePictureSet(place);
  }
  RETURN_IF_ERROR(world.AllGather("", deadline).status());
  RETURN_IF_ERROR(written);
  return place;
}

bool HasFolders(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(folder);
  std::error_code error;
  return names.ok() && std::any_of(names->begin(), names->end(), [&](const std::string& name) {
           return fs::is_directory(fs::path(folder) / name, error);
         });
}

// The folders "train" and "val" or "test" of `place`, or all of it with a part drawn for validation.
absl::StatusOr<data::TrainAndTest> OpenSets(const std::string& place, const data::PictureOptions& train,
                                            const data::PictureOptions& test, double fraction, uint64_t seed) {
  const auto folder = [&](const char* name) { return (fs::path(place) / name).string(); };
  data::TrainAndTest sets;
  for (const char* held_out : {"val", "test"}) {
    if (!HasFolders(folder("train")) || !HasFolders(folder(held_out))) continue;
    ASSIGN_OR_RETURN(sets.first, data::OpenImages(folder("train"), train));
    ASSIGN_OR_RETURN(sets.second, data::OpenImages(folder(held_out), test));
    return sets;
  }
  ASSIGN_OR_RETURN(sets, data::OpenImages(place, train, test));
  const RowSplit split = SplitRows(sets.first->size(), fraction, seed);
  if (split.training.empty()) return absl::InvalidArgumentError(absl::StrCat(place, " has too few pictures"));
  sets.first = data::Subset(std::move(sets.first), split.training);
  sets.second = data::Subset(std::move(sets.second), fraction > 0 ? split.held_out : split.training);
  return sets;
}

// The names of the classes, which the field "label" has.
absl::StatusOr<std::vector<std::string>> ClassesOf(const data::Dataset& dataset, const std::string& place) {
  const absl::StatusOr<size_t> label = data::FindField(dataset.fields(), "label");
  const bool named =
      label.ok() && !dataset.fields()[*label].category_names.empty() && dataset.fields()[*label].dtype == DType::kInt32;
  if (named) return dataset.fields()[*label].category_names;
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": expected a folder for each class, or a list with a column 'label' of their names"));
}

}  // namespace

absl::Status PictureProgram::OpenData(ProgramRun& run) {
  network_ = models::FindPictureNetwork(options_.model);
  const bool generated = options_.data_dir.empty();
  if (options_.size == 0) options_.size = generated ? kGeneratedSize : network_->size;
  ASSIGN_OR_RETURN(const std::string place, Place(options_.data_dir, run.world, SteadyNow() + run.start_timeout));
  data::PictureOptions train = options_.pictures;
  train.height = train.width = options_.size;
  const data::PictureOptions test{
      .height = options_.size, .width = options_.size, .central = options_.central, .skip_broken = train.skip_broken};
  ASSIGN_OR_RETURN(data::TrainAndTest sets, OpenSets(place, train, test, options_.validation_fraction, run.order.seed));
  train_ = std::move(sets.first);
  test_ = std::move(sets.second);
  ASSIGN_OR_RETURN(classes_, ClassesOf(*train_, place));
  ASSIGN_OR_RETURN(const std::vector<std::string> held_out, ClassesOf(*test_, place));
  if (held_out != classes_) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": the classes to train on are ",
                                                   absl::StrJoin(classes_, ", "), ", but those to evaluate on are ",
                                                   absl::StrJoin(held_out, ", ")));
  }
  if (!options_.predict.empty()) {
    data::PictureOptions all = test;
    all.skip_broken = false;
    ASSIGN_OR_RETURN(to_predict_, data::OpenPictures(options_.predict, all));
    // A file that cannot be decoded ends the run before it begins.
    for (int64_t i = 0; i < to_predict_->size(); ++i) RETURN_IF_ERROR(data::ReadExample(*to_predict_, i).status());
  }
  run.train = train_.get();
  run.test = test_.get();
  run.training.tasks.data_paths = {place};
  data::ImagePolicy policy = Normalised();
  evaluation_images_ = {{"image", policy}};
  policy.random_flip = true;
  policy.cutout = options_.cutout;
  run.order.images = {{"image", policy}};
  evaluation_batch_ = std::min<int64_t>(64, run.order.batch_size);
  return absl::OkStatus();
}

std::vector<RunSetting> PictureProgram::Settings(const ProgramRun& run) const {
  const bool synchronised = run.replicate.batch_norm == models::BatchNormPolicy::kSynchronised;
  return {{"classes", absl::StrJoin(classes_, ","), /*fixed=*/true},
          {"--picture_cache", options_.pictures.cache.bytes > 0 ? "on" : "off"},
          // Statistics of a tower are those of its share of the batch.
          {"towers", synchronised ? "any" : absl::StrCat(run.order.towers)}};
}

// True if the loss has the weight decay (PictureNetworkOptions); other optimizers apply it themselves.
bool PictureProgram::DecaysInLoss() const {
  const std::string& name = options_.optimizer.name;
  return name == "momentum" || name == "nesterov" || name == "descent";
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> PictureProgram::MakeOptimizer(const ProgramRun& run) const {
  OptimizerChoice choice = options_.optimizer;
  ASSIGN_OR_RETURN(choice.learning_rate,
                   MakeSchedule(options_.schedule, options_.schedule.learning_rate, ScheduledOf(run)));
  choice.weight_decay = DecaysInLoss() ? 0 : options_.weight_decay;
  return trainers::MakeOptimizer(choice);
}

// [N, classes] float32 for any dtype.
absl::StatusOr<Output> PictureProgram::Logits(const Scope& scope, const models::Batch& batch, bool training) const {
  Output images = batch["image"];
  if (options_.dtype != DType::kFloat32) images = ops::Cast(scope.Named("narrow"), images, options_.dtype);
  const Output logits = network_->build(scope, images,
                                        {.classes = static_cast<int64_t>(classes_.size()),
                                         .training = training,
                                         .weight_decay = DecaysInLoss() ? options_.weight_decay : 0});
  return ops::Cast(scope.Named("logits"), logits, DType::kFloat32);
}

std::string PictureProgram::Header(const ProgramRun& run, const models::TrainStep& step) const {
  return absl::StrFormat(
      "Model:    %s, %d parameters\nData:     %d training and %d validation pictures of %d classes, %dx%d\n",
      options_.model, CountParameters(step), run.train->size(), run.test->size(), classes_.size(), options_.size,
      options_.size);
}

absl::Status PictureProgram::Result(const ProgramRun& run, Session& session, const Trainer& trainer) {
  if (trainer.stopped() != 0) return absl::OkStatus();
  if (!run.training.quiet && classes_.size() <= 100) {
    std::printf("\n%s\n", ConfusionTable(results_, classes_, TerminalColumns()).c_str());
  }
  absl::PrintF("Test accuracy %.2f%%, %.2f%% within the first five, after %s.\n", 100 * results_.accuracy,
               100 * results_.top_5, Counted(trainer.steps(), "step"));
  return to_predict_ == nullptr ? absl::OkStatus() : Predict(session);
}

absl::Status PictureProgram::Predict(Session& session) const {
  const ExportedModel model = *Exported();
  if (model.before != nullptr) RETURN_IF_ERROR(session.RunTarget(model.before));
  ASSIGN_OR_RETURN(const auto source, data::Prefetcher::Create(*to_predict_, {.batch_size = evaluation_batch_,
                                                                              .shuffle = false,
                                                                              .epochs = 1,
                                                                              .images = evaluation_images_,
                                                                              .threads = 0}));
  size_t file = 0;
  while (file < options_.predict.size()) {
    ASSIGN_OR_RETURN(const data::Batch batch, source->Next());
    ASSIGN_OR_RETURN(const std::vector<Tensor> logits,
                     session.Run({{model.inputs[0].value, batch.towers()[0].fields[0]}}, {model.outputs[0].value}));
    for (int64_t row = 0; row < batch.examples(); ++row, ++file) {
      const auto width = static_cast<int64_t>(classes_.size());
      const float* const at = logits[0].data<float>() + row * width;
      const float* const best = std::max_element(at, at + width);
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(at[i]) - *best);
      absl::PrintF("%s: %s, %.1f%%\n", options_.predict[file], classes_[best - at], 100 / sum);
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
