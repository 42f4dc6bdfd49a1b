#include "framework/data/resume.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

constexpr char kEpoch[] = "data.epoch";
constexpr char kBatch[] = "data.batch";
constexpr char kSeed[] = "data.seed";
constexpr char kBatchSize[] = "data.batch_size";
constexpr char kShuffle[] = "data.shuffle";
constexpr char kDropRemainder[] = "data.drop_remainder";
constexpr char kExamples[] = "data.examples";

absl::StatusOr<std::string> Take(const io::Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  return absl::InvalidArgumentError(
      absl::StrCat("The checkpoint does not contain the training's position in the data: it has no \"", key,
                   "\"; start at the first batch, or use another checkpoint"));
}

absl::StatusOr<int64_t> TakeCount(const io::Metadata& metadata, const char* key, int64_t lowest) {
  ASSIGN_OR_RETURN(const std::string text, Take(metadata, key));
  int64_t count;
  if (absl::SimpleAtoi(text, &count) && count >= lowest) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("The checkpoint's \"", key, "\" is \"", text, "\"; expected a number of at least ", lowest));
}

// Checks that a setting has the value it had when the position was saved.
absl::Status CheckSame(const io::Metadata& metadata, const char* key, const std::string& now) {
  ASSIGN_OR_RETURN(const std::string then, Take(metadata, key));
  if (then == now) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("The training was interrupted with \"", key, "\" ", then,
                                                    " and would resume with ", now,
                                                    ", which would change the examples in its batches; set it to ",
                                                    then, ", or start at the first batch of the data"));
}

const char* Text(bool value) { return value ? "true" : "false"; }

}  // namespace

void PutPosition(const PrefetcherOptions& options, int64_t examples, Position next, io::Metadata& metadata) {
  metadata[kEpoch] = absl::StrCat(next.epoch);
  metadata[kBatch] = absl::StrCat(next.batch);
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
  Position position;
  ASSIGN_OR_RETURN(position.epoch, TakeCount(metadata, kEpoch, 0));
  ASSIGN_OR_RETURN(position.batch, TakeCount(metadata, kBatch, 0));
  ASSIGN_OR_RETURN(const int64_t batch_size, TakeCount(metadata, kBatchSize, 1));
  RETURN_IF_ERROR(CheckSame(metadata, kExamples, absl::StrCat(examples)));
  RETURN_IF_ERROR(CheckSame(metadata, kShuffle, Text(options.shuffle)));
  RETURN_IF_ERROR(CheckSame(metadata, kSeed, absl::StrCat(options.seed)));
  RETURN_IF_ERROR(CheckSame(metadata, kDropRemainder, Text(options.drop_remainder)));
  if (position.batch >= BatchesPerEpoch(examples, batch_size, options.drop_remainder)) {
    return absl::InvalidArgumentError(
        absl::StrCat("The checkpoint's position is batch ", position.batch, " of an epoch, but an epoch has ",
                     BatchesPerEpoch(examples, batch_size, options.drop_remainder), " batches"));
  }
  if (batch_size == options.batch_size) return position;
  if (!resume.allow_other_batch_size) {
    return CheckSame(metadata, kBatchSize, absl::StrCat(options.batch_size));
  }
  position.batch = position.batch * batch_size / options.batch_size;
  if (position.batch < BatchesPerEpoch(examples, options.batch_size, options.drop_remainder)) return position;
  return Position{.epoch = position.epoch + 1, .batch = 0};
}

}  // namespace belfry::data
