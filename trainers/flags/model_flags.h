// Flags that several programs have for their network, optimizer and data. A name has one meaning in all programs; the
// default is the value that the variable has when the row is added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/dtype.h"
#include "models/towers/replicate_towers.h"
#include "trainers/flags/flags.h"
#include "trainers/program/optimizer_choice.h"
#include "trainers/program/schedule_choice.h"

namespace belfry::trainers {

void AddModel(Flags& flags, std::string& model, const FlagRule& rule, absl::string_view meaning);
void AddDataDir(Flags& flags, std::string& data_dir, absl::string_view what);
void AddPredict(Flags& flags, std::vector<std::string>& predict, absl::string_view what);
void AddOutput(Flags& flags, std::string& output);
void AddTarget(Flags& flags, std::string& target);
void AddCsvLimit(Flags& flags, int64_t& bytes);
void AddValidationFraction(Flags& flags, double& fraction, const FlagRule& rule);
void AddLearningRate(Flags& flags, double& peak);
void AddSchedule(Flags& flags,
                 ScheduleChoice& schedule);  // --learning_rate, --schedule, --schedule_end, --warmup_steps
void AddOptimizer(Flags& flags, OptimizerChoice& choice);  // --optimizer and --lookahead
// Weight decay as the optimizer's paper has it: descent, momentum, nesterov, adam and lars add it times the weight to
// the gradient; adamw, lamb and muon take it times the learning rate from the weight.
void AddWeightDecay(Flags& flags, double& weight_decay);
void AddDropout(Flags& flags, double& rate);
void AddLabelSmoothing(Flags& flags, double& share);
void AddMixup(Flags& flags, double& alpha);
void AddCutout(Flags& flags, int64_t& edge, int64_t largest);
void AddMovingAverage(Flags& flags, double& decay);
void AddBatchNorm(Flags& flags, std::string& policy);

// The type in which the network computes, and the factor on the loss that it needs.
struct PrecisionFlags {
  // `fixed`: RunSetting::fixed of the loss scale.
  explicit PrecisionFlags(Flags& flags, bool fixed = false);

  std::string dtype = "float32", loss_scale = {};
  // Sets the loss scale of `replicate`, and --loss_scale to what is in effect. InvalidArgument names the flag.
  absl::StatusOr<DType> Take(models::ReplicateOptions& replicate);
};

}  // namespace belfry::trainers
