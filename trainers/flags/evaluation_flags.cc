#include "trainers/flags/evaluation_flags.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/flags/flag.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(int64_t, evaluate_every, 0, "Steps between evaluations on held-out data; 0: evaluate only at the end.");
ABSL_FLAG(int64_t, evaluate_every_epochs, 0, "--evaluate_every in passes over the training data instead of steps.");
ABSL_FLAG(int64_t, patience, 0,
          "Evaluations that are no better than the best one before (by test accuracy or, for text and tables, by loss) "
          "after which "
          "training stops; 0: no limit.");
ABSL_FLAG(bool, restore_best, false,
          "At the end, go back to the best evaluation's checkpoint in --train_dir, and report that one.");
ABSL_FLAG(
    std::optional<int>, data_threads, std::nullopt,
    "Threads that read and augment examples ahead, up to 1024; 0: the training thread does it. Without it, as many "
    "as the towers need: 1 for CPUs, 3 for each GPU.");
ABSL_FLAG(bool, quiet, false, "Print only errors and the result.");
ABSL_FLAG(bool, explain, false,
          "Compile the training step, print its cost on each device (memory, operations, transfers, critical path) and "
          "the largest batch that fits, and exit without training.");
ABSL_FLAG(bool, find_learning_rate, false,
          "Instead of training, try learning rates that rise from 1e-7 to 10 in 100 steps, print the losses "
          "and a suggestion, and write learning_rates.jsonl for plot_run to --train_dir.");
ABSL_FLAG(std::string, export, "",
          "At the end, save the model as it is evaluated to this file, which SavedModel runs without this program.");
ABSL_FLAG(int64_t, memory_limit, 0,
          "Memory in MiB that all steps of the run together may use on a device. Where they need more, activations are "
          "recomputed instead of kept, those first that take the least time; with the same bits. 0: the memory of the "
          "device, without recomputation.");

namespace belfry::trainers {

absl::Status TakeEvaluationFlags(ProgramRun& run, bool evaluates_anyway) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  TrainerOptions& training = run.training;
  training.quiet = absl::GetFlag(FLAGS_quiet);
  training.evaluate_every = absl::GetFlag(FLAGS_evaluate_every);
  run.evaluate_every_epochs = absl::GetFlag(FLAGS_evaluate_every_epochs);
  training.patience = absl::GetFlag(FLAGS_patience);
  training.restore_best = absl::GetFlag(FLAGS_restore_best);
  const std::optional<int> threads = absl::GetFlag(FLAGS_data_threads);
  run.order.threads = threads.has_value() ? *threads : DataThreads(run.devices);
  run.explain = absl::GetFlag(FLAGS_explain);
  run.find_learning_rate = absl::GetFlag(FLAGS_find_learning_rate);
  run.export_file = absl::GetFlag(FLAGS_export);
  const int64_t limit = absl::GetFlag(FLAGS_memory_limit);
  RETURN_IF_ERROR(CheckFlag("evaluate_every", training.evaluate_every, 0, kNoLimit));
  RETURN_IF_ERROR(CheckFlag("evaluate_every_epochs", run.evaluate_every_epochs, 0, 1'000'000));
  RETURN_IF_ERROR(CheckFlag("patience", training.patience, 0, kNoLimit));
  RETURN_IF_ERROR(CheckFlag("data_threads", run.order.threads, 0, 1024));
  RETURN_IF_ERROR(CheckFlag("memory_limit", limit, 0, int64_t{1} << 40));
  if (run.explain || run.find_learning_rate) {
    RETURN_IF_ERROR(RejectFlags({"export"}, "a run with --explain or --find_learning_rate, which trains no model"));
  }
  if (run.evaluate_every_epochs > 0) {
    RETURN_IF_ERROR(RejectFlags({"evaluate_every"}, "a run with --evaluate_every_epochs"));
  } else if (training.patience > 0 && training.evaluate_every == 0 && !evaluates_anyway) {
    return absl::InvalidArgumentError("--patience counts evaluations; set --evaluate_every as well");
  }
  if (training.restore_best && training.directory.empty()) {
    return absl::InvalidArgumentError("--restore_best=true reads a checkpoint; set --train_dir as well");
  }
  if (limit > 0) run.memory_limit = static_cast<size_t>(limit) << 20;
  return absl::OkStatus();
}

bool RestoresBest() { return absl::GetFlag(FLAGS_restore_best); }

}  // namespace belfry::trainers
