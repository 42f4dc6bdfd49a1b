#include "trainers/flags/optimizer_flags.h"

#include <cstdint>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"

ABSL_FLAG(
    std::string, optimizer, "",
    "descent, momentum, nesterov, adam, adamw, lars, lamb, or muon: Muon for the matrices of hidden layers and "
    "AdamW for the rest. Empty: the program's default, which the default --learning_rate is for; 0.001 suits adam, "
    "adamw and muon.");
ABSL_FLAG(int64_t, lookahead, 0,
          "Lookahead (Zhang et al., 2019): after every so many updates slow weights go half of the way to the weights, "
          "which go on from there; 0: none.");

namespace belfry::trainers {

absl::Status CheckOptimizerFlags() {
  RETURN_IF_ERROR(CheckFlag("lookahead", absl::GetFlag(FLAGS_lookahead), 0, 1'000'000));
  const std::string name = absl::GetFlag(FLAGS_optimizer);
  return name.empty() ? absl::OkStatus() : CheckChoice("optimizer", name, "optimizers", OptimizerNames());
}

void TakeOptimizerFlags(absl::string_view otherwise, OptimizerChoice& choice) {
  choice.name = absl::GetFlag(FLAGS_optimizer);
  if (choice.name.empty()) choice.name = std::string(otherwise);
  choice.lookahead = absl::GetFlag(FLAGS_lookahead);
}

std::vector<RunSetting> OptimizerSettings() {
  const std::string name = absl::GetFlag(FLAGS_optimizer);
  return {{"--optimizer", name.empty() ? "default" : name, /*fixed=*/true, /*unrecorded=*/"default"},
          {"--lookahead", absl::StrCat(absl::GetFlag(FLAGS_lookahead)), /*fixed=*/true, /*unrecorded=*/"0"}};
}

}  // namespace belfry::trainers
