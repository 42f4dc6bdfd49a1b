#include "trainers/program/classifier_program.h"

#include "framework/base/status.h"
#include "framework/data/mixup.h"
#include "models/layers/losses.h"

namespace belfry::trainers {

absl::StatusOr<Output> ClassifierProgram::Loss(const Scope& tower, const models::Batch& batch) const {
  ASSIGN_OR_RETURN(const Output logits, Logits(tower, batch, /*training=*/true));
  if (mixes_) {
    const models::MixedLabels labels = {batch[label_], batch[label_ + data::kPartnerSuffix],
                                        batch[data::kMixtureWeight]};
    models::AddCrossEntropy(tower, logits, labels, label_smoothing_);
  } else {
    models::AddCrossEntropy(tower, logits, batch[label_], label_smoothing_);
  }
  return models::TotalLoss(tower);
}

absl::Status ClassifierProgram::AddEvaluation(ProgramRun& run, const Scope& scope,
                                              absl::Span<const data::Field> fields) {
  const auto logits = [this](const Scope& at, const models::Batch& batch) { return Logits(at, batch, false); };
  evaluator_ = std::make_unique<Evaluator>(scope.NameScope("evaluation"), fields, logits, label_);
  run.training.evaluation_steps = evaluator_->Steps(run.test->size(), evaluation_batch_);
  return absl::OkStatus();
}

absl::StatusOr<Evaluation> ClassifierProgram::Evaluate(const ProgramRun& run, Session& session, int64_t step) {
  ASSIGN_OR_RETURN(results_, evaluator_->Run(session, *run.test, evaluation_images_, evaluation_batch_, &run.world,
                                             run.training.tasks.timeout));
  RETURN_IF_ERROR(CheckLoss(results_.loss, step));
  return Figures(results_);
}

std::optional<ExportedModel> ClassifierProgram::Exported() const {
  if (evaluator_ == nullptr) return std::nullopt;
  return ExportedModel{.inputs = InputsOf(evaluator_->batch(), label_), .outputs = {{"logits", evaluator_->logits()}}};
}

}  // namespace belfry::trainers
