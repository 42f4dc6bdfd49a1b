#include "trainers/loop/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/steady_time.h"
#include "spdlog/fmt/fmt.h"
#include "trainers/loop/evaluation.h"

namespace belfry::trainers {
namespace {

constexpr absl::Duration kTerminalInterval = absl::Milliseconds(250), kFileInterval = absl::Seconds(10);
// Before that much training the time of a step is not known well enough to say how long all will take.
constexpr int64_t kStepsToPredict = 20;
constexpr absl::Duration kTimeToPredict = absl::Seconds(3);

// The terminal's width, asked for each time because it may have been resized.
int Columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

std::string ProgressLine(absl::Span<const ProgressField> fields, int width) {
  std::vector<const ProgressField*> shown;
  for (const ProgressField& field : fields) {
    if (!field.text.empty()) shown.push_back(&field);
  }
  while (true) {
    std::string line;
    for (const ProgressField* field : shown) absl::StrAppend(&line, line.empty() ? "" : "  ", field->text);
    if (static_cast<int>(line.size()) <= width) return line;
    const auto first_to_go = std::max_element(
        shown.begin(), shown.end(), [](const auto* a, const auto* b) { return a->dispensable < b->dispensable; });
    if ((*first_to_go)->dispensable == 0) return line.substr(0, static_cast<size_t>(std::max(width, 0)));
    shown.erase(first_to_go);
  }
}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      terminal_(options_.alone && isatty(STDOUT_FILENO) != 0),
      last_step_(SteadyNow()),
      last_shown_(last_step_) {}

void Progress::Step(int64_t count) {
  const absl::Time now = SteadyNow();
  const absl::Duration took = now - last_step_;
  last_step_ = now;
  if (++steps_ == 1) return;
  trained_ += took;
  count_ += count;
  window_time_ += took;
  window_count_ += count;
  ++window_steps_;
  window_squares_ += absl::ToDoubleSeconds(took) * absl::ToDoubleSeconds(took);
}

bool Progress::Due() const {
  return steps_ == 0 || SteadyNow() - last_shown_ >= (terminal_ ? kTerminalInterval : kFileInterval);
}

double Progress::per_second() const {
  return trained_ > absl::ZeroDuration() ? static_cast<double>(count_) / absl::ToDoubleSeconds(trained_) : 0;
}

void Progress::Show(int64_t step, double loss, double learning_rate, absl::Span<const std::string> parts,
                    absl::Span<const std::string> notes) {
  last_shown_ = SteadyNow();
  double error = 0;
  const int64_t measured = window_steps_;
  if (measured > 0) {
    const auto n = static_cast<double>(measured);
    const double mean = std::max(absl::ToDoubleSeconds(window_time_) / n, 1e-9);  // time of a step
    recent_ = static_cast<double>(window_count_) / n / mean;
    error = recent_ / mean * std::sqrt(std::max(0.0, window_squares_ / n - mean * mean) / n);
  }
  window_steps_ = window_count_ = 0;
  window_time_ = absl::ZeroDuration();
  window_squares_ = 0;
  if (options_.quiet) return;
  const int64_t left = options_.total - (options_.first + steps_);
  const bool predicts = steps_ > kStepsToPredict || trained_ >= kTimeToPredict || (left == 0 && steps_ > 1);
  const std::string per_second = absl::StrCat(options_.unit, "/s");
  std::vector<ProgressField> fields = {{absl::StrFormat("step %d/%d", step, options_.total)},
                                       {absl::StrCat("loss ", ShortNumber(loss)), 1}};
  for (const std::string& part : parts) fields.push_back({part, 4});
  fields.push_back({fmt::format("lr {:.4g}", learning_rate), 5});
  if (recent_ > 0) {
    const int decimals = recent_ < 10 ? 2 : 0;
    const std::string spread = measured > 1 ? absl::StrFormat(" +/- %.*f", decimals, error) : "";
    fields.push_back({absl::StrFormat("%.*f%s %s", decimals, recent_, spread, per_second), 2});
  }
  if (predicts) {
    const absl::Duration per_step = trained_ / static_cast<double>(std::max<int64_t>(steps_ - 1, 1));
    fields.push_back({ShortDuration(per_step * left) + " left", 3});
  }
  for (size_t i = 0; i < notes.size(); ++i) fields.push_back({notes[i], 6 + static_cast<int>(notes.size() - i)});
  // In the last column some terminals already go on to the next line.
  const std::string text = ProgressLine(fields, terminal_ ? Columns() - 1 : std::numeric_limits<int>::max());
  if (terminal_) {
    std::printf("\r\033[K%s", text.c_str());
    live_ = true;
  } else {
    std::printf("%s\n", text.c_str());
  }
  std::fflush(stdout);
}

void Progress::Print(absl::string_view text) {
  if (options_.quiet) return;
  Finish();
  std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
}

void Progress::Finish() {
  if (live_) std::printf("\n");
  live_ = false;
}

void Progress::Pause() { paused_ = SteadyNow(); }

void Progress::Resume() { last_step_ += SteadyNow() - paused_; }

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds >= 3600) return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

}  // namespace belfry::trainers
