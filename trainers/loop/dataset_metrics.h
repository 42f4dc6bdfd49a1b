// Metrics of a model over a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/augment.h"
#include "framework/data/batch_source.h"
#include "framework/data/dataset.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "models/towers/batch.h"
#include "trainers/callbacks/evaluation.h"
#include "trainers/loop/model_outputs.h"

namespace belfry {
class World;
}  // namespace belfry

namespace belfry::trainers {

// A metric in two parts, so that batches of any size give what one batch of everything would.
struct DatasetMetric {
  std::string name;
  bool larger_is_better = false;  // true for an accuracy, false for a loss; evaluations choose the best by it
  bool percent = false;           // the value is a share of 1, shown in per cent
  // The numbers that the metric keeps of a batch: outputs float32 [N, ...], labels of N examples.
  std::function<absl::StatusOr<std::vector<double>>(const Tensor& outputs, const Tensor& labels)> of_batch;
  // The metric, from the numbers of all batches in the order of the data set.
  std::function<double(absl::Span<const std::vector<double>> batches)> value;
};

// The metric of one of these names, with its direction: losses, perplexity and errors are better when smaller, the
// others when larger. InvalidArgument lists the names.
//
// For logits [N, ..., classes] and labels [N, ...], int32 or int64. Negative labels are left out, as is usual for parts
// of an image or a text without a label:
//   accuracy     share of labels that have the largest logit; the first of equal ones counts
//   top_K        share of labels with fewer than K logits above theirs: top_5
//   loss         mean cross-entropy, in nats
//   perplexity   e to that power
//   f1           mean over the classes that occur, as label or as prediction, of 2 hits / (labels + predictions)
//   precision    mean over the classes that were predicted of hits / predictions
//   recall       mean over the classes that occur as labels of hits / labels
//   iou          mean over the classes that occur of hits / (labels + predictions - hits): intersection over union
// For scores [N] or [N, 1], or logits [N, 2], whose difference is the score, and labels [N] of 0 or 1, of any dtype:
//   auc          area under the ROC curve (area_under_roc.h)
// For outputs and labels of one shape, where [N, 1] is [N] and labels may be integers:
//   mae, mse, rmse   mean absolute error, mean squared error, and the root of that
//   r2               1 - squared error / squared distance of the labels from their mean
//
// Sums are made in double, batch by batch. NaN for no labels, and where a formula divides 0 by 0. of_batch returns
// InvalidArgument for other shapes, dtypes and labels.
absl::StatusOr<DatasetMetric> NamedMetric(absl::string_view name);

// A metric of one of several outputs: {"mse", forecast, "next"}.
struct OutputMetric {
  std::string name;             // shown; and of NamedMetric, unless there is a rule
  Output output;                // [N, ...], float32
  std::string label = "label";  // field with the labels
  std::string lengths = {};     // of sequences [N, T, ...]: field int32 [] with their lengths; the rest is left out
  DatasetMetric rule = {};      // its name does not count
};

// A model in evaluation mode, on one device, and its metrics.
class DatasetMetrics {
 public:
  // Adds the model's nodes, as ModelOutputs does. `label`: the field with the labels. No metric, or two of one name, is
  // an error of the graph.
  DatasetMetrics(OpScope scope, absl::Span<const data::Field> fields, const ModelOutputs::Model& model,
                 std::vector<DatasetMetric> metrics, const std::string& label = "label");
  // Evaluates outputs that the program has made of `batch`, models::Batch(scope, source.fields()). A name that
  // NamedMetric does not know is an error of the graph, too.
  DatasetMetrics(OpScope scope, models::Batch batch, std::vector<OutputMetric> metrics);

  // The steps that Run runs for a dataset of `examples`.
  std::vector<PlannedStep> Steps(int64_t examples, int64_t batch_size) const;

  // Evaluates the whole dataset, with its images through the policies, in batches of `batch_size`; the last may be
  // smaller. The processes of `world`, if it is not null, deal the batches among them, and all get the same
  // result, bit by bit as in one process. Errors: of of_batch, with the metric's name; NotFound: no field of labels; of
  // the dataset, Session::Run and World::AllGather.
  absl::StatusOr<Evaluation> Run(Session& session, const data::Dataset& dataset, const data::ImagePolicies& images,
                                 int64_t batch_size, World* world = nullptr,
                                 absl::Duration task_timeout = absl::Minutes(10)) const;
  // Evaluates the next `batches` batches of any source, such as sequences or a generator, or all before its end if
  // these are fewer; an epoch has source.batches_per_epoch(). Each process of `world` has its towers' examples. The
  // rest as above; errors also of the source, and InvalidArgument if there was no example.
  absl::StatusOr<Evaluation> Run(Session& session, data::BatchSource& source, int64_t batches, World* world = nullptr,
                                 absl::Duration task_timeout = absl::Minutes(10)) const;

 private:
  class Tally;

  models::Batch batch_;
  std::vector<OutputMetric> metrics_;  // whose rules are known
  std::vector<Output> outputs_;        // without repetition
};

}  // namespace belfry::trainers
