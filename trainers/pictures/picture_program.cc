#include "trainers/pictures/picture_program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/io/utf8.h"
#include "models/layers/views.h"
#include "ops/array.h"
#include "trainers/callbacks/progress.h"
#include "trainers/loop/dealt_batches_impl.h"

namespace belfry::trainers {

void PictureProgram::AddAugmentation(Flags& flags) {
  augment_on_ = "auto";
  flags.Add("augment_on", &augment_on_, OneOf("places", {"auto", "host", "device"}),
            "Who crops, flips and normalises the training images. host: the threads that make batches. device: the "
            "step, on each tower's device, which is fed the images' bytes. auto: device for GPUs, except with "
            "--mixup; host for CPUs. Random numbers are the same, and results differ by rounding at most.");
  flags.Add("data_on_device", &data_on_device_,
            "Keep all training images in the memory of each device, and feed steps labels and positions only. "
            "CIFAR-10 takes 154 MB of each GPU, as much again for the smaller batch at the end of an epoch, and as "
            "much of the host's memory.");
}

// --augment_on and --data_on_device.
absl::StatusOr<data::AugmentBy> PictureProgram::Augment(const DeviceSet& devices) const {
  const char* const on_host = mixup_ > 0              ? "--mixup, which mixes images on the host"
                              : per_pixel_mean_       ? "--per_pixel_mean, which is subtracted on the host"
                              : augment_on_ == "host" ? "--augment_on=host: the host has no images to augment"
                                                      : nullptr;
  if (on_host != nullptr && (augment_on_ == "device" || data_on_device_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(data_on_device_ ? "--data_on_device" : "--augment_on=device", " excludes ", on_host));
  }
  if (data_on_device_) return data::AugmentBy::kStepFromResident;
  const auto is_gpu = [&](int device) { return devices.device(device).type() == "GPU"; };
  const bool automatic = on_host == nullptr && absl::c_all_of(devices.TowerDevices(), is_gpu);
  return augment_on_ == "device" || automatic ? data::AugmentBy::kStep : data::AugmentBy::kWorkers;
}

absl::Status PictureProgram::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(evaluation_.Take(run));
  run.training.unit = "images";
  ASSIGN_OR_RETURN(run.order.augment, Augment(run.devices));
  run.order.mixup = mixup_;
  mixes_ = mixup_ > 0;
  run.replicate.moving_average = moving_average_;
  ASSIGN_OR_RETURN(run.replicate.batch_norm, models::ParseBatchNormPolicy(batch_norm_));
  ASSIGN_OR_RETURN(dtype_, precision_.Take(run.replicate));
  return absl::OkStatus();
}

absl::Status PictureProgram::OpenData(ProgramRun& run) {
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  const auto place = [&]() -> absl::StatusOr<std::string> {
    if (!data_dir_.empty()) return data_dir_;
    if (!error) return Generate(temporary);
    return absl::UnavailableError(absl::StrCat("No temporary directory (TMPDIR): ", error.message()));
  };
  const bool first = run.world.processes()[run.world.rank()].local_rank == 0;
  absl::StatusOr<std::string> folder;
  if (first) folder = place();
  RETURN_IF_ERROR(run.world.AllGather("", SteadyNow() + run.start_timeout).status());
  if (!first) folder = place();
  RETURN_IF_ERROR(folder.status());
  RETURN_IF_ERROR(Open(run, *folder));
  data_.training.cutout = cutout_;
  run.order.images = {{"image", data_.training}};
  evaluation_images_ = {{"image", data_.evaluation}};
  run.train = data_.sets.first.get();
  run.test = data_.sets.second.get();
  run.training.tasks.data_paths = {*folder};
  return recipe_.TakeSteps(flags_.StepsOr(default_steps_), run);
}

std::vector<RunSetting> PictureProgram::Settings(const ProgramRun& run) const {
  if (!data_.batch_norms) return {};
  // Statistics of a tower are those of its share of the batch.
  return {{"towers", batch_norm_ == "per_tower" ? absl::StrCat(run.order.towers) : "any"}};
}

// [N, classes] float32 for any dtype.
absl::StatusOr<Output> PictureProgram::Logits(const Scope& scope, const models::Batch& batch, bool training) const {
  Output images = batch["image"];
  if (dtype_ != DType::kFloat32) images = ops::Cast(scope.Named("narrow"), images, dtype_);
  return models::AverageOverViews(scope, images, training ? 1 : evaluate_views_, [&](Output views) {
    const Output logits = data_.network(scope, views, training);
    return ops::Cast(scope.Named("logits"), logits, DType::kFloat32);
  });
}

std::string PictureProgram::Header(const ProgramRun&, const models::TrainStep& step) const {
  return absl::StrFormat("Model:    %s, %d parameters\nData:     %s\n", model_, CountParameters(step), data_.text);
}

absl::Status PictureProgram::Result(const ProgramRun& run, Session& session, const Trainer& trainer) {
  if (trainer.stopped() != 0) return absl::OkStatus();
  if (!run.training.quiet && confusion_ && data_.classes.size() <= 100) {
    std::printf("\n%s\n", ConfusionTable(results_, data_.classes, TerminalColumns()).c_str());
  }
  Report(run, trainer);
  return data_.to_predict == nullptr ? absl::OkStatus() : Predict(session);
}

absl::Status PictureProgram::Predict(Session& session) const {
  const ExportedModel model = *Exported();
  auto file = data_.predict.begin();
  const auto predict = [&](const data::Batch& batch) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<Tensor> logits,
                     session.Run({{model.inputs[0].value, batch.towers()[0].fields[0]}}, {model.outputs[0].value}));
    const float* at = logits[0].data<float>();
    for (int64_t row = 0; row < batch.examples(); ++row, at += data_.classes.size()) {
      const float* const end = at + data_.classes.size();
      const float* const best = std::max_element(at, end);
      double sum = 0;
      for (const float* i = at; i < end; ++i) sum += std::exp(static_cast<double>(*i) - *best);
      absl::PrintF("%s: %s, %.1f%%\n", io::Printable(*file++), io::Printable(data_.classes[best - at]), 100 / sum);
    }
    return absl::OkStatus();
  };
  return ForDealtBatches(*data_.to_predict, evaluation_images_, evaluation_batch_, /*world=*/nullptr, predict);
}

}  // namespace belfry::trainers
