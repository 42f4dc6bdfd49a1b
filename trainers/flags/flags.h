// The flags of a program as a table. One row states a flag's name, meaning and legal values, the variable that it sets,
// and what a resumed run may do with it. The help, the checks and the settings in checkpoints come from the rows.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

// The variable of a flag. Its value when the row is added is the default.
using FlagValue = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::optional<int>*, absl::Duration*,
                               std::string*, std::vector<std::string>*>;

// The use that a program makes of the file or folder that a flag names.
enum class FileUse : uint8_t { kNone, kReads, kWrites, kAppends, kRunDirectory };

// The legal values of a flag, and how its value is recorded and compared.
struct FlagRule {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  // Also allows `number`, such as -1 for a default that depends on other flags.
  FlagRule Or(double number) const;
  // Checkpoints record the variable's value at the start of the run. `unrecorded`: RunSetting.
  FlagRule Recorded(absl::string_view unrecorded = "") const;
  // Recorded, and a run cannot be resumed with another value.
  FlagRule Fixed(absl::string_view unrecorded = "") const;
  // The processes of a run may have different values.
  FlagRule PerTask() const;
  // The flag names files. One that is written may be neither a file that the program reads, whatever it is called, nor
  // one of the run's own in a directory of a run, except that a file to append to may be its metrics.jsonl.
  FlagRule Files(FileUse use) const;

  double low = -kNoLimit, high = kNoLimit;
  bool above = false, below = false;  // without `low`, `high` themselves
  std::optional<double> also = {};
  std::string plural = {};                // what the choices are called: "schedules"
  std::vector<std::string> choices = {};  // empty: any text
  bool recorded = false, fixed = false, per_task = false;
  std::string unrecorded = {};
  FileUse files = FileUse::kNone;
  std::string written_if = {};
};
// Rules for finite numbers.
FlagRule Range(double low, double high = FlagRule::kNoLimit);  // low <= x <= high
FlagRule Above(double low);                                    // x > low
FlagRule Below1();                                             // 0 <= x < 1
// A rule for text; `plural` names the choices in errors: "schedules".
FlagRule OneOf(absl::string_view plural, absl::Span<const absl::string_view> choices);
// Rules that allow any value.
FlagRule Recorded(absl::string_view unrecorded = "");
FlagRule Fixed(absl::string_view unrecorded = "");
FlagRule PerTask();
FlagRule Reads();
// `if_set`: only where that flag is set.
FlagRule Writes(absl::string_view if_set = "");

// Values of flags that are published under a name. Flags on the command line replace them.
struct Recipe {
  absl::string_view name;
  absl::string_view flags;  // the text of a flag file
};

// The table of a program. Not thread-safe.
class Flags {
 public:
  Flags() = default;
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // Begins a section of the help.
  void Section(absl::string_view title) { section_ = std::string(title); }
  // Adds --name, which sets `value`; that is borrowed.
  void Add(absl::string_view name, FlagValue value, const FlagRule& rule, absl::string_view meaning);
  void Add(absl::string_view name, FlagValue value, absl::string_view meaning) { Add(name, value, {}, meaning); }
  // Adds --recipe, with one of these names, or none.
  void AddRecipes(absl::Span<const Recipe> recipes, absl::string_view meaning);
  // The program takes arguments that are no flags, and puts them here. Without this call they are an error. `use`: of
  // the files that they name.
  void TakeArguments(std::vector<std::string>& arguments, FileUse use = FileUse::kReads) {
    arguments_ = &arguments;
    argument_use_ = use;
  }

  // Sets the variables from a command line: --name=value, --name value, for bool --name and --noname;
  // --flagfile=FILE stands for the flags in the lines of FILE; --undefok=a,b names flags that may be unknown; after --
  // come arguments. --help, -h and --version also set `text`, to be printed instead of a run. InvalidArgument says what
  // is legal, for an unknown flag which one has the nearest name, and which file of the program's an output would
  // replace.
  absl::Status Parse(absl::Span<const std::string> command_line, absl::string_view usage, std::string& text);

  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  // True if the command line gave --name another value than its default, or the recipe's.
  bool IsSet(absl::string_view name) const;
  // InvalidArgument if one of `names` IsSet; `context` is what they do not apply to.
  absl::Status Reject(absl::Span<const absl::string_view> names, absl::string_view context) const;

  // The settings of all rows that are recorded.
  std::vector<RunSetting> Settings() const;
  // The rows that processes of one run must agree on, as "--name=value".
  std::vector<std::string> SharedLines() const;
  // For --help: the usage, and all rows by section.
  std::string Help(absl::string_view program, absl::string_view usage) const;

 private:
  struct Row {
    std::string text() const;   // of the variable's value
    std::string Legal() const;  // "0 to 1000", "above 0"; empty: any value
    absl::Status Set(absl::string_view text);
    absl::Status Check() const;

    std::string name, meaning, section;
    FlagValue value;
    FlagRule rule;
    // Texts of the default, also by the recipe, and of the value after the command line.
    std::string without_recipe = {}, before = {}, given = {};
  };
  using Assignment = std::pair<Row*, std::string>;
  const Row* Find(absl::string_view name) const;
  Row* Find(absl::string_view name) { return const_cast<Row*>(std::as_const(*this).Find(name)); }
  absl::Status Unknown(absl::string_view name) const;
  // Appends what `words` assign; words that are no flags go to arguments_.
  absl::Status Read(absl::Span<const std::string> words, std::vector<Assignment>& assignments);
  // The same for the lines of a flag file; `where` names it in errors.
  absl::Status ReadLines(absl::string_view text, absl::string_view where, std::vector<Assignment>& assignments);
  absl::Status ApplyRecipe();
  // InvalidArgument: a file to write is one that the program reads or that a run owns (output_files.cc).
  absl::Status CheckOutputs() const;

  std::deque<Row> rows_;
  std::string section_ = "Flags";
  std::vector<std::string>* arguments_ = nullptr;
  FileUse argument_use_ = FileUse::kNone;
  std::vector<std::string> flag_files_;
  absl::Span<const Recipe> recipes_ = {};
  std::string recipe_ = {};
  bool help_ = false, version_ = false;  // asked for on the command line
};

}  // namespace belfry::trainers
