// The text, transformer and results of language_model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/networks/text_generator.h"
#include "models/networks/transformer.h"
#include "trainers/language_data.h"
#include "trainers/program/classifier_program.h"
#include "trainers/program/optimizer_choice.h"
#include "trainers/program/schedule_choice.h"

namespace belfry::trainers {

// The sizes of a transformer by the name of its model: "tiny", "gpt2". InvalidArgument lists the names.
absl::StatusOr<models::TransformerOptions> NamedTransformer(absl::string_view name);

struct LanguageOptions {
  models::TransformerOptions model = {};  // except the vocabulary, which the data has
  LanguageDataOptions data = {};
  ScheduleChoice schedule = {};
  double weight_decay = 0.1;
  OptimizerChoice optimizer = {.name = "adamw"};
  std::string prompt = {};  // of the sample
  models::GenerateOptions sample = {};
  bool export_step = false;  // what --export saves predicts token by token
};

// A run of language_model, without its flags.
class LanguageProgram : public ClassifierProgram {
 public:
  absl::Status OpenData(ProgramRun& run) override;
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const override;
  absl::Status AddEvaluation(ProgramRun& run, const Scope& scope, absl::Span<const data::Field> fields) override;
  std::optional<ExportedModel> Exported() const override { return exported_; }
  std::string Header(const ProgramRun& run, const models::TrainStep& step) const override;
  absl::Status Result(const ProgramRun& run, Session& session, const Trainer& trainer) override;

 protected:
  LanguageProgram() : ClassifierProgram("targets") {}
  absl::StatusOr<Output> Logits(const Scope& scope, const models::Batch& batch, bool training) const override;
  Evaluation Figures(const Classification& results) const override;

  LanguageOptions options_;  // to be set before OpenData
  LanguageData data_;

 private:
  Output LogitsOf(const Scope& scope, Output tokens, bool training) const;
  ExportedModel ExportLogits(const Scope& scope) const;
  absl::Status Sample(Session& session, bool quiet) const;
  void PrintResult(const Trainer& trainer) const;

  std::vector<int32_t> prompt_;
  std::optional<models::TextGenerator> generator_;
  std::optional<ExportedModel> exported_;
};

}  // namespace belfry::trainers
