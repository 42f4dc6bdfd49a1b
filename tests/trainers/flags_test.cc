#include "trainers/flags/flags.h"
#include "tests/main/testing.h"

#include <fstream>

#include "trainers/recipes/recipes.h"

namespace belfry::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Recipe kRecipes[] = {{"fast", "# 9.9 epochs\n--rate=1.5\n--epochs=9.9\n--drop\n"}, {"slow", "--rate=0.1"}};

struct Program {
  Program() {
    flags.AddRecipes(kRecipes, "A published training.");
    flags.Section("Model");
    flags.Add("rate", &rate, Above(0).Recorded(), "The rate.");
    flags.Add("epochs", &epochs, Range(0, 100), "Passes.");
    flags.Add("steps", &steps, Range(0).Or(-1).Fixed("7"), "Steps.");
    flags.Add("momentum", &momentum, Below1(), "Momentum.");
    flags.Add("schedule", &schedule, OneOf("schedules", {"cosine", "constant"}), "The schedule.");
    flags.Section("Data");
    flags.Add("drop", &drop, "Leave out the rest.");
    flags.Add("confusion", &confusion, PerTask(), "Print the table.");
    flags.Add("hidden", &hidden, "Widths.");
    flags.Add("threads", &threads, Range(0, 8), "Threads.");
    flags.Add("limit", &limit, "Time.");
  }
  absl::Status Parse(std::vector<std::string> words) {
    words.insert(words.begin(), "folder/program");
    return flags.Parse(words, "Does things.", text);
  }
  std::string Error(const std::vector<std::string>& words) { return std::string(Parse(words).message()); }

  Flags flags;
  double rate = 0.5, epochs = 0, momentum = 0.9;
  int64_t steps = -1;
  std::string schedule = "cosine", text;
  bool drop = false, confusion = true;
  std::vector<std::string> hidden = {"64", "32"};
  std::optional<int> threads;
  absl::Duration limit = absl::InfiniteDuration();
};

TEST(Flags, SetVariables) {
  Program program;
  ASSERT_EQ(program.Parse({"--rate=2", "--steps", "5", "-drop", "--noconfusion", "--hidden=8,16", "--threads=3",
                           "--limit=90s", "--schedule=constant", "--rate=1e-3"}),
            absl::OkStatus());
  EXPECT_EQ(program.rate, 1e-3);
  EXPECT_EQ(program.steps, 5);
  EXPECT_TRUE(program.drop);
  EXPECT_FALSE(program.confusion);
  EXPECT_THAT(program.hidden, ElementsAre("8", "16"));
  EXPECT_EQ(program.threads, 3);
  EXPECT_EQ(program.limit, absl::Seconds(90));
  EXPECT_EQ(program.schedule, "constant");
  EXPECT_TRUE(program.flags.IsSet("rate"));
  EXPECT_FALSE(program.flags.IsSet("momentum"));
}

TEST(Flags, SayWhatIsLegal) {
  const std::pair<std::string, std::string> kCases[] = {
      {"--rate=0", "--rate=0 must be above 0"},
      {"--rate=nan", "--rate=nan must be above 0"},
      {"--rate=inf", "--rate=inf must be above 0"},
      {"--epochs=101", "--epochs=101 must be 0 to 100"},
      {"--steps=-2", "--steps=-2 must be at least 0, or -1"},
      {"--momentum=1", "--momentum=1 must be at least 0 and below 1"},
      {"--threads=9", "--threads=9 must be 0 to 8"},
      {"--threads=many", "--threads=many is no value of this flag"},
      {"--schedule=", "--schedule= is unknown; the schedules are cosine and constant"},
      {"--schedule=parabola", "--schedule=parabola is unknown; the schedules are cosine and constant"},
      {"--drop=maybe", "--drop=maybe is no value of this flag"},
      {"--recipe=quick", "--recipe=quick is unknown; the recipes are fast and slow"},
      {"--shedule=cosine", "Unknown command line flag 'shedule'; did you mean --schedule?"},
      {"--norate", "Unknown command line flag 'norate'; did you mean --rate?"},
      {"--whatever_it_is", "Unknown command line flag 'whatever_it_is'; --help lists the flags"},
      {"--rate", "--rate needs a value: --rate=VALUE"},
      {"file", "unexpected argument 'file'"},
  };
  for (const auto& [word, error] : kCases) EXPECT_THAT(Program().Error({word}), HasSubstr(error)) << word;
}

TEST(Flags, RejectWhatDoesNotApply) {
  Program program;
  ASSERT_EQ(program.Parse({"--rate=0.5", "--steps=3"}), absl::OkStatus());
  EXPECT_EQ(program.flags.Reject({"rate"}, "this run"), absl::OkStatus());  // its default
  EXPECT_EQ(program.flags.Reject({"rate", "steps"}, "this run").message(),
            "--steps=3 does not apply to this run; remove it, or give its default, --steps=-1");
}

TEST(Flags, RecipesAreDefaults) {
  Program program;
  ASSERT_EQ(program.Parse({"--epochs=2", "--recipe=fast"}), absl::OkStatus());
  EXPECT_EQ(program.rate, 1.5);
  EXPECT_EQ(program.epochs, 2);
  EXPECT_TRUE(program.drop);
  EXPECT_FALSE(program.flags.IsSet("rate"));
  EXPECT_TRUE(program.flags.IsSet("epochs"));
  Program other;
  ASSERT_EQ(other.Parse({"--epochs=0", "--recipe=fast"}), absl::OkStatus());
  EXPECT_EQ(other.epochs, 0);
  EXPECT_FALSE(other.flags.IsSet("epochs"));  // its default without a recipe
}

TEST(Flags, ComeFromFiles) {
  const std::string path = testing::TempDir() + "/flags";
  std::ofstream(path) << "# a comment\n\n  --rate=3\n--recipe=fast\n--nodrop\n";
  Program program;
  ASSERT_EQ(program.Parse({"--flagfile=" + path, "--steps=1"}), absl::OkStatus());
  EXPECT_EQ(program.rate, 3);
  EXPECT_EQ(program.epochs, 9.9);
  EXPECT_FALSE(program.drop);
  std::ofstream(path) << "rate=3\n";
  EXPECT_THAT(Program().Error({"--flagfile", path}), HasSubstr("'rate=3' is no line --name=value"));
  std::ofstream(path) << "--flagfile=" << path << "\n";
  EXPECT_THAT(Program().Error({"--flagfile", path}), HasSubstr("is no line --name=value"));
  EXPECT_THAT(Program().Error({"--flagfile=/nowhere"}), HasSubstr("/nowhere"));
}

TEST(Flags, ArgumentsAndUnknownFlags) {
  Program program;
  std::vector<std::string> arguments;
  program.flags.TakeArguments(arguments);
  ASSERT_EQ(program.Parse({"a", "--undefok=export,trace", "--export=x", "--rate=3", "b", "--", "--steps=1", "c"}),
            absl::OkStatus());
  EXPECT_THAT(arguments, ElementsAre("a", "b", "--steps=1", "c"));
  EXPECT_EQ(program.steps, -1);
  EXPECT_EQ(program.rate, 3);
}

TEST(Flags, SettingsAreValuesInEffect) {
  Program program;
  ASSERT_EQ(program.Parse({"--rate=0.001995652"}), absl::OkStatus());
  program.steps = 100;
  const std::vector<RunSetting> settings = program.flags.Settings();
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].name, "--rate");
  EXPECT_EQ(settings[0].value, "0.00199565");
  EXPECT_FALSE(settings[0].fixed);
  EXPECT_EQ(settings[1].value, "100");
  EXPECT_TRUE(settings[1].fixed);
  EXPECT_EQ(settings[1].unrecorded, "7");
  EXPECT_THAT(program.flags.SharedLines(), testing::Contains("--rate=0.00199565"));
  EXPECT_THAT(program.flags.SharedLines(), Not(testing::Contains(HasSubstr("confusion"))));
}

TEST(Flags, HelpHasEveryRow) {
  Program program;
  ASSERT_EQ(program.Parse({"--rate=3", "--help"}), absl::OkStatus());
  EXPECT_THAT(program.text, HasSubstr("program: Does things.\n"));
  EXPECT_THAT(program.text, HasSubstr("\nModel:\n  --rate=0.5\n      The rate. (above 0)\n"));
  EXPECT_THAT(program.text, HasSubstr("  --schedule=cosine\n      The schedule. (cosine and constant)\n"));
  EXPECT_THAT(program.text, HasSubstr("\nData:\n  --drop=false\n"));
  EXPECT_THAT(Program().Error({"--rat=3", "--help"}), HasSubstr("Unknown command line flag 'rat'"));
  Program other;
  ASSERT_EQ(other.Parse({"--", "--help"}).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(other.Parse({"--version"}), absl::OkStatus());
  EXPECT_THAT(other.text, HasSubstr("program, Belfry "));
}

TEST(Flags, RecipesOfCifar10AreFlagFiles) {
  ASSERT_EQ(CifarRecipes().size(), 3u);
  for (const Recipe& recipe : CifarRecipes())
    EXPECT_THAT(std::string(recipe.flags), HasSubstr("--model=")) << recipe.name;
}

}  // namespace
}  // namespace belfry::trainers
