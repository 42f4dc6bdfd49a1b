// Trains a network on CIFAR-10, or on a generated set in the same format, with a tower, or several, on each device.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "optim/variable_filter.h"
#include "trainers/datasets/textures.h"
#include "trainers/flags/command_line.h"
#include "trainers/pictures/picture_program.h"
#include "trainers/recipes/recipes.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a network on CIFAR-10 with a tower, or several, on each device.

  cifar10 --devices=cpu:2                   2,000 steps on a generated set: ten classes of textured shapes
  cifar10 --devices=cpu:2 --data_dir=DIR    4,000 steps on CIFAR-10 in its binary format (DIR/data_batch_1.bin ...)
  cifar10 --devices=cpu:4 --recipe=speedrun --data_dir=DIR   10 epochs, as airbench94 trains
  cifar10 --devices=cpu:4 --recipe=resnet --data_dir=DIR     ResNet-20 as in its paper

--batch_size is the batch of a whole step. It is split evenly over the towers and gradients are averaged, so the number
of devices changes the speed but not the result, up to rounding. Images are randomly cropped, flipped, and changed in
brightness and contrast, depending only on --seed, the step and the image. After training the test accuracy is printed;
--steps=0 prints that of the untrained model. The first run writes the generated set (68 MB) to belfry_textures in the
temporary directory (TMPDIR, or /tmp), where later runs find it.)";

class Cifar10 final : public PictureProgram {
 public:
  explicit Cifar10(Flags& flags) : PictureProgram(flags, /*fixed_loss_scale=*/true) {
    model_ = "cifar_net";
    // All but the first and the last layer.
    recipe_.optimizer.hidden = [](const Variable& variable) {
      return !optim::NameMatches({"conv1/*", "softmax_linear/*", "logits/*"})(variable);
    };
    flags.Section("Model and optimizer");
    flags.AddRecipes(
        CifarRecipes(),
        "A published training: the flags below that it sets, which flags on the command line replace. speedrun: "
        "airbench94_compiled (Jordan, 2024), 9.9 epochs. record: airbench94_muon, 8 epochs. resnet: ResNet-20 as in He "
        "et al., 2016, section 4.2, 64,000 steps. Empty: none.");
    AddModel(
        flags, model_,
        OneOf("models", {"cifar_net", "resnet20", "resnet32", "resnet44", "resnet56", "speedrun_net", "record_net"})
            .Fixed(),
        "cifar_net: the network of TensorFlow's CIFAR-10 tutorial, 1,068,298 parameters. resnet20, resnet32, "
        "resnet44, resnet56: the networks of He et al., 2016, section 4.2. speedrun_net, record_net: those of "
        "--recipe=speedrun and record, which differ in the scale of the logits; the weights of the first layer "
        "come from the first 5,000 images.");
    AddSchedule(flags, recipe_.schedule);
    AddOptimizer(flags, recipe_.optimizer);
    recipe_.AddRates(flags);
    AddLabelSmoothing(flags, label_smoothing_);
    AddMovingAverage(flags, moving_average_);
    AddBatchNorm(flags, batch_norm_);
    flags.Add("bucket_size", &bucket_size_,
              "Bytes of gradients to average together: 65536, 512K, 4M. Empty: 1M for towers on CPUs, 25M for towers "
              "on GPUs. The result does not depend on it, except with --averager=nccl.");
    flags.Section("Data");
    AddDataDir(flags, data_dir_,
               "Directory with CIFAR-10's binary files. Empty or 'generated': a generated set of textured shapes.");
    flags.Add("epochs", &recipe_.epochs, Range(0, 1e6),
              "Passes over the training data, instead of --steps: 9.9. With --lookahead the steps are rounded down to "
              "a multiple of it. 0: --steps.");
    flags.Add("drop_remainder", &drop_remainder_, Fixed("false"), "Leave out the last, smaller batch of each epoch.");
    AddCutout(flags, cutout_, 24);
    AddMixup(flags, mixup_);
    flags.Add("per_pixel_mean", &per_pixel_mean_, Recorded("false"),
              "Subtract the mean of each pixel from the images of a ResNet, as in the paper, instead of normalising "
              "their channels. On the host.");
    flags.Add("evaluate_views", &evaluate_views_, Range(1, 6).Recorded("1"),
              "Views of each test image over which the logits are averaged. 2: the image and its mirror image. 6: both "
              "also moved by a pixel up and left, and down and right.");
    AddAugmentation(flags);
    flags.Add("confusion", &confusion_, "Print the confusion matrix of the classes at the end.");
  }

  absl::Status CheckFlags() const override {
    const Flags& all = flags_.all;
    if (all.IsSet("epochs")) RETURN_IF_ERROR(all.Reject({"steps"}, "a run with --epochs"));
    if (evaluate_views_ != 1 && evaluate_views_ != 2 && evaluate_views_ != 6) {
      return absl::InvalidArgumentError(absl::StrCat("--evaluate_views=", evaluate_views_, " must be 1, 2 or 6"));
    }
    RETURN_IF_ERROR(ParseBytes("bucket_size", bucket_size_).status());
    if (const std::string& update = flags_.variable_update; update != "replicated") {
      RETURN_IF_ERROR(all.Reject({"bucket_size"}, absl::StrCat("a run with --variable_update=", update)));
    }
    const std::string of_model = absl::StrCat("--model=", model_);
    if (model_ == "cifar_net") RETURN_IF_ERROR(all.Reject({"norm_learning_rate", "head_learning_rate"}, of_model));
    if (!IsCifarResNet(model_)) RETURN_IF_ERROR(all.Reject({"per_pixel_mean"}, of_model));
    return recipe_.CheckRates(all);
  }

  absl::Status Configure(ProgramRun& run) override {
    RETURN_IF_ERROR(PictureProgram::Configure(run));
    run.example = "training image";
    run.order.drop_remainder = drop_remainder_;
    ASSIGN_OR_RETURN(run.replicate.bucket_bytes, ParseBytes("bucket_size", bucket_size_));
    if (data_dir_ == "generated") data_dir_.clear();
    // --steps on the command line overrides the epochs of a recipe.
    if (flags_.all.IsSet("steps")) recipe_.epochs = 0;
    OptimizerChoice& optimizer = recipe_.optimizer;
    if (optimizer.momentum < 0 && optimizer.name == "default") optimizer.momentum = IsCifarResNet(model_) ? 0.9 : 0;
    if (!IsSpeedrunNet(model_)) return absl::OkStatus();
    recipe_.whiten_epochs = 3;
    run.replicate.frozen.push_back("whiten/weights");  // which stay as the images have them
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<std::string> Generate(const std::filesystem::path& temporary) const override {
    return data::PlaceTextures((temporary / "belfry_textures").string());
  }

  absl::Status Open(const ProgramRun&, const std::string& folder) override {
    ASSIGN_OR_RETURN(data_, OpenCifar(folder, model_, per_pixel_mean_));
    default_steps_ = data_dir_.empty() ? 2000 : 4000;
    return absl::OkStatus();
  }

  void Report(const ProgramRun& run, const Trainer& trainer) const override {
    const double accuracy = 100 * results_.accuracy;
    if (trainer.steps() == 0) {
      absl::PrintF("Nothing was trained: --steps=0. Test accuracy %.2f%% of the untrained model.\n", accuracy);
    } else {
      const double rate = trainer.examples_per_second();  // 0 if no step was timed
      absl::PrintF("Test accuracy %.2f%% after %s%s.\n", accuracy, Counted(trainer.steps(), "step"),
                   rate > 0 ? absl::StrFormat(", %.0f images/s", rate) : "");
    }
    if (run.training.quiet) return;
    absl::PrintF("Next: --data_dir=DIR for real CIFAR-10, --steps=N, --model=resnet20, --help.\n");
  }

 private:
  bool drop_remainder_ = false;
  std::string bucket_size_ = {};
};

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  Cifar10 program(flags);
  return TrainingMain(argc, argv, kUsage, program.flags(), program);
}
