#include "framework/data/resume.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/data/resume_impl.h"

namespace belfry::data {
namespace {

constexpr char kEpochKey[] = "data.epoch";
constexpr char kBatchKey[] = "data.batch";
constexpr char kSeed[] = "data.seed";
constexpr char kBatchSize[] = "data.batch_size";
constexpr char kShuffle[] = "data.shuffle";
constexpr char kDropRemainder[] = "data.drop_remainder";
constexpr char kExamples[] = "data.examples";

absl::StatusOr<std::string> Take(const io::Metadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  return absl::InvalidArgumentError(
      absl::StrCat("The checkpoint does not contain the training's position in the data: it has no \"", key,
                   "\"; start at the first batch, or use another checkpoint"));
}

absl::StatusOr<int64_t> TakeCount(const io::Metadata& metadata, const std::string& key, int64_t lowest) {
  ASSIGN_OR_RETURN(const std::string text, Take(metadata, key));
  int64_t count;
  if (absl::SimpleAtoi(text, &count) && count >= lowest) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("The checkpoint's \"", key, "\" is \"", text, "\"; expected a number of at least ", lowest));
}

absl::Status CheckSameSetting(const io::Metadata& metadata, const std::string& key, const std::string& now) {
  ASSIGN_OR_RETURN(const std::string then, Take(metadata, key));
  if (then == now) return absl::OkStatus();
  const std::string remedy = key == kExamples ? "use the data of then" : absl::StrCat("set it to ", then);
  return absl::FailedPreconditionError(absl::StrCat(
      "The training was interrupted with \"", key, "\" ", then, " and would resume with ", now,
      ", which would change the examples in its batches; ", remedy, ", or start at the first batch of the data"));
}

const char* Text(bool value) { return value ? "true" : "false"; }

// The saved position in batches of another size: the first one that holds an example that was not seen.
absl::StatusOr<Position> ConvertedPosition(const io::Metadata& saved, const std::string& batch_size) {
  Position position;
  int64_t size_now;
  ASSIGN_OR_RETURN(position.epoch, TakeCount(saved, kEpochKey, 0));
  ASSIGN_OR_RETURN(position.batch, TakeCount(saved, kBatchKey, 0));
  ASSIGN_OR_RETURN(const int64_t size, TakeCount(saved, kBatchSize, 1));
  ASSIGN_OR_RETURN(const int64_t examples, TakeCount(saved, kExamples, 1));
  ASSIGN_OR_RETURN(const std::string drops, Take(saved, kDropRemainder));
  if (!absl::SimpleAtoi(batch_size, &size_now) || size_now < 1) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size is ", batch_size, "; expected at least 1"));
  }
  position.batch = position.batch * size / size_now;
  if (position.batch < BatchesPerEpoch(examples, size_now, drops == Text(true))) return position;
  return Position{.epoch = position.epoch + 1, .batch = 0};
}

}  // namespace

absl::StatusOr<Position> PositionIn(const io::Metadata& saved, const io::Metadata& now, int64_t batches) {
  Position position;
  ASSIGN_OR_RETURN(position.epoch, TakeCount(saved, kEpochKey, 0));
  ASSIGN_OR_RETURN(position.batch, TakeCount(saved, kBatchKey, 0));
  for (const auto& [key, value] : now) {
    if (key != kEpochKey && key != kBatchKey) RETURN_IF_ERROR(CheckSameSetting(saved, key, value));
  }
  if (position.batch < batches) return position;
  return absl::InvalidArgumentError(absl::StrCat("The checkpoint's position is batch ", position.batch,
                                                 " of an epoch, but an epoch has ", batches, " batches"));
}

void PutPosition(const PrefetcherOptions& options, int64_t examples, Position next, io::Metadata& metadata) {
  metadata[kEpochKey] = absl::StrCat(next.epoch);
  metadata[kBatchKey] = absl::StrCat(next.batch);
  metadata[kSeed] = absl::StrCat(options.seed);
  metadata[kBatchSize] = absl::StrCat(options.batch_size);
  metadata[kShuffle] = Text(options.shuffle);
  metadata[kDropRemainder] = Text(options.drop_remainder);
  metadata[kExamples] = absl::StrCat(examples);
}

absl::StatusOr<Position> TakePosition(const io::Metadata& metadata, const PrefetcherOptions& options, int64_t examples,
                                      const ResumeOptions& resume) {
  if (options.batch_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size is ", options.batch_size, "; expected at least 1"));
  }
  ASSIGN_OR_RETURN(const int64_t batch_size, TakeCount(metadata, kBatchSize, 1));
  io::Metadata now;
  PutPosition(options, examples, {}, now);
  const std::string size_now = now.extract(kBatchSize).mapped();
  ASSIGN_OR_RETURN(const Position position,
                   PositionIn(metadata, now, BatchesPerEpoch(examples, batch_size, options.drop_remainder)));
  if (batch_size == options.batch_size) return position;
  if (!resume.allow_other_batch_size) return CheckSameSetting(metadata, kBatchSize, size_now);
  return ConvertedPosition(metadata, size_now);
}

absl::Status CheckPosition(const io::Metadata& saved, const io::Metadata& now) {
  std::vector<std::string> then_lines, now_lines;
  const auto size_then = saved.find(kBatchSize), size_now = now.find(kBatchSize);
  const bool other_size = size_then != saved.end() && size_now != now.end() && size_then->second != size_now->second;
  for (const auto& [key, value] : now) {
    const auto then = saved.find(key);
    if (then == saved.end() || then->second == value) continue;
    if (other_size && (key == kEpochKey || key == kBatchKey || key == kBatchSize)) continue;
    then_lines.push_back(absl::StrCat(key, " ", then->second));
    now_lines.push_back(absl::StrCat(key, " ", value));
  }
  if (other_size) {
    ASSIGN_OR_RETURN(const Position expected, ConvertedPosition(saved, size_now->second));
    ASSIGN_OR_RETURN(const int64_t epoch, TakeCount(now, kEpochKey, 0));
    ASSIGN_OR_RETURN(const int64_t batch, TakeCount(now, kBatchKey, 0));
    if (epoch != expected.epoch || batch != expected.batch) {
      then_lines.push_back(absl::StrCat(kEpochKey, " ", expected.epoch, ", ", kBatchKey, " ", expected.batch));
      now_lines.push_back(absl::StrCat(kEpochKey, " ", epoch, ", ", kBatchKey, " ", batch));
    }
  }
  if (then_lines.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("The input does not go on where the checkpoint stopped, at ", absl::StrJoin(then_lines, ", "),
                   ", but stands at ", absl::StrJoin(now_lines, ", "),
                   "; make it with PrefetcherOptions::start = TakePosition(checkpoint.metadata, ...)"));
}

}  // namespace belfry::data
