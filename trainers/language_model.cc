// Trains a transformer to predict the next token of a text, with a tower, or several, on each device.
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/language_program.h"

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
constexpr double kMaxSize = 1 << 20;  // of heads, width and context
constexpr double kMaxLayers = 4096;   // some eighty nodes each, in a graph that is built before its memory is known

class LanguageModel final : public LanguageProgram {
 public:
  explicit LanguageModel(Flags& flags);
  ProgramFlags& flags() { return flags_; }

  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  absl::Status OpenData(ProgramRun& run) override;
  absl::Status Resume(ProgramRun& run) override;

 private:
  void AddNetwork(Flags& flags);
  void AddText(Flags& flags);
  absl::Status TakeModel();

  ProgramFlags flags_;
  EvaluationFlags evaluation_;
  PrecisionFlags precision_;
  std::string model_ = "tiny";
  double clip_norm_ = 1;
};

LanguageModel::LanguageModel(Flags& flags) : flags_(flags), evaluation_(flags), precision_(flags) {
  options_.schedule = {.learning_rate = 3e-3, .end = 0.1, .warmup_steps = 100};
  options_.model = {.vocabulary = 50'257, .length = 0, .layers = 0, .heads = 0, .width = 0};
  options_.sample.count = 200;
  AddNetwork(flags);
  AddText(flags);
}

void LanguageModel::AddNetwork(Flags& flags) {
  models::TransformerOptions& model = options_.model;
  flags.Section("Model and optimizer");
  AddModel(flags, model_, {},
           "Sizes of the transformer: tiny (2 layers, width 64), small (6 layers, width 384), or those of GPT-2: gpt2, "
           "gpt2-medium, gpt2-large, gpt2-xl.");
  flags.Add("layers", &model.layers, Range(0, kMaxLayers).Fixed(), "Layers; 0: those of --model.");
  flags.Add("heads", &model.heads, Range(0, kMaxSize).Fixed(),
            "Heads of attention, which divide the width; 0: those of --model.");
  flags.Add("width", &model.width, Range(0, kMaxSize).Fixed(), "Width of the layers; 0: that of --model.");
  flags.Add("context", &model.length, Range(0, kMaxSize).Fixed(),
            "Tokens that a prediction looks back on, at most; 0: as --model has.");
  AddDropout(flags, model.dropout);
  AddSchedule(flags, options_.schedule);
  AddOptimizer(flags, options_.optimizer);
  AddWeightDecay(flags, options_.weight_decay);
  AddLabelSmoothing(flags, label_smoothing_);
  flags.Add("clip_norm", &clip_norm_, Range(0).Recorded(),
            "Global norm to which gradients are clipped; 0: no clipping.");
}

void LanguageModel::AddText(Flags& flags) {
  models::TokenChoiceOptions& choice = options_.sample.choice;
  flags.Section("Text");
  AddDataDir(flags, options_.data.path,
             "A text file, a file of tokens (*.bin, *.npy), or a folder of them. Files whose names have the word "
             "'train' are for training, and those with 'val' for evaluation; otherwise the last tenth is held out. "
             "Empty: a generated language.");
  flags.Add("vocabulary", &options_.model.vocabulary, Range(2, std::numeric_limits<int32_t>::max()).Fixed(),
            "Vocabulary of files of tokens.");
  flags.Add("token_bits", &options_.data.token_bits, Range(16, 32),
            "Bits of a token in files without a header: 16 or 32.");
  flags.Add("tokenizer", &options_.data.tokenizer, Reads(),
            "Tokenizer of text and prompts: a file tokenizer.json, vocab.json with merges.txt beside it, or a folder "
            "with either, of a byte-level BPE such as those of GPT-2 and Llama 3. Empty: bytes.");
  flags.Add("sample", &options_.sample.count, Range(0, kMaxSize),
            "Tokens of text to make up after training, with --restore_best by the best model; 0: none. With --steps=0 "
            "and the --train_dir of an earlier run, that is all that is done.");
  flags.Add("prompt", &options_.prompt,
            "The beginning of that text; for files of tokens without --tokenizer their numbers, separated by commas. "
            "Empty: none.");
  flags.Add("temperature", &choice.temperature, Range(0),
            "Divides the logits before a token is drawn; 0: always the likeliest one.");
  flags.Add("top_k", &choice.top_k, Range(0), "Draw among the k likeliest tokens only; 0: among all.");
  flags.Add("top_p", &choice.top_p, Range(0, 1),
            "Draw among the likeliest tokens only, as few as have this probability together; 1: among all.");
  flags.Add("export_step", &options_.export_step,
            "Let --export save a model that predicts token by token, with the keys and values of earlier tokens as "
            "inputs and outputs, for making text (docs/saved_models.md).");
}

absl::Status LanguageModel::CheckFlags() const {
  if (const int bits = options_.data.token_bits; bits != 16 && bits != 32) {
    return absl::InvalidArgumentError(absl::StrCat("--token_bits=", bits, " must be 16 or 32"));
  }
  if (options_.sample.choice.top_p == 0) return absl::InvalidArgumentError("--top_p=0 must be above 0, and at most 1");
  if (options_.export_step && evaluation_.export_file.empty()) {
    return absl::InvalidArgumentError("--export_step needs --export, the file to write");
  }
  return absl::OkStatus();
}

// The sizes of --model, where no flag gives another one.
absl::Status LanguageModel::TakeModel() {
  models::TransformerOptions& model = options_.model;
  ASSIGN_OR_RETURN(const models::TransformerOptions named, NamedTransformer(model_));
  if (model.layers == 0) model.layers = named.layers;
  if (model.heads == 0) model.heads = named.heads;
  if (model.width == 0) model.width = named.width;
  if (model.length == 0) model.length = named.length;
  if (model.width % model.heads == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--heads=", model.heads, " must divide the width of ", model.width));
}

absl::Status LanguageModel::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(evaluation_.Take(run));
  RETURN_IF_ERROR(TakeModel());
  ASSIGN_OR_RETURN(options_.model.dtype, precision_.Take(run.replicate));
  options_.data.context = options_.model.length;
  options_.data.vocabulary = options_.model.vocabulary;
  options_.data.seed = options_.sample.seed = run.order.seed;
  if (options_.optimizer.name == "default") options_.optimizer.name = "adamw";
  run.training.unit = "tokens";
  run.training.units_per_example = options_.model.length;
  run.example = "training window";
  run.replicate.clip_global_norm = clip_norm_;
  return absl::OkStatus();
}

absl::Status LanguageModel::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(LanguageProgram::OpenData(run));
  if (data_.kind != LanguageData::Kind::kTokens) {
    RETURN_IF_ERROR(flags_.all.Reject({"vocabulary", "token_bits"}, "data that are not files of tokens"));
  }
  run.training.steps = flags_.StepsOr(data_.kind == LanguageData::Kind::kGenerated ? kGeneratedSteps : kTextSteps);
  return absl::OkStatus();
}

// A command that only asks for a sample leaves the run as it is.
absl::Status LanguageModel::Resume(ProgramRun& run) {
  if (run.training.steps == 0) run.training.steps = run.training.resume.checkpoint->step;
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  LanguageModel program(flags);
  return TrainingMain(argc, argv, kUsage, program.flags(), program);
}
