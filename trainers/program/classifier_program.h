// A training program for a classifier: of images, of the next token of a text, of the rows of a table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "trainers/loop/evaluator.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

// Trains by the mean cross-entropy, and the model's regularizers, and evaluates by an Evaluator.
class ClassifierProgram : public TrainingProgram {
 public:
  absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) const override;
  absl::Status AddEvaluation(ProgramRun& run, const Scope& scope, absl::Span<const data::Field> fields) override;
  absl::StatusOr<Evaluation> Evaluate(const ProgramRun& run, Session& session, int64_t step) override;
  std::optional<ExportedModel> Exported() const override;

 protected:
  explicit ClassifierProgram(std::string label = "label") : label_(std::move(label)) {}
  // [N, classes] float32 or, for labels [N, ...], [N, ..., classes].
  virtual absl::StatusOr<Output> Logits(const Scope& scope, const models::Batch& batch, bool training) const = 0;
  // The reported figures; the first decides what is best.
  virtual Evaluation Figures(const Classification& results) const { return results; }

  // Configure sets it. The evaluation's loss has none.
  double label_smoothing_ = 0;
  bool mixes_ = false;  // by PrefetcherOptions::mixup
  // To be set in OpenData.
  int64_t evaluation_batch_ = 500;
  data::ImagePolicies evaluation_images_;
  // Results of the last evaluation.
  Classification results_;

 private:
  const std::string label_;  // the field
  std::unique_ptr<Evaluator> evaluator_;
};

}  // namespace belfry::trainers
