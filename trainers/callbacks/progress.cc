#include "trainers/callbacks/progress.h"

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
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/steady_time.h"
#include "spdlog/fmt/fmt.h"

namespace belfry::trainers {
namespace {

constexpr absl::Duration kTerminalInterval = absl::Milliseconds(250), kFileInterval = absl::Seconds(10);
// Before that much training the time of a step is not known well enough to say how long all will take.
constexpr int64_t kStepsToPredict = 20;
constexpr absl::Duration kTimeToPredict = absl::Seconds(3);

constexpr absl::string_view kBetween = "  ";

// A field of a line, and which form of its text.
struct Shown {
  const ProgressField* field;
  const std::string* form;
  size_t longer;  // how many forms are longer
};

// The text, or with `index` from 1 on a shorter form.
const std::string& FormOf(const ProgressField& field, size_t index) {
  return index == 0 ? field.text : field.shorter[index - 1];
}

bool IsLessDispensable(const Shown& a, const Shown& b) { return a.field->dispensable < b.field->dispensable; }

size_t Columns(const std::vector<Shown>& shown) {
  size_t columns = shown.empty() ? 0 : (shown.size() - 1) * kBetween.size();
  for (const Shown& one : shown) columns += one.form->size();
  return columns;
}

std::string ThreeDigits(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.3g}", value); }

// "345", "12.3k", "1.23M".
std::string ShortRate(double rate) {
  if (rate < 10) return absl::StrFormat("%.2f", rate);
  if (rate < 9'999.5) return absl::StrFormat("%.0f", rate);
  return rate < 999'500 ? absl::StrFormat("%.3gk", rate / 1e3) : absl::StrFormat("%.3gM", rate / 1e6);
}

// "1:02:03", "4:05".
std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds >= 3600) return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

// "ce" for "cross_entropy", and a name of one word as it is.
std::string Initials(const std::string& name) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, absl::ByAnyChar("_- "), absl::SkipEmpty());
  if (words.size() < 2) return name;
  return absl::StrJoin(words, "", [](std::string* text, absl::string_view word) { text->push_back(word[0]); });
}

}  // namespace

int TerminalColumns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string ProgressLine(absl::Span<const ProgressField> fields, int width) {
  const auto columns = static_cast<size_t>(std::max(width, 0));
  std::vector<Shown> shown;
  for (const ProgressField& field : fields) {
    const size_t shortest = field.shorter.size();
    if (!field.text.empty()) shown.push_back({&field, &FormOf(field, shortest), shortest});
  }
  while (Columns(shown) > columns) {
    const auto first_to_go = std::max_element(shown.begin(), shown.end(), IsLessDispensable);
    if (first_to_go->field->dispensable == 0) break;
    shown.erase(first_to_go);
  }
  std::vector<Shown*> order;
  for (Shown& one : shown) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return IsLessDispensable(*a, *b); });
  // Each in turn takes its next longer form, so that none has its longest one at the cost of the others.
  for (bool grown = true; grown;) {
    grown = false;
    for (Shown* one : order) {
      if (one->longer == 0) continue;
      const std::string& next = FormOf(*one->field, one->longer - 1);
      if (Columns(shown) - one->form->size() + next.size() > columns) continue;
      one->form = &next;
      --one->longer;
      grown = true;
    }
  }
  const std::string line =
      absl::StrJoin(shown, kBetween, [](std::string* text, const Shown& one) { absl::StrAppend(text, *one.form); });
  return line.substr(0, columns);
}

std::vector<ProgressField> ProgressFields(const ProgressValues& values, absl::Span<const Metric> parts,
                                          absl::Span<const ProgressField> notes) {
  const std::string step = absl::StrFormat("%d/%d", values.step, values.total);
  std::vector<ProgressField> fields = {
      {absl::StrCat("step ", step), 0, {step}},
      {absl::StrCat("loss ", ShortNumber(values.loss)), 1, {absl::StrCat("loss ", ThreeDigits(values.loss))}}};
  for (const Metric& part : parts) {
    const std::string value = part.percent ? absl::StrFormat("%.0f%%", 100 * part.value) : ThreeDigits(part.value);
    Metric initials = part;
    initials.name = Initials(part.name);
    fields.push_back({MetricText(part), 4, {MetricText(initials), absl::StrCat(initials.name, " ", value)}});
  }
  fields.push_back(
      {fmt::format("lr {:.4g}", values.learning_rate), 5, {fmt::format("lr {:.2g}", values.learning_rate)}});
  if (values.rate > 0) {
    const int decimals = values.rate < 10 ? 2 : 0;
    const std::string rate = absl::StrFormat("%.*f", decimals, values.rate), in_short = ShortRate(values.rate);
    const std::string of = absl::StrCat(" ", values.unit, "/s");
    std::vector<std::string> forms = {absl::StrCat(rate, of), absl::StrCat(in_short, of), absl::StrCat(in_short, "/s")};
    if (values.error.has_value()) {
      forms.insert(forms.begin(), absl::StrCat(rate, absl::StrFormat(" +/- %.*f", decimals, *values.error), of));
    }
    fields.push_back({forms[0], 2, {forms.begin() + 1, forms.end()}});
  }
  if (values.left.has_value()) {
    const std::string left = ShortDuration(*values.left);
    fields.push_back({absl::StrCat(left, " left"), 3, {absl::StrCat("-", left)}});
  }
  for (size_t i = 0; i < notes.size(); ++i) {
    fields.push_back(notes[i]);
    fields.back().dispensable = 6 + static_cast<int>(notes.size() - i);
  }
  return fields;
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
  window_time_ += took;
  window_count_ += count;
  ++window_steps_;
  window_squares_ += absl::ToDoubleSeconds(took) * absl::ToDoubleSeconds(took);
}

bool Progress::Due() const {
  return steps_ == 0 || SteadyNow() - last_shown_ >= (terminal_ ? kTerminalInterval : kFileInterval);
}

void Progress::Show(int64_t step, double loss, double learning_rate, absl::Span<const Metric> parts,
                    absl::Span<const ProgressField> notes) {
  last_shown_ = SteadyNow();
  ProgressValues values = {
      .step = step, .total = options_.total, .loss = loss, .learning_rate = learning_rate, .unit = options_.unit};
  if (window_steps_ > 0) {
    const auto n = static_cast<double>(window_steps_);
    const double mean = std::max(absl::ToDoubleSeconds(window_time_) / n, 1e-9);  // time of a step
    recent_ = static_cast<double>(window_count_) / n / mean;
    const double error = recent_ / mean * std::sqrt(std::max(0.0, window_squares_ / n - mean * mean) / n);
    if (window_steps_ > 1) values.error = error;
  }
  values.rate = recent_;
  window_steps_ = window_count_ = 0;
  window_time_ = absl::ZeroDuration();
  window_squares_ = 0;
  if (options_.quiet) return;
  const int64_t left = options_.total - (options_.first + steps_);
  if (steps_ > kStepsToPredict || trained_ >= kTimeToPredict || (left == 0 && steps_ > 1)) {
    values.left = trained_ / static_cast<double>(std::max<int64_t>(steps_ - 1, 1)) * left;
  }
  const std::vector<ProgressField> fields = ProgressFields(values, parts, notes);
  // In the last column some terminals already go on to the next line.
  const std::string text = ProgressLine(fields, terminal_ ? TerminalColumns() - 1 : std::numeric_limits<int>::max());
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

}  // namespace belfry::trainers
