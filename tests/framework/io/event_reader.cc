#include "tests/framework/io/event_reader.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/event.pb.h"
#include "framework/io/event_file.h"
#include "framework/io/file.h"

namespace belfry::io {
namespace {

absl::StatusOr<HistogramValue> Decode(const proto::HistogramProto& histogram) {
  if (histogram.bucket_limit_size() != histogram.bucket_size()) {
    return absl::DataLossError(absl::StrCat("a histogram has ", histogram.bucket_size(), " buckets and ",
                                            histogram.bucket_limit_size(), " limits"));
  }
  return HistogramValue{.min = histogram.min(),
                        .max = histogram.max(),
                        .num = histogram.num(),
                        .sum = histogram.sum(),
                        .sum_squares = histogram.sum_squares(),
                        .limits = {histogram.bucket_limit().begin(), histogram.bucket_limit().end()},
                        .counts = {histogram.bucket().begin(), histogram.bucket().end()}};
}

absl::StatusOr<SummaryValue> Decode(const proto::Summary::Value& value) {
  SummaryValue decoded{.tag = value.tag()};
  if (value.has_simple_value()) decoded.value = value.simple_value();
  if (value.has_histo()) {
    ASSIGN_OR_RETURN(decoded.value, Decode(value.histo()));
  }
  if (value.has_image()) {
    const proto::Summary::Image& image = value.image();
    decoded.value = ImageValue{.height = image.height(),
                               .width = image.width(),
                               .channels = image.colorspace(),
                               .png = image.encoded_image_string()};
  }
  return decoded;
}

absl::StatusOr<Event> Decode(absl::string_view record) {
  proto::Event event;
  proto::Summary summary;
  if (record.size() > std::numeric_limits<int>::max() ||
      !event.ParseFromArray(record.data(), static_cast<int>(record.size())) ||
      !summary.ParseFromString(event.summary())) {
    return absl::DataLossError("its bytes are no event");
  }
  Event decoded{.wall_time = event.wall_time(),
                .step = event.step(),
                .file_version = event.file_version(),
                .graph_def = event.graph_def(),
                .start = event.session_log().status() == proto::SessionLog::START};
  for (const proto::Summary::Value& value : summary.value()) {
    ASSIGN_OR_RETURN(SummaryValue entry, Decode(value));
    decoded.values.push_back(std::move(entry));
  }
  return decoded;
}

}  // namespace

absl::StatusOr<EventFile> ParseEventFile(absl::string_view bytes) {
  EventFile file;
  RecordReader reader(bytes);
  while (true) {
    const size_t offset = reader.offset();
    ASSIGN_OR_RETURN(const std::optional<absl::string_view> record, reader.Next());
    if (!record) break;
    absl::StatusOr<Event> event = Decode(*record);
    if (!event.ok()) {
      return absl::DataLossError(absl::StrCat("The record at byte ", offset, ": ", event.status().message()));
    }
    file.events.push_back(*std::move(event));
  }
  file.truncated = reader.truncated();
  return file;
}

absl::StatusOr<EventFile> ReadEventFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<EventFile> file = ParseEventFile(bytes);
  if (!file.ok()) return absl::Status(file.status().code(), absl::StrCat(path, ": ", file.status().message()));
  return file;
}

}  // namespace belfry::io
