#include "trainers/flags/evaluation_flags.h"

#include <cstddef>

#include "framework/base/status.h"

namespace belfry::trainers {

EvaluationFlags::EvaluationFlags(Flags& flags) : all(flags) {
  flags.Section("Evaluation and reports");
  flags.Add("evaluate_every", &evaluate_every, Range(0),
            "Steps between evaluations on held-out data; 0: evaluate only at the end.");
  flags.Add("evaluate_every_epochs", &evaluate_every_epochs, Range(0, 1e6),
            "--evaluate_every in passes over the training data instead of steps.");
  flags.Add("patience", &patience, Range(0),
            "Evaluations that are no better than the best one before (by test accuracy or, for text and tables, by "
            "loss) after which training stops; 0: no limit.");
  flags.Add("restore_best", &restore_best,
            "At the end, go back to the best evaluation's checkpoint in --train_dir, and report that one.");
  flags.Add("data_threads", &data_threads, Range(0, 1024).PerTask(),
            "Threads that read and augment examples ahead, up to 1024; 0: the training thread does it. Without it, as "
            "many as the towers need: 1 for CPUs, 3 for each GPU.");
  flags.Add("quiet", &quiet, PerTask(), "Print only errors and the result.");
  flags.Add("explain", &explain,
            "Compile the training step, print its cost on each device (memory, operations, transfers, critical path) "
            "and the largest batch that fits, and exit without training.");
  flags.Add("find_learning_rate", &find_learning_rate,
            "Instead of training, try learning rates that rise from 1e-7 to 10 in 100 steps, print the losses and a "
            "suggestion, and write learning_rates.jsonl for plot_run to --train_dir.");
  flags.Add("export", &export_file, Writes(),
            "At the end, save the model as it is evaluated to this file, which SavedModel runs without this program.");
  flags.Add("memory_limit", &memory_limit, Range(0, 1e12),
            "Memory in MiB that all steps of the run together may use on a device. Where they need more, activations "
            "are recomputed instead of kept, those first that take the least time; with the same bits. 0: the memory "
            "of the device, without recomputation.");
}

absl::Status EvaluationFlags::Take(ProgramRun& run, bool evaluates_anyway) const {
  TrainerOptions& training = run.training;
  training.quiet = quiet;
  training.evaluate_every = evaluate_every;
  run.evaluate_every_epochs = evaluate_every_epochs;
  training.patience = patience;
  training.restore_best = restore_best;
  run.order.threads = data_threads.has_value() ? *data_threads : DataThreads(run.devices);
  run.explain = explain;
  run.find_learning_rate = find_learning_rate;
  run.export_file = export_file;
  if (explain || find_learning_rate) {
    RETURN_IF_ERROR(all.Reject({"export"}, "a run with --explain or --find_learning_rate, which trains no model"));
  }
  if (evaluate_every_epochs > 0) {
    RETURN_IF_ERROR(all.Reject({"evaluate_every"}, "a run with --evaluate_every_epochs"));
  } else if (patience > 0 && evaluate_every == 0 && !evaluates_anyway) {
    return absl::InvalidArgumentError("--patience counts evaluations; set --evaluate_every as well");
  }
  if (restore_best && training.directory.empty()) {
    return absl::InvalidArgumentError("--restore_best=true reads a checkpoint; set --train_dir as well");
  }
  if (memory_limit > 0) run.memory_limit = static_cast<size_t>(memory_limit) << 20;
  return absl::OkStatus();
}

}  // namespace belfry::trainers
