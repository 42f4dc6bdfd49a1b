// The model of a table: its logits and loss, the figures of its predictions, and these as a CSV file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/graph/scope.h"
#include "framework/io/safetensors.h"
#include "models/towers/batch.h"
#include "trainers/callbacks/evaluation.h"
#include "trainers/tabular/tabular_data.h"

namespace belfry::trainers {

// models::WideDeep, or its deep part alone.
struct TableModel {
  bool wide = true;
  std::vector<int64_t> hidden = {64, 32};
  int64_t embedding = 0;  // width of all embeddings; 0: EmbeddingWidth of each
  double dropout = 0;     // in training
};
// A checkpoint keeps it, except the dropout.
void PutModel(const TableModel& model, io::Metadata& metadata);
// InvalidArgument if there is none, or if it is damaged.
absl::StatusOr<TableModel> TakeModel(const io::Metadata& metadata);

// min(600, round(1.6 n^0.56)), the rule of fastai's tabular models (Howard and Gugger, "fastai: a layered API for deep
// learning", 2020), for n texts, the unknown one included.
int64_t EmbeddingWidth(int64_t texts);

// Logits [N, 1] or, for TableTask::kClasses, [N, classes], for a batch with the fields of TableFields.
Output TableLogits(const Scope& scope, const models::Batch& batch, const TableSchema& schema, const TableModel& model,
                   bool training);
// The mean log loss, or the mean squared error in deviations, for the field "target".
Output TableLoss(const Scope& scope, Output logits, const models::Batch& batch, const TableSchema& schema);

// Figures of logits [N, outputs] for examples with this truth (TabularData). Classes have the log loss, which decides,
// and accuracy, two of them also the area under the ROC curve, "auc". A regression has rmse, which decides, in the
// target's units, and r2, the coefficient of determination (NaN if the truth is constant).
Evaluation TableFigures(const TableSchema& schema, const Tensor& logits, absl::Span<const double> truth);

// Predictions for logits [N, outputs] as CSV (RFC 4180, lines end in LF): a column with the target's name, and for
// classes a column "probability of <class>" for each. Numbers have as many digits as float32 holds.
std::string PredictionsCsv(const TableSchema& schema, const Tensor& logits, char separator = ',');

}  // namespace belfry::trainers
