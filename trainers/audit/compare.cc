#include "trainers/audit/compare.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/safetensors.h"
#include "trainers/ledger/weights_digest.h"

namespace belfry::trainers {
namespace {

constexpr size_t kNamed = 5;  // tensors or settings

// "3 of 8 variables: a, b and others".
std::string DifferentTensors(const std::map<std::string, std::string>& a, const std::map<std::string, std::string>& b) {
  std::vector<std::string> names;
  for (const auto& [name, line] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second != line) names.push_back(name);
  }
  const size_t count = names.size();
  if (count > kNamed) names.resize(kNamed);
  return absl::StrCat(count, " of ", Counted(static_cast<int64_t>(a.size()), "variable"), ": ",
                      absl::StrJoin(names, ", "), count > kNamed ? ", ..." : "");
}

// The first step that both have, and whose batches differ; nullopt if there is none.
std::optional<int64_t> FirstOtherBatch(const RunRecord& a, const RunRecord& b) {
  for (const auto& [step, digest] : a.batches) {
    const auto other = b.batches.find(step);
    if (other != b.batches.end() && other->second != digest) return step;
  }
  return std::nullopt;
}

// The settings of the starts of a step, a line each: "  setting.learning_rate: 0.1 and 0.2".
std::string OtherSettings(const RunRecord& a, const RunRecord& b, int64_t step) {
  const RecordedStart* const of_a = a.StartOf(step);
  const RecordedStart* const of_b = b.StartOf(step);
  std::string text;
  if (of_a == nullptr || of_b == nullptr) return text;
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [name, value] : of_a->settings) all[name].first = value;
  for (const auto& [name, value] : of_b->settings) all[name].second = value;
  all["version"] = {of_a->version, of_b->version};
  all["devices"] = {absl::StrJoin(of_a->devices, "; "), absl::StrJoin(of_b->devices, "; ")};
  all["towers"] = {absl::StrCat(of_a->towers), absl::StrCat(of_b->towers)};
  for (const auto& [name, values] : all) {
    if (values.first == values.second) continue;
    absl::StrAppend(&text, "  ", name, ": ", values.first.empty() ? "none" : values.first, " and ",
                    values.second.empty() ? "none" : values.second, "\n");
  }
  return text.empty() ? text : absl::StrCat("They were started with other settings:\n", text);
}

// The threads of each device. 0 if the record does not tell: "GPU:0: ...", where it does not matter.
int64_t ThreadsPerDevice(const RecordedStart& start) {
  if (start.devices.empty()) return 0;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(start.devices[0], absl::MaxSplits(": ", 1));  // "CPU:0: 2 threads of AMD EPYC 7B13"
  const std::vector<absl::string_view> words = absl::StrSplit(parts.back(), ' ');
  int64_t threads = 0;
  const bool told = words.size() > 1 && absl::StartsWith(words[1], "thread") && absl::SimpleAtoi(words[0], &threads);
  return told ? threads : 0;
}

// A line on a replay in another layout than that of the record; empty if the record has the same.
std::string OtherLayout(const RunRecord& run, const RunRecord& replayed, int64_t step) {
  const RecordedStart *const was = run.StartOf(step), *const is = replayed.StartOf(step);
  if (was == nullptr || is == nullptr) return "";
  const int64_t threads_then = ThreadsPerDevice(*was), threads_now = ThreadsPerDevice(*is);
  const bool other_threads = threads_then > 0 && threads_now > 0 && threads_then != threads_now;
  if (was->towers == is->towers && !other_threads) return "";
  return absl::StrCat(
      "The run had ", Counted(was->towers, "tower"), ", and the replay ", is->towers,
      other_threads ? absl::StrCat("; ", Counted(threads_then, "thread"), " per device, and the replay ", threads_now)
                    : "",
      ". Such layouts do not promise the same bits: repeat it with --towers=", was->towers,
      threads_then > 0 ? absl::StrCat(" --threads_per_device=", threads_then) : "", " after --.\n");
}

// The records agree up to `same` steps, and differ after `other`.
struct Interval {
  int64_t same = 0;
  std::optional<int64_t> other;
  bool compared = false;  // they have a checkpoint after the same number of steps
};

Interval FindInterval(const RunRecord& a, const RunRecord& b) {
  Interval interval;
  for (const auto& [steps, checkpoint] : a.checkpoints) {
    const auto found = b.checkpoints.find(steps);
    if (found == b.checkpoints.end()) continue;
    interval.compared = true;
    if (found->second.weights != checkpoint.weights) {
      interval.other = steps;
      break;
    }
    interval.same = steps;
  }
  return interval;
}

// The last number of steps, at most `steps`, from which both can be repeated.
int64_t CommonStart(const RunRecord& a, const RunRecord& b, int64_t steps) {
  while (steps >= 0) {
    const int64_t of_a = ReplayFrom(a, steps), of_b = ReplayFrom(b, steps);
    if (of_a == of_b) return of_a;
    steps = std::min(of_a, of_b);
  }
  return -1;
}

// "tower_1" of "tower_1/conv1/Conv2D"; "" if no tower has the node.
std::string TowerOf(const std::string& name) {
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.substr(0, 6) == "tower_") return std::string(part);
  }
  return "";
}

std::string Described(const ReplayedResult& result) {
  const std::string tower = TowerOf(result.name);
  return absl::StrCat(result.output < 0 ? "the variable that it updates" : absl::StrCat("output ", result.output), ", ",
                      result.shape, ", of ", result.what, " on ", result.device,
                      tower.empty() ? "" : absl::StrCat(", ", tower));
}

// The first result that both replays have and that differs; null if there is none. A node that runs several times in a
// step, for towers one after the other, is compared run by run.
const ReplayedResult* FirstOtherResult(const std::vector<ReplayedResult>& a, const std::vector<ReplayedResult>& b) {
  using Key = std::pair<std::string, int64_t>;
  std::map<Key, std::vector<const ReplayedResult*>> of_b;
  std::map<Key, size_t> seen;
  for (const ReplayedResult& result : b) of_b[{result.name, result.output}].push_back(&result);
  for (const ReplayedResult& result : a) {
    const Key key(result.name, result.output);
    const size_t number = seen[key]++;
    const auto found = of_b.find(key);
    if (found == of_b.end() || number >= found->second.size()) continue;
    if (found->second[number]->digest != result.digest) return &result;
  }
  return nullptr;
}

// The plans that both have but not the same; empty if there are none.
std::string OtherPlans(const RunRecord& a, const RunRecord& b) {
  std::vector<std::string> names;
  for (const auto& [name, digests] : a.plans) {
    const auto other = b.plans.find(name);
    for (size_t i = 0; other != b.plans.end() && i < std::min(digests.size(), other->second.size()); ++i) {
      if (digests[i] != other->second[i]) names.push_back(absl::StrCat(name, " ", i));
    }
  }
  return absl::StrJoin(names, ", ");
}

// The first step of two replays in which they differ: its batch, its loss or the variables after it; -1: those before
// the first; nullopt: none.
std::optional<int64_t> FirstOtherStep(const ReplayedSteps& a, const ReplayedSteps& b) {
  for (const auto& [steps, state] : a.states) {
    const auto other = b.states.find(steps);
    if (other == b.states.end()) continue;
    if (state.weights == other->second.weights && state.loss == other->second.loss) continue;
    return steps == a.states.begin()->first ? -1 : steps - 1;
  }
  return std::nullopt;
}

// A replay of `run` that does not reproduce what was recorded after `steps`.
std::string NotReproduced(const RunRecord& run, const ReplayedSteps& replayed, int64_t steps) {
  const auto recorded = run.checkpoints.find(steps);
  const auto state = replayed.states.find(steps);
  if (recorded == run.checkpoints.end() || state == replayed.states.end()) return "";
  if (recorded->second.weights == state->second.weights) return "";
  return absl::StrCat("A replay of ", run.directory, " comes to other variables after step ", steps - 1,
                      " than were recorded. Either the difference does not repeat itself, as after an error of the "
                      "machine, or the replay "
                      "has another processor, library or number of threads.\n",
                      OtherLayout(run, replayed.record, steps - 1));
}

std::string WhatDiffers(const RunRecord& a, const RunRecord& b, int64_t step, const ReplayedSteps& of_a,
                        const ReplayedSteps& of_b) {
  const auto &after_a = of_a.states.at(step + 1), &after_b = of_b.states.at(step + 1);
  std::string text;
  const std::string plans = OtherPlans(of_a.record, of_b.record);
  const ReplayedResult* const result = FirstOtherResult(of_a.results, of_b.results);
  const auto batch_a = of_a.record.batches.find(step), batch_b = of_b.record.batches.find(step);
  const bool data = batch_a != of_a.record.batches.end() && batch_b != of_b.record.batches.end() &&
                    batch_a->second != batch_b->second;
  absl::StrAppend(&text, "They differ first in step ", step, ", by ",
                  data            ? "its data"
                  : plans.empty() ? "arithmetic"
                                  : absl::StrCat("the plan (", plans, ")"),
                  ".\n");
  if (!data) absl::StrAppend(&text, "The data of that step and the variables before it are the same.\n");
  if (result != nullptr) {
    absl::StrAppend(&text, "The first result that differs is ", Described(*result), ".\n");
  } else {
    absl::StrAppend(&text, "No node that both have computes something else.\n");
  }
  if (after_a.weights != after_b.weights) {
    absl::StrAppend(&text, "After it they differ in ", DifferentTensors(after_a.tensors, after_b.tensors), ".\n");
  }
  absl::StrAppend(&text, OtherSettings(a, b, step));
  return text;
}

}  // namespace

absl::StatusOr<Comparison> ReplayAround(const RunRecord& run, int64_t step, Replayer& replayer) {
  const auto next = run.checkpoints.upper_bound(step);
  if (step < 0 || next == run.checkpoints.end()) {
    return absl::OutOfRangeError(absl::StrCat(
        run.directory, " has no checkpoint after step ", step,
        run.checkpoints.empty() ? ""
                                : absl::StrCat("; the last is that after step ", run.checkpoints.rbegin()->first - 1)));
  }
  const int64_t from = ReplayFrom(run, step), until = next->first;
  if (from < 0) return absl::FailedPreconditionError(absl::StrCat(run.directory, ": no checkpoint before step ", step));
  ASSIGN_OR_RETURN(const ReplayedSteps replayed, replayer.Run(run, from, until));
  std::string text = absl::StrCat("Steps ", from, " to ", until - 1, " were repeated from ",
                                  PathOfCheckpoint(run, from).empty() ? "the beginning" : PathOfCheckpoint(run, from));
  if (const std::optional<int64_t> other = FirstOtherBatch(replayed.record, run); other.has_value()) {
    return Comparison{.text = absl::StrCat(text, ": the data of step ", *other, " are not those recorded.\n")};
  }
  for (auto at = run.checkpoints.upper_bound(from); at != run.checkpoints.end() && at->first <= until; ++at) {
    const ReplayedState& state = replayed.states.at(at->first);
    if (state.weights == at->second.weights) continue;
    absl::StrAppend(&text, ": the data are those recorded, but not the variables after step ", at->first - 1, ".\n");
    if (const std::string path = PathOfCheckpoint(run, at->first); !path.empty()) {
      ASSIGN_OR_RETURN(const io::SafetensorsFile file, io::SafetensorsFile::Open(path));
      absl::StrAppend(&text, "They differ in ", DifferentTensors(state.tensors, LinesOf(file.tensors())), ".\n");
    }
    return Comparison{
        .text = absl::StrCat(text, OtherLayout(run, replayed.record, from), OtherSettings(run, replayed.record, from))};
  }
  return Comparison{.same = true,
                    .text = absl::StrCat(text, ": the data and the variables have the bits that were recorded.\n")};
}

absl::StatusOr<Comparison> CompareRuns(const RunRecord& a, const RunRecord& b, Replayer& replayer) {
  const Interval interval = FindInterval(a, b);
  const std::optional<int64_t> batch = FirstOtherBatch(a, b);
  if (batch.has_value() && (!interval.other.has_value() || *batch <= interval.same)) {
    return Comparison{
        .text = absl::StrCat("They differ first in step ", *batch, ", by its data.\n", OtherSettings(a, b, *batch))};
  }
  if (!interval.compared) {
    return absl::FailedPreconditionError(
        absl::StrCat(a.directory, " and ", b.directory, " have no checkpoint after the same number of steps, so their ",
                     "variables cannot be compared: repeat one of them with the --checkpoint_every of the other"));
  }
  if (!interval.other.has_value()) {
    return Comparison{
        .same = true,
        .text = absl::StrCat("The data, and the variables of all checkpoints of both, the last of them "
                             "after ",
                             Counted(interval.same, "step"), ", are the same.\n", OtherSettings(a, b, interval.same))};
  }
  const int64_t from = CommonStart(a, b, interval.same), until = *interval.other;
  if (from < 0) {
    return absl::FailedPreconditionError(absl::StrCat("the runs differ between steps ", interval.same, " and ", until,
                                                      ", but have no checkpoint before that in common"));
  }
  ASSIGN_OR_RETURN(const ReplayedSteps all_a, replayer.Run(a, from, until));
  ASSIGN_OR_RETURN(const ReplayedSteps all_b, replayer.Run(b, from, until));
  std::string text = absl::StrCat("The records are the same up to step ", interval.same, " and not after step ",
                                  until - 1, ".\n", NotReproduced(a, all_a, until), NotReproduced(b, all_b, until));
  std::optional<int64_t> step = FirstOtherStep(all_a, all_b);
  if (batch.has_value() && (!step.has_value() || *batch < *step)) step = batch;
  if (!step.has_value()) {
    return Comparison{.text = absl::StrCat(text, "Replays of both are the same.\n", OtherSettings(a, b, from))};
  }
  if (*step < 0) {
    return Comparison{.text =
                          absl::StrCat(text, "They differ before step ", from, " already, by the weights, in ",
                                       DifferentTensors(all_a.states.at(from).tensors, all_b.states.at(from).tensors),
                                       ".\n", OtherSettings(a, b, from))};
  }
  ASSIGN_OR_RETURN(const ReplayedSteps of_a, replayer.Run(a, from, *step + 1, *step));
  ASSIGN_OR_RETURN(const ReplayedSteps of_b, replayer.Run(b, from, *step + 1, *step));
  return Comparison{.text = text + WhatDiffers(a, b, *step, of_a, of_b)};
}

}  // namespace belfry::trainers
