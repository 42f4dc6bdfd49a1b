// Trains a transformer to predict the next token of a text, with a tower, or several, on each device.
#include <limits>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/optimizer_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/flags/run_flags.h"
#include "trainers/language_program.h"

ABSL_FLAG(std::string, model, "tiny",
          "Sizes of the transformer: tiny (2 layers, width 64), small (6 layers, width 384), or those of GPT-2: gpt2, "
          "gpt2-medium, gpt2-large, gpt2-xl.");
ABSL_FLAG(int64_t, layers, 0, "Layers; 0: those of --model.");
ABSL_FLAG(int64_t, heads, 0, "Heads of attention, which divide the width; 0: those of --model.");
ABSL_FLAG(int64_t, width, 0, "Width of the layers; 0: that of --model.");
ABSL_FLAG(int64_t, context, 0, "Tokens that a prediction looks back on, at most; 0: as --model has.");
ABSL_FLAG(double, dropout, 0, "Rate of dropout after the embedding and every block.");
ABSL_FLAG(std::string, dtype, "float32",
          "Type in which the network computes: float32, bfloat16 or float16 (with a dynamic loss scale). Weights and "
          "updates are float32 in any case.");
ABSL_FLAG(double, learning_rate, 3e-3, "Peak learning rate.");
ABSL_FLAG(int64_t, warmup_steps, 100, "Steps over which the learning rate rises to its peak.");
ABSL_FLAG(std::string, schedule, "cosine",
          "Learning rate after the warm-up. cosine: half a cosine, down to a tenth at --steps. constant.");
ABSL_FLAG(double, weight_decay, 0.1, "Weight decay of matrices, times the learning rate.");
ABSL_FLAG(double, label_smoothing, 0,
          "Share of the target that is spread evenly over the classes, of the training loss: 0.1 is usual; 0: none.");
ABSL_FLAG(double, clip_norm, 1, "Global norm to which gradients are clipped; 0: no clipping.");
ABSL_FLAG(std::string, data_dir, "",
          "A text file, a file of tokens (*.bin, *.npy), or a folder of them. Files whose names have the word 'train' "
          "are for training, and those with 'val' for evaluation; otherwise the last tenth is held out. Empty: a "
          "generated language.");
ABSL_FLAG(int64_t, vocabulary, 50'257, "Vocabulary of files of tokens.");
ABSL_FLAG(int, token_bits, 16, "Bits of a token in files without a header: 16 or 32.");
ABSL_FLAG(
    std::string, tokenizer, "",
    "Tokenizer of text and prompts: a file tokenizer.json, vocab.json with merges.txt beside it, or a folder with "
    "either, of a byte-level BPE such as those of GPT-2 and Llama 3. Empty: bytes.");
ABSL_FLAG(int64_t, sample, 200,
          "Tokens of text to make up after training, with --restore_best by the best model; 0: none. With --steps=0 "
          "and the --train_dir "
          "of an earlier run, that is all that is done.");
ABSL_FLAG(std::string, prompt, "",
          "The beginning of that text; for files of tokens without --tokenizer their numbers, separated by "
          "commas. Empty: none.");
ABSL_FLAG(double, temperature, 1, "Divides the logits before a token is drawn; 0: always the likeliest one.");
ABSL_FLAG(int64_t, top_k, 0, "Draw among the k likeliest tokens only; 0: among all.");
ABSL_FLAG(double, top_p, 1,
          "Draw among the likeliest tokens only, as few as have this probability together; 1: among all.");
ABSL_FLAG(
    bool, export_step, false,
    "Let --export save a model that predicts token by token, with the keys and values of earlier tokens as inputs "
    "and outputs, for making text (docs/saved_models.md).");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a transformer to predict the next token, with a tower, or several, on each device.

  language_model --devices=cpu:2                      a generated language, whose entropy no model can fall below
  language_model --devices=cpu:2 --data_dir=book.txt  text, byte by byte
  language_model --devices=gpu:4 --model=gpt2 --data_dir=DIR --dtype=bfloat16 --learning_rate=6e-4 --batch_size=64
                                                      DIR/train.bin and DIR/val.bin: tokens of 16 bits, as nanoGPT's
                                                      and llm.c's

  language_model --devices=cpu:2 --data_dir=book.txt --tokenizer=gpt2 --model=gpt2 --init_from=gpt2/model.safetensors
                                                      GPT-2 goes on training on a text, in its own tokens; with
                                                      --steps=0 --prompt="Once upon a time" it only speaks

--batch_size counts windows of --context tokens, over all towers. After training the loss on held-out text is printed,
in nats and in bits, with a sample.)";

constexpr int64_t kGeneratedSteps = 1500, kTextSteps = 5000;
constexpr int64_t kMaxSize = 1 << 20;  // of heads, width and context
constexpr int64_t kMaxLayers = 4096;   // some eighty nodes each, in a graph that is built before its memory is known

class LanguageModel final : public LanguageProgram {
 public:
  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  absl::Status OpenData(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;
  absl::Status Resume(ProgramRun& run) override;
};

absl::Status LanguageModel::CheckFlags() const {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(CheckFlag("warmup_steps", absl::GetFlag(FLAGS_warmup_steps), 0, kNoLimit));
  RETURN_IF_ERROR(CheckFlag("sample", absl::GetFlag(FLAGS_sample), 0, kMaxSize));
  RETURN_IF_ERROR(CheckFlag("vocabulary", absl::GetFlag(FLAGS_vocabulary), 2, std::numeric_limits<int32_t>::max()));
  if (const int bits = absl::GetFlag(FLAGS_token_bits); bits != 16 && bits != 32) {
    return absl::InvalidArgumentError(absl::StrCat("--token_bits=", bits, " must be 16 or 32"));
  }
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  RETURN_IF_ERROR(CheckOptimizerFlags());
  RETURN_IF_ERROR(CheckBelow1("label_smoothing", absl::GetFlag(FLAGS_label_smoothing)));
  RETURN_IF_ERROR(CheckAtLeast0("weight_decay", absl::GetFlag(FLAGS_weight_decay)));
  RETURN_IF_ERROR(CheckAtLeast0("clip_norm", absl::GetFlag(FLAGS_clip_norm)));
  RETURN_IF_ERROR(CheckAtLeast0("temperature", absl::GetFlag(FLAGS_temperature)));
  RETURN_IF_ERROR(CheckFlag("top_k", absl::GetFlag(FLAGS_top_k), 0, kNoLimit));
  if (const double p = absl::GetFlag(FLAGS_top_p); !(p > 0 && p <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("--top_p=", p, " must be more than 0, and at most 1"));
  }
  RETURN_IF_ERROR(CheckBelow1("dropout", absl::GetFlag(FLAGS_dropout)));
  RETURN_IF_ERROR(CheckDType(absl::GetFlag(FLAGS_dtype)));
  return CheckChoice("schedule", absl::GetFlag(FLAGS_schedule), "schedules", {"cosine", "constant"});
}

// The sizes of --model and of the flags for each.
absl::StatusOr<models::TransformerOptions> ModelFromFlags() {
  ASSIGN_OR_RETURN(models::TransformerOptions model, NamedTransformer(absl::GetFlag(FLAGS_model)));
  const auto size_of = [](absl::string_view flag, int64_t value, int64_t otherwise,
                          int64_t most = kMaxSize) -> absl::StatusOr<int64_t> {
    RETURN_IF_ERROR(CheckFlag(flag, value, 0, most));
    return value == 0 ? otherwise : value;
  };
  ASSIGN_OR_RETURN(model.layers, size_of("layers", absl::GetFlag(FLAGS_layers), model.layers, kMaxLayers));
  ASSIGN_OR_RETURN(model.heads, size_of("heads", absl::GetFlag(FLAGS_heads), model.heads));
  ASSIGN_OR_RETURN(model.width, size_of("width", absl::GetFlag(FLAGS_width), model.width));
  ASSIGN_OR_RETURN(model.length, size_of("context", absl::GetFlag(FLAGS_context), model.length));
  if (model.width % model.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--heads=", model.heads, " must divide the width of ", model.width));
  }
  model.dropout = absl::GetFlag(FLAGS_dropout);
  ASSIGN_OR_RETURN(model.dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  return model;
}

absl::Status LanguageModel::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(TakeEvaluationFlags(run));
  ASSIGN_OR_RETURN(options_.model, ModelFromFlags());
  options_.data = {.path = absl::GetFlag(FLAGS_data_dir),
                   .context = options_.model.length,
                   .vocabulary = absl::GetFlag(FLAGS_vocabulary),
                   .token_bits = absl::GetFlag(FLAGS_token_bits),
                   .tokenizer = absl::GetFlag(FLAGS_tokenizer),
                   .seed = run.order.seed};
  options_.learning_rate = absl::GetFlag(FLAGS_learning_rate);
  options_.schedule = absl::GetFlag(FLAGS_schedule);
  options_.warmup_steps = absl::GetFlag(FLAGS_warmup_steps);
  options_.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  TakeOptimizerFlags("adamw", options_.optimizer);
  options_.prompt = absl::GetFlag(FLAGS_prompt);
  options_.sample = {.count = absl::GetFlag(FLAGS_sample),
                     .choice = {.temperature = absl::GetFlag(FLAGS_temperature),
                                .top_k = absl::GetFlag(FLAGS_top_k),
                                .top_p = absl::GetFlag(FLAGS_top_p)},
                     .seed = run.order.seed};
  options_.export_step = absl::GetFlag(FLAGS_export_step);
  if (options_.export_step && run.export_file.empty()) {
    return absl::InvalidArgumentError("--export_step needs --export, the file to write");
  }
  label_smoothing_ = absl::GetFlag(FLAGS_label_smoothing);
  run.training.unit = "tokens";
  run.training.units_per_example = options_.model.length;
  run.example = "training window";
  run.replicate.clip_global_norm = absl::GetFlag(FLAGS_clip_norm);
  if (options_.model.dtype == DType::kFloat16) run.replicate.loss_scale = optim::LossScaleOptions();
  return absl::OkStatus();
}

absl::Status LanguageModel::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(LanguageProgram::OpenData(run));
  if (data_.kind != LanguageData::Kind::kTokens) {
    RETURN_IF_ERROR(RejectFlags({"vocabulary", "token_bits"}, "data that are not files of tokens"));
  }
  ASSIGN_OR_RETURN(run.training.steps,
                   Steps(data_.kind == LanguageData::Kind::kGenerated ? kGeneratedSteps : kTextSteps));
  return absl::OkStatus();
}

// A command that only asks for a sample leaves the run as it is.
absl::Status LanguageModel::Resume(ProgramRun& run) {
  if (absl::GetFlag(FLAGS_steps) == 0) run.training.steps = run.training.resume.checkpoint->step;
  return absl::OkStatus();
}

std::vector<RunSetting> LanguageModel::Settings(const ProgramRun& run) const {
  const auto text = [](auto value) { return absl::StrCat(value); };
  std::vector<RunSetting> settings = {
      {"--layers", text(options_.model.layers), /*fixed=*/true},
      {"--heads", text(options_.model.heads), /*fixed=*/true},
      {"--width", text(options_.model.width), /*fixed=*/true},
      {"--context", text(options_.model.length), /*fixed=*/true},
      {"--vocabulary", text(options_.model.vocabulary), /*fixed=*/true},
      {"--batch_size", text(run.order.batch_size), /*fixed=*/true},
      {"--seed", text(run.order.seed), /*fixed=*/true},
      {"--steps", text(run.training.steps)},
      {"--learning_rate", text(absl::GetFlag(FLAGS_learning_rate))},
      {"--warmup_steps", text(absl::GetFlag(FLAGS_warmup_steps))},
      {"--schedule", absl::GetFlag(FLAGS_schedule)},
      {"--weight_decay", text(absl::GetFlag(FLAGS_weight_decay))},
      {"--clip_norm", text(absl::GetFlag(FLAGS_clip_norm))},
      {"--dropout", text(options_.model.dropout)},
      {"--label_smoothing", text(label_smoothing_)},
      {"--dtype", absl::GetFlag(FLAGS_dtype)},
  };
  for (const RunSetting& setting : OptimizerSettings()) settings.push_back(setting);
  return settings;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  LanguageModel program;
  return TrainingMain(argc, argv, kUsage, program);
}
