// Trains a transformer to predict the next token of a text, with one tower per device.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/prefetcher.h"
#include "framework/data/resume.h"
#include "models/losses.h"
#include "models/replicate_towers.h"
#include "models/summaries.h"
#include "models/transformer.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/adam.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/device_flags.h"
#include "trainers/flags/explain_flags.h"
#include "trainers/flags/output_flags.h"
#include "trainers/flags/replication_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/flags/step_flags.h"
#include "trainers/flags/training_flags.h"
#include "trainers/flags/world_flags.h"
#include "trainers/language_data.h"
#include "trainers/loop/evaluator.h"
#include "trainers/loop/explain.h"
#include "trainers/loop/run_header.h"
#include "trainers/loop/stop_signals.h"
#include "trainers/loop/text_sampler.h"
#include "trainers/loop/trainer.h"

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
ABSL_FLAG(double, learning_rate, 3e-3, "Peak learning rate of AdamW.");
ABSL_FLAG(int64_t, warmup_steps, 100, "Steps over which the learning rate rises to its peak.");
ABSL_FLAG(std::string, schedule, "cosine",
          "Learning rate after the warm-up. cosine: half a cosine, down to a tenth at --steps. constant.");
ABSL_FLAG(double, weight_decay, 0.1, "Weight decay of matrices, times the learning rate.");
ABSL_FLAG(double, clip_norm, 1, "Global norm to which gradients are clipped; 0: no clipping.");
ABSL_FLAG(int64_t, evaluate_every, 0, "Steps between evaluations on held-out text; 0: evaluate only at the end.");
ABSL_FLAG(int64_t, patience, 0, "Evaluations without a smaller loss after which training stops; 0: no limit.");
ABSL_FLAG(
    bool, restore_best, false,
    "At the end, go back to the best evaluation's checkpoint in --train_dir, and report that one and sample from it.");
ABSL_FLAG(std::string, data_dir, "",
          "A text file, a file of tokens (*.bin, *.npy), or a folder of them. Files whose names have the word 'train' "
          "are for training, and those with 'val' for evaluation; otherwise the last tenth is held out. Empty: a "
          "generated language.");
ABSL_FLAG(int64_t, vocabulary, 50'257, "Vocabulary of files of tokens.");
ABSL_FLAG(int, token_bits, 16, "Bits of a token in files without a header: 16 or 32.");
ABSL_FLAG(int, data_threads, 1, "Threads that read text ahead, up to 1024; 0: the training thread does it.");
ABSL_FLAG(int64_t, sample, 200,
          "Tokens of text to make up after training; 0: none. With --steps=0 and the --train_dir "
          "of an earlier run, that is all that is done.");
ABSL_FLAG(std::string, prompt, "",
          "The beginning of that text; for files of tokens their numbers, separated by commas. Empty: none.");
ABSL_FLAG(double, temperature, 1, "Divides the logits before a token is drawn; 0: always the likeliest one.");
ABSL_FLAG(bool, quiet, false, "Print only errors and the result.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a transformer to predict the next token, with one tower per device.

  language_model --devices=cpu:2                      a generated language, whose entropy no model can fall below
  language_model --devices=cpu:2 --data_dir=book.txt  text, byte by byte
  language_model --devices=gpu:4 --model=gpt2 --data_dir=DIR --dtype=bfloat16 --learning_rate=6e-4 --batch_size=64
                                                      DIR/train.bin and DIR/val.bin: tokens of 16 bits, as nanoGPT's
                                                      and llm.c's

--batch_size counts windows of --context tokens, over all towers. After training the loss on held-out text is printed,
in nats and in bits, with a sample.)";

constexpr int64_t kGeneratedSteps = 1500, kTextSteps = 5000;
constexpr int kMaxDataThreads = 1024;
constexpr int64_t kMaxSize = 1 << 20;  // of heads, width and context
constexpr int64_t kMaxLayers =
    4096;  // each is some eighty nodes of the graph, which is built before its memory is known

struct NamedSize {
  absl::string_view name;
  int64_t layers, heads, width, context;
};
constexpr std::array<NamedSize, 6> kSizes = {{{"tiny", 2, 4, 64, 64},
                                              {"small", 6, 6, 384, 256},
                                              {"gpt2", 12, 12, 768, 1024},
                                              {"gpt2-medium", 24, 16, 1024, 1024},
                                              {"gpt2-large", 36, 20, 1280, 1024},
                                              {"gpt2-xl", 48, 25, 1600, 1024}}};

absl::Status CheckAtLeast0(absl::string_view flag, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, " must be at least 0"));
}

absl::Status CheckFlags() {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(CheckFlag("evaluate_every", absl::GetFlag(FLAGS_evaluate_every), 0, kNoLimit));
  RETURN_IF_ERROR(CheckFlag("patience", absl::GetFlag(FLAGS_patience), 0, kNoLimit));
  if (absl::GetFlag(FLAGS_patience) > 0 && absl::GetFlag(FLAGS_evaluate_every) == 0) {
    return absl::InvalidArgumentError("--patience counts evaluations; set --evaluate_every as well");
  }
  if (absl::GetFlag(FLAGS_restore_best) && absl::GetFlag(FLAGS_train_dir).empty()) {
    return absl::InvalidArgumentError("--restore_best=true reads a checkpoint; set --train_dir as well");
  }
  RETURN_IF_ERROR(CheckFlag("data_threads", absl::GetFlag(FLAGS_data_threads), 0, kMaxDataThreads));
  RETURN_IF_ERROR(CheckFlag("warmup_steps", absl::GetFlag(FLAGS_warmup_steps), 0, kNoLimit));
  RETURN_IF_ERROR(CheckFlag("sample", absl::GetFlag(FLAGS_sample), 0, kMaxSize));
  RETURN_IF_ERROR(CheckFlag("vocabulary", absl::GetFlag(FLAGS_vocabulary), 2, std::numeric_limits<int32_t>::max()));
  if (const int bits = absl::GetFlag(FLAGS_token_bits); bits != 16 && bits != 32) {
    return absl::InvalidArgumentError(absl::StrCat("--token_bits=", bits, " must be 16 or 32"));
  }
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  RETURN_IF_ERROR(CheckAtLeast0("weight_decay", absl::GetFlag(FLAGS_weight_decay)));
  RETURN_IF_ERROR(CheckAtLeast0("clip_norm", absl::GetFlag(FLAGS_clip_norm)));
  RETURN_IF_ERROR(CheckAtLeast0("temperature", absl::GetFlag(FLAGS_temperature)));
  const double dropout = absl::GetFlag(FLAGS_dropout);
  if (!(dropout >= 0 && dropout < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("--dropout=", dropout, " must be at least 0 and below 1"));
  }
  const std::string schedule = absl::GetFlag(FLAGS_schedule), dtype = absl::GetFlag(FLAGS_dtype);
  if (schedule != "cosine" && schedule != "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("--schedule=", schedule, " is unknown; the schedules are cosine and constant"));
  }
  if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16") {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype=", dtype, " is unknown; the types are float32, bfloat16 and float16"));
  }
  return absl::OkStatus();
}

// The sizes of --model and of the flags for each. The vocabulary is that of the data.
absl::StatusOr<models::TransformerOptions> ModelFromFlags() {
  const std::string name = absl::GetFlag(FLAGS_model);
  const auto* const sizes =
      std::find_if(kSizes.begin(), kSizes.end(), [&](const NamedSize& size) { return size.name == name; });
  if (sizes == kSizes.end()) {
    const auto name_of = [](std::string* out, const NamedSize& size) { absl::StrAppend(out, size.name); };
    return absl::InvalidArgumentError(
        absl::StrCat("--model=", name, " is unknown; the sizes are ", absl::StrJoin(kSizes, ", ", name_of)));
  }
  const auto size_of = [](absl::string_view flag, int64_t value, int64_t otherwise,
                          int64_t most = kMaxSize) -> absl::StatusOr<int64_t> {
    RETURN_IF_ERROR(CheckFlag(flag, value, 0, most));
    return value == 0 ? otherwise : value;
  };
  models::TransformerOptions model;
  ASSIGN_OR_RETURN(model.layers, size_of("layers", absl::GetFlag(FLAGS_layers), sizes->layers, kMaxLayers));
  ASSIGN_OR_RETURN(model.heads, size_of("heads", absl::GetFlag(FLAGS_heads), sizes->heads));
  ASSIGN_OR_RETURN(model.width, size_of("width", absl::GetFlag(FLAGS_width), sizes->width));
  ASSIGN_OR_RETURN(model.length, size_of("context", absl::GetFlag(FLAGS_context), sizes->context));
  if (model.width % model.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--heads=", model.heads, " must divide the width of ", model.width));
  }
  model.dropout = absl::GetFlag(FLAGS_dropout);
  ASSIGN_OR_RETURN(model.dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  return model;
}

optim::Schedule MakeSchedule(int64_t steps) {
  const double rate = absl::GetFlag(FLAGS_learning_rate);
  const int64_t warmup = absl::GetFlag(FLAGS_warmup_steps);
  const optim::Schedule after = absl::GetFlag(FLAGS_schedule) == "constant"
                                    ? optim::Schedule(rate)
                                    : optim::Cosine(rate, std::max<int64_t>(steps, 1), rate / 10);
  return warmup == 0 ? after : optim::WarmUp(after, warmup);
}

// [N, T, vocabulary] float32 for any --dtype.
Output Logits(const Scope& scope, models::TransformerOptions model, Output tokens, bool training) {
  model.training = training;
  return ops::Cast(scope.Named("float_logits"), models::Transformer(scope, tokens, model), DType::kFloat32);
}

absl::StatusOr<Output> Loss(const Scope& tower, const models::TransformerOptions& model, const models::Batch& batch) {
  const Output logits = Logits(tower, model, batch["tokens"], /*training=*/true);
  models::AddCrossEntropy(tower, logits, batch["targets"]);
  return models::TotalLoss(tower);
}

std::vector<RunSetting> Settings(const models::TransformerOptions& model, int64_t batch_size, int64_t steps) {
  const auto text = [](auto value) { return absl::StrCat(value); };
  return {
      {"--layers", text(model.layers), /*fixed=*/true},
      {"--heads", text(model.heads), /*fixed=*/true},
      {"--width", text(model.width), /*fixed=*/true},
      {"--context", text(model.length), /*fixed=*/true},
      {"--vocabulary", text(model.vocabulary), /*fixed=*/true},
      {"--batch_size", text(batch_size), /*fixed=*/true},
      {"--seed", text(absl::GetFlag(FLAGS_seed)), /*fixed=*/true},
      {"--steps", text(steps)},
      {"--learning_rate", text(absl::GetFlag(FLAGS_learning_rate))},
      {"--warmup_steps", text(absl::GetFlag(FLAGS_warmup_steps))},
      {"--schedule", absl::GetFlag(FLAGS_schedule)},
      {"--weight_decay", text(absl::GetFlag(FLAGS_weight_decay))},
      {"--clip_norm", text(absl::GetFlag(FLAGS_clip_norm))},
      {"--dropout", text(model.dropout)},
      {"--dtype", absl::GetFlag(FLAGS_dtype)},
  };
}

// The loss in nats, which decides, and in bits; for a generated language also by how much it exceeds the entropy.
Evaluation ToEvaluation(const Classification& results, const LanguageData& data) {
  Evaluation evaluation{.examples = results.labels,
                        .metrics = {{.name = "loss", .value = results.loss}},
                        .unit = absl::StrCat(data.unit(), "s")};
  evaluation.metrics.push_back({.name = absl::StrCat("bits_per_", data.unit()), .value = results.loss / std::log(2.0)});
  if (data.floor > 0) {
    evaluation.metrics.push_back({.name = "above_entropy", .value = results.loss / data.floor - 1, .percent = true});
  }
  return evaluation;
}

void PrintHeader(const models::TransformerOptions& model, const LanguageData& data, const std::string& towers,
                 const models::TrainStep& step) {
  absl::PrintF("Model:    transformer of %s, %s, width %d; %d parameters\n", Counted(model.layers, "layer"),
               Counted(model.heads, "head"), model.width, CountParameters(step));
  absl::PrintF("Data:     %d training and %d test windows of %s, vocabulary %d\n", data.parts.train->size(),
               data.parts.validation->size(), Counted(model.length, data.unit()), model.vocabulary);
  if (data.floor > 0) absl::PrintF("          a generated language with an entropy of %.4f\n", data.floor);
  std::printf("%s", towers.c_str());
}

void PrintResult(const Trainer& trainer, const Classification& results, const LanguageData& data) {
  std::string text =
      absl::StrFormat("Test loss %.4f, %.4f bits per %s", results.loss, results.loss / std::log(2.0), data.unit());
  if (data.floor > 0) {
    absl::StrAppendFormat(&text, ", %.2f%% above the entropy", 100 * (results.loss / data.floor - 1));
  }
  const double rate = trainer.examples_per_second() * static_cast<double>(data.parts.train->fields()[0].shape[0]);
  if (trainer.steps() == 0) {
    absl::PrintF("%s. Nothing was trained: --steps=0.\n", text);
    return;
  }
  absl::PrintF("%s after %s%s.\n", text, Counted(trainer.steps(), "step"),
               rate > 0 ? absl::StrFormat(", %.0f tokens/s", rate) : "");
}

// Returns the signal that ended the run, or 0.
absl::StatusOr<int> Train(World& world) {
  RETURN_IF_ERROR(CheckFlags());
  const bool first_task = world.rank() == 0, quiet = absl::GetFlag(FLAGS_quiet);
  ASSIGN_OR_RETURN(models::TransformerOptions model, ModelFromFlags());
  TrainerOptions options{.quiet = quiet,
                         .unit = "tokens",
                         .units_per_example = model.length,
                         .evaluate_every = absl::GetFlag(FLAGS_evaluate_every),
                         .patience = absl::GetFlag(FLAGS_patience),
                         .restore_best = absl::GetFlag(FLAGS_restore_best)};
  RETURN_IF_ERROR(SetTrainerOptions(options, world));
  ASSIGN_OR_RETURN(const std::optional<size_t> memory_limit, MemoryLimit());
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices(world));
  ASSIGN_OR_RETURN(SessionOptions session_options, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(models::ReplicateOptions replicate, ReplicateOptionsFromFlags(devices, world, session_options));
  replicate.clip_global_norm = absl::GetFlag(FLAGS_clip_norm);
  if (model.dtype == DType::kFloat16) replicate.loss_scale = optim::LossScaleOptions();
  if (!absl::GetFlag(FLAGS_explain) && first_task) {
    ASSIGN_OR_RETURN(options.metrics_file, PrepareOutputs());
  }

  ASSIGN_OR_RETURN(const LanguageData data, OpenLanguageData({.path = absl::GetFlag(FLAGS_data_dir),
                                                              .context = model.length,
                                                              .vocabulary = absl::GetFlag(FLAGS_vocabulary),
                                                              .token_bits = absl::GetFlag(FLAGS_token_bits),
                                                              .seed = absl::GetFlag(FLAGS_seed)}));
  if (data.kind != LanguageData::Kind::kTokens) {
    RETURN_IF_ERROR(RejectFlags({"vocabulary", "token_bits"}, "data that are not files of tokens"));
  }
  model.vocabulary = data.vocabulary;
  ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, ParsePrompt(data, absl::GetFlag(FLAGS_prompt)));
  ASSIGN_OR_RETURN(options.steps, Steps(data.kind == LanguageData::Kind::kGenerated ? kGeneratedSteps : kTextSteps));
  ASSIGN_OR_RETURN(const int64_t batch_size, GlobalBatchSize(replicate.towers));
  RETURN_IF_ERROR(CheckBatchFits(batch_size, data.parts.train->size(), "training window"));
  const std::vector<RunSetting> settings = Settings(model, batch_size, options.steps);
  options.metadata = RecordSettings(settings);
  ASSIGN_OR_RETURN(const std::string test_data, data::DataLine(*data.parts.validation));
  options.settings.push_back(absl::StrCat("test ", test_data));
  ASSIGN_OR_RETURN(std::optional<io::Checkpoint> checkpoint, FindCheckpoint(settings, world));
  data::PrefetcherOptions order{.batch_size = batch_size,
                                .towers = replicate.towers,
                                .first_tower = replicate.first_tower,
                                .local_towers = static_cast<int>(devices.TowerDevices().size()),
                                .seed = absl::GetFlag(FLAGS_seed),
                                .threads = absl::GetFlag(FLAGS_data_threads)};
  if (checkpoint.has_value()) {
    options.resume = &*checkpoint;
    options.resume_note = ChangedSettings(checkpoint->metadata, settings);
    ASSIGN_OR_RETURN(order.start, data::TakePosition(checkpoint->metadata, order, data.parts.train->size()));
    // A command that only asks for a sample leaves the run as it is.
    options.steps = std::max(options.steps, absl::GetFlag(FLAGS_steps) == 0 ? checkpoint->step : 0);
  }
  ASSIGN_OR_RETURN(const auto input, data::Prefetcher::Create(*data.parts.train, order));

  Graph graph(BuiltinOps());
  graph.set_seed(absl::GetFlag(FLAGS_seed));
  const optim::AdamW optimizer(
      {.learning_rate = MakeSchedule(options.steps), .beta2 = 0.95, .weight_decay = absl::GetFlag(FLAGS_weight_decay)});
  const auto loss = [&](const Scope& tower, const models::Batch& batch) { return Loss(tower, model, batch); };
  const models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, loss, optimizer, replicate);
  RETURN_IF_ERROR(graph.status());
  if (!options.directory.empty() && options.summary_every > 0) {
    options.summaries = models::AddTrainSummaries(Scope(graph), step);
  }
  const Scope of_tower = Scope(graph)
                             .Device(devices.device(step.towers[0].device).name())
                             .Replica(replicate.first_tower)
                             .ReuseVariables(Reuse::kAlways);
  const Evaluator evaluator(
      of_tower.NameScope("evaluation"), input->fields(),
      [&](const Scope& scope, const models::Batch& batch) {
        return absl::StatusOr<Output>(Logits(scope, model, batch["tokens"], /*training=*/false));
      },
      "targets");
  const TextSampler sampler(of_tower.NameScope("sample"), model.length, [&](const Scope& scope, Output tokens) {
    return Logits(scope, model, tokens, /*training=*/false);
  });

  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, session_options));
  const int64_t test_batch = std::min(batch_size, data.parts.validation->size());
  options.evaluation_steps = evaluator.Steps(data.parts.validation->size(), test_batch);
  const bool samples = absl::GetFlag(FLAGS_sample) > 0;
  if (samples && first_task) options.evaluation_steps.push_back(sampler.Step());
  const auto planned = [&](int64_t batch) {
    std::vector<PlannedStep> steps = TrainingSteps(step, batch, data.parts.train->size(), options.summaries);
    steps.insert(steps.end(), options.evaluation_steps.begin(), options.evaluation_steps.end());
    return steps;
  };
  if (absl::GetFlag(FLAGS_explain)) {
    ASSIGN_OR_RETURN(const std::string text,
                     ExplainRun(*session, planned, batch_size, order.towers, data.parts.train->size(), memory_limit));
    if (first_task) std::printf("%s", text.c_str());
    return 0;
  }
  if (memory_limit.has_value()) RETURN_IF_ERROR(CheckMemoryLimit(*session, planned(batch_size), *memory_limit));
  ASSIGN_OR_RETURN(const std::string towers,
                   TowerLines(world, devices, step, replicate.towers, absl::GetFlag(FLAGS_variable_update), batch_size,
                              StartDeadline()));
  if (!quiet && first_task) PrintHeader(model, data, towers, step);
  const int64_t warmup = absl::GetFlag(FLAGS_warmup_steps);
  if (first_task && options.steps > 0 && options.steps < warmup) {
    spdlog::warn("--steps={} ends within the warm-up of --warmup_steps={}, at {:.0f}% of --learning_rate={}",
                 options.steps, warmup, 100.0 * static_cast<double>(options.steps) / static_cast<double>(warmup),
                 absl::GetFlag(FLAGS_learning_rate));
  }
  Classification results;
  options.evaluate = [&](int64_t at) -> absl::StatusOr<Evaluation> {
    ASSIGN_OR_RETURN(results, evaluator.Run(*session, *data.parts.validation, {}, test_batch, nullptr, &world,
                                            options.task_timeout));
    RETURN_IF_ERROR(CheckLoss(results.loss, at));
    return ToEvaluation(results, data);
  };
  options.step_timeout = session_options.timeout;
  const StopSignals signals;
  Trainer trainer(*session, step, *input, options);
  RETURN_IF_ERROR(trainer.Run());
  if (!first_task) return trainer.stopped();
  if (trainer.stopped() != 0) {
    std::printf("%s\n", StoppedText(trainer.stopped(), trainer.steps()).c_str());
    return trainer.stopped();
  }
  if (samples) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> text, sampler.Sample(*session, prompt,
                                                                     {.count = absl::GetFlag(FLAGS_sample),
                                                                      .temperature = absl::GetFlag(FLAGS_temperature),
                                                                      .seed = absl::GetFlag(FLAGS_seed)}));
    std::printf("%s%s\n\n", quiet ? "" : "\nSample:\n", TokensText(data, text).c_str());
  }
  PrintResult(trainer, results, data);
  if (!quiet) {
    absl::PrintF("Next: --data_dir=FILE for text of your own, --model=small, --steps=N, --prompt=TEXT, --help.\n");
  }
  return 0;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram([&] {
    ParseCommandLine(argc, argv, kUsage);
    return RunInWorld(Train);
  });
}
