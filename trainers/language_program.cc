#include "trainers/language_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "ops/array.h"
#include "optim/variable_filter.h"

namespace belfry::trainers {
namespace {

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

}  // namespace

absl::StatusOr<models::TransformerOptions> NamedTransformer(absl::string_view name) {
  const auto* const sizes =
      std::find_if(kSizes.begin(), kSizes.end(), [&](const NamedSize& size) { return size.name == name; });
  if (sizes == kSizes.end()) {
    const auto name_of = [](std::string* out, const NamedSize& size) { absl::StrAppend(out, size.name); };
    return absl::InvalidArgumentError(
        absl::StrCat("--model=", name, " is unknown; the sizes are ", absl::StrJoin(kSizes, ", ", name_of)));
  }
  models::TransformerOptions model;
  model.layers = sizes->layers;
  model.heads = sizes->heads;
  model.width = sizes->width;
  model.length = sizes->context;
  return model;
}

absl::Status LanguageProgram::OpenData(ProgramRun& run) {
  ASSIGN_OR_RETURN(data_, OpenLanguageData(options_.data));
  options_.model.vocabulary = data_.vocabulary;
  ASSIGN_OR_RETURN(prompt_, ParsePrompt(data_, options_.prompt));
  run.train = data_.parts.train.get();
  run.test = data_.parts.validation.get();
  run.training.tasks.data_paths = {options_.data.path, options_.data.tokenizer};
  evaluation_batch_ = std::min(run.order.batch_size, run.test->size());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> LanguageProgram::MakeOptimizer(const ProgramRun& run) const {
  const int64_t steps = run.training.steps, warmup = options_.schedule.warmup_steps;
  if (!run.explain && run.world.rank() == 0 && steps > 0 && steps < warmup) {
    spdlog::warn("--steps={} ends within the warm-up of --warmup_steps={}, at {:.0f}% of --learning_rate={}", steps,
                 warmup, 100.0 * static_cast<double>(steps) / static_cast<double>(warmup),
                 options_.schedule.learning_rate);
  }
  OptimizerChoice choice = options_.optimizer;
  ASSIGN_OR_RETURN(choice.learning_rate,
                   MakeSchedule(options_.schedule, options_.schedule.learning_rate, ScheduledOf(run)));
  choice.beta2 = 0.95;
  choice.weight_decay = options_.weight_decay;
  choice.hidden = optim::NameMatches("layer*");
  return trainers::MakeOptimizer(choice);
}

// [N, T, vocabulary] in the model's dtype.
Output LanguageProgram::LogitsOf(const Scope& scope, Output tokens, bool training) const {
  models::TransformerOptions model = options_.model;
  model.training = training;
  return models::Transformer(scope, tokens, model);
}

absl::StatusOr<Output> LanguageProgram::Logits(const Scope& scope, const models::Batch& batch, bool training) const {
  return LogitsOf(scope, batch["tokens"], training);
}

// A transformer of any number of sequences and tokens.
ExportedModel LanguageProgram::ExportLogits(const Scope& scope) const {
  const Output tokens = ops::Placeholder(scope, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
  Output logits = LogitsOf(scope, tokens, /*training=*/false);
  if (logits.valid() && logits.dtype() != DType::kFloat32) logits = ops::Cast(scope, logits, DType::kFloat32);
  return {.inputs = {{"tokens", tokens}}, .outputs = {{"logits", logits}}};
}

absl::Status LanguageProgram::AddEvaluation(ProgramRun& run, const Scope& scope, absl::Span<const data::Field> fields) {
  RETURN_IF_ERROR(ClassifierProgram::AddEvaluation(run, scope, fields));
  if (!run.export_file.empty()) {
    const Scope at = scope.NameScope("export");
    if (options_.export_step) {
      models::StepModel model = models::MakeStepModel(at, options_.model);
      exported_ = {.inputs = std::move(model.inputs), .outputs = std::move(model.outputs)};
    } else {
      exported_ = ExportLogits(at);
    }
  }
  if (options_.sample.count == 0) return absl::OkStatus();
  generator_.emplace(scope.NameScope("sample"), options_.model);
  if (run.world.rank() != 0) return absl::OkStatus();
  for (const models::TextGenerator::Step& step : generator_->Steps()) {
    run.training.evaluation_steps.push_back({.name = "sample", .feeds = step.feeds, .fetches = step.fetches});
  }
  return absl::OkStatus();
}

// The loss in nats, which decides, and in bits; for a generated language also by how much it exceeds the entropy.
Evaluation LanguageProgram::Figures(const Classification& results) const {
  Evaluation evaluation{.examples = results.labels,
                        .metrics = {{.name = "loss", .value = results.loss}},
                        .unit = absl::StrCat(data_.unit(), "s")};
  evaluation.metrics.push_back(
      {.name = absl::StrCat("bits_per_", data_.unit()), .value = results.loss / std::log(2.0)});
  if (data_.floor > 0) {
    evaluation.metrics.push_back({.name = "above_entropy", .value = results.loss / data_.floor - 1, .percent = true});
  }
  return evaluation;
}

std::string LanguageProgram::Header(const ProgramRun& run, const models::TrainStep& step) const {
  const models::TransformerOptions& model = options_.model;
  std::string text =
      absl::StrFormat("Model:    transformer of %s, %s, width %d; %d parameters\n", Counted(model.layers, "layer"),
                      Counted(model.heads, "head"), model.width, CountParameters(step));
  absl::StrAppendFormat(&text, "Data:     %d training and %d test windows of %s, vocabulary %d\n", run.train->size(),
                        run.test->size(), Counted(model.length, data_.unit()), model.vocabulary);
  if (data_.floor > 0) {
    absl::StrAppendFormat(&text, "          a generated language with an entropy of %.4f\n", data_.floor);
  }
  return text;
}

void LanguageProgram::PrintResult(const Trainer& trainer) const {
  std::string text =
      absl::StrFormat("Test loss %.4f, %.4f bits per %s", results_.loss, results_.loss / std::log(2.0), data_.unit());
  if (data_.floor > 0) {
    absl::StrAppendFormat(&text, ", %.2f%% above the entropy", 100 * (results_.loss / data_.floor - 1));
  }
  const double rate = trainer.examples_per_second() * static_cast<double>(options_.model.length);
  if (trainer.steps() == 0) {
    absl::PrintF("%s. Nothing was trained: --steps=0.\n", text);
    return;
  }
  absl::PrintF("%s after %s%s.\n", text, Counted(trainer.steps(), "step"),
               rate > 0 ? absl::StrFormat(", %.0f tokens/s", rate) : "");
}

// Prints the prompt, and the tokens as they are made.
absl::Status LanguageProgram::Sample(Session& session, bool quiet) const {
  TextPrinter printer(data_);
  const auto print = [&](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  models::GenerateOptions options = options_.sample;
  const auto end = data_.TextEnd();
  options.use = [&](int32_t token) {
    if (token != end) print(printer.Add({token}));
    return token != end;
  };
  std::vector<int32_t> prompt = prompt_;
  if (prompt.empty() && end.has_value()) prompt = {*end};
  print(absl::StrCat(quiet ? "" : "\nSample:\n", printer.Add(prompt_)));
  RETURN_IF_ERROR(generator_->Generate(session, prompt, options).status());
  print(absl::StrCat(printer.Finish(), "\n\n"));
  return absl::OkStatus();
}

absl::Status LanguageProgram::Result(const ProgramRun& run, Session& session, const Trainer& trainer) {
  if (trainer.stopped() != 0) return absl::OkStatus();
  const bool quiet = run.training.quiet;
  if (generator_.has_value()) RETURN_IF_ERROR(Sample(session, quiet));
  PrintResult(trainer);
  if (!quiet) {
    absl::PrintF("Next: --data_dir=FILE for text of your own, --model=small, --steps=N, --prompt=TEXT, --help.\n");
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
