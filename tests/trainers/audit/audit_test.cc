// Runs of a small program, checked, repeated and compared as the program `audit` does it.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/file.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/session.h"
#include "ops/builtin_ops.h"
#include "tests/main/testing.h"
#include "trainers/audit/check.h"
#include "trainers/audit/compare.h"
#include "trainers/audit/replayer.h"
#include "trainers/ledger/run_ledger.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

void ChangeByte(const std::string& path, size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at)).put(byte);
}

class Audit : public ::testing::Test {
 protected:
  Audit() { Write(File("data.txt"), "7"); }

  std::string File(const std::string& name) const { return folder_ / name; }
  // Runs the program with a directory of that name.
  // "run" refuses to go on.
  void ExpectForeignCheckpoint() const {
    const std::string command = absl::StrCat(BELFRY_NUDGED_TRAINING, " --train_dir=", File("run"),
                                             " --data=", File("data.txt"), " --steps=50 > ", File("output"), " 2>&1");
    EXPECT_NE(std::system(command.c_str()), 0);
    EXPECT_THAT(Contents(File("output")), HasSubstr(".safetensors: is not the checkpoint that this run wrote"));
  }
  void Train(const std::string& run, const std::string& flags = "") const {
    fs::create_directories(File(run));
    const std::string command = absl::StrCat(BELFRY_NUDGED_TRAINING, " --train_dir=", File(run),
                                             " --data=", File("data.txt"), " ", flags, " > ", File("output"), " 2>&1");
    ASSERT_EQ(std::system(command.c_str()), 0) << Contents(File("output"));
  }
  RunRecord Record(const std::string& run) const { return ValueOf(ReadRun(File(run))); }
  CheckedRun Check(const std::string& run) const { return CheckRun(Record(run)); }

  const TemporaryFolder folder_;
};

// The tensor of a checkpoint that has the byte at `offset`; "" in the header.
std::string TensorAt(const std::string& path, size_t offset) {
  const io::SafetensorsFile file = io::SafetensorsFile::Open(path).value();
  size_t data = fs::file_size(path);
  for (const io::TensorInfo& info : file.tensors()) data -= info.end - info.begin;
  for (const io::TensorInfo& info : file.tensors()) {
    if (offset >= data + info.begin && offset < data + info.end) return info.name;
  }
  return "";
}

TEST_F(Audit, NamesEveryFlippedBit) {
  Train("one", "--steps=60 --checkpoint_every=10");
  Train("two", "--steps=35 --checkpoint_every=10 --devices=cpu:2 --towers=2");
  Train("two", "--steps=60 --checkpoint_every=10 --devices=cpu:2 --towers=2");  // which goes on
  std::mt19937_64 random(TestSeed());
  for (const std::string run : {"one", "two"}) {
    SCOPED_TRACE(run);
    const CheckedRun whole = Check(run);
    ASSERT_THAT(whole.problems, IsEmpty());
    ASSERT_THAT(whole.notes, IsEmpty());
    std::vector<std::string> files = {File("data.txt")};
    for (const auto& entry : fs::recursive_directory_iterator(File(run))) {
      if (entry.is_regular_file() && !entry.is_symlink() && fs::file_size(entry) > 0) files.push_back(entry.path());
    }
    ASSERT_GE(files.size(), 9u);
    for (int flip = 0; flip < 500; ++flip) {
      const std::string& path = files[random() % files.size()];
      const std::string name = fs::path(path).filename(), before = Contents(path);
      const size_t byte = random() % before.size();
      const std::string tensor = absl::EndsWith(name, ".safetensors") ? TensorAt(path, byte) : "";
      ChangeByte(path, byte, static_cast<char>(before[byte] ^ (1 << random() % 8)));
      const CheckedRun checked = Check(run);
      EXPECT_FALSE(checked.problems.empty()) << name << ", byte " << byte;
      // A record of the chain that cannot be read leaves others without what they are about; it is named first.
      const std::string first = checked.problems.empty() ? "" : checked.problems[0];
      EXPECT_THAT(first, AllOf(HasSubstr(name), HasSubstr(tensor))) << "byte " << byte;
      EXPECT_TRUE(checked.problems.size() == 1 || name == kChainFile) << name << ", byte " << byte;
      ChangeByte(path, byte, before[byte]);
    }
  }
}

TEST_F(Audit, NamesWhatIsMissing) {
  Train("run", "--steps=20 --checkpoint_every=10");
  fs::remove(File("run/checkpoints/step-00000010.safetensors"));
  EXPECT_THAT(Check("run").problems, IsEmpty());  // as if it were not kept
  fs::remove(File("run/checkpoints/step-00000020.safetensors"));
  fs::remove(File("run/metrics.jsonl"));
  EXPECT_THAT(Check("run").problems, ElementsAre(HasSubstr("step-00000020.safetensors"), HasSubstr("metrics.jsonl")));
  std::string chain = Contents(File("run/chain.jsonl"));
  const size_t line = chain.find("{\"record\":\"batches\"");
  chain.erase(line, chain.find('\n', line) + 1 - line);
  Write(File("run/chain.jsonl"), chain);
  EXPECT_THAT(Check("run").problems, ::testing::Contains(HasSubstr("does not match its hash")));
  fs::remove(File("run/chain.jsonl"));
  EXPECT_TRUE(absl::IsNotFound(ReadRun(File("run")).status()));
}

TEST_F(Audit, NamesTheFolderOfTheRunIfItIsGone) {
  Train("run", "--steps=20 --checkpoint_every=10");
  RunRecord run = Record("run");
  run.starts[0].folder = File("gone");
  Replayer replayer({});
  const absl::Status status = ReplayAround(run, 15, replayer).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(File("gone"), ": no such folder")));
}

// A task that saves alone, after an error, leaves the batches since the last record without digests.
TEST_F(Audit, NotesBatchesWithoutDigests) {
  std::vector<ChainLine> lines;
  for (const std::string text :
       {R"({"record":"start","step":0})",
        R"({"record":"batches","step":2,"first":0,"digests":"00000000000000010000000000000002"})",
        R"({"record":"save","step":5})"}) {
    lines.push_back({.text = text, .intact = true});
  }
  const auto notes = [&] { return CheckRun(ParseRun(File("run"), lines)).notes; };
  EXPECT_THAT(notes(), ::testing::Contains("the chain has no digests of the batches of steps 2 to 4"));
  lines.push_back({.text = R"({"record":"batches","step":6,"first":5,"digests":"0000000000000003"})", .intact = true});
  EXPECT_THAT(notes(), ::testing::Contains("the chain has no digests of the batches of steps 2 to 4"));
}

TEST_F(Audit, SaysWhereTheLayoutOfAReplayDoesNotPromiseTheSameBits) {
  Train("run", "--steps=20 --checkpoint_every=10 --devices=cpu:2 --towers=2 --threads_per_device=1");
  Write(File("fault"), "15");  // so that they differ in any case
  const auto text = [&](const std::string& flag) {
    Replayer replayer({absl::StrCat("--fault=", File("fault")), flag});
    const Comparison comparison = ValueOf(ReplayAround(Record("run"), 15, replayer));
    return comparison.text;
  };
  const std::string advice = "do not promise the same bits: repeat it with --towers=2 --threads_per_device=1 after --.";
  EXPECT_THAT(text("--towers=4"), AllOf(HasSubstr("The run had 2 towers, and the replay 4. Such"), HasSubstr(advice)));
  EXPECT_THAT(text("--threads_per_device=3"),
              AllOf(HasSubstr("; 1 thread per device, and the replay 3. Such"), HasSubstr(advice)));
  EXPECT_THAT(text("--devices=cpu:1"), testing::Not(HasSubstr("promise")));
}

// A kill leaves the `save` of each checkpoint that is there; a chain without it has lost its end.
TEST_F(Audit, TellsACutChainFromAKill) {
  Train("run", "--steps=40 --checkpoint_every=10");
  const std::string chain = Contents(File("run/chain.jsonl"));
  const auto record_at = [&](const std::string& kind, int step) {
    return chain.find(absl::StrCat("{\"record\":\"", kind, "\",\"step\":", step, ","));
  };
  Write(File("run/chain.jsonl"), chain.substr(0, record_at("checkpoint", 40)));
  EXPECT_THAT(Check("run").problems, IsEmpty());
  EXPECT_THAT(Check("run").summary, HasSubstr("; 3 of 3 checkpoints, 1 without a record, 2 logs"));
  for (const size_t size : {record_at("save", 40), record_at("save", 30)}) {
    Write(File("run/chain.jsonl"), chain.substr(0, size));
    const std::vector<std::string> problems = Check("run").problems;
    ASSERT_FALSE(problems.empty());
    EXPECT_THAT(problems.back(), HasSubstr("step-00000040.safetensors: chain.jsonl has no record that it was about"));
  }
  // A chain that began anew at a checkpoint has no records of older ones.
  fs::remove(File("run/chain.jsonl"));
  fs::remove(File("run/checkpoints/latest"));
  fs::create_symlink("step-00000030.safetensors", File("run/checkpoints/latest"));
  fs::remove(File("run/checkpoints/step-00000040.safetensors"));
  Train("run", "--steps=50 --checkpoint_every=10");
  EXPECT_THAT(Check("run").problems, IsEmpty());
  EXPECT_THAT(Check("run").notes, ElementsAre(HasSubstr("step-00000010"), HasSubstr("step-00000020")));
  Write(File("run/chain.jsonl"), "");
  EXPECT_THAT(Check("run").problems, ElementsAre(HasSubstr("no record of a start")));
  EXPECT_THAT(Check("run").summary, HasSubstr("; 5 checkpoints, none recorded, 0 logs"));
}

TEST_F(Audit, RunsNoProgramThatADamagedChainNames) {
  Train("run", "--steps=20 --checkpoint_every=10");
  std::string chain = Contents(File("run/chain.jsonl"));
  const size_t line = chain.find("{\"record\":\"batches\"");
  chain.erase(line, chain.find('\n', line) + 1 - line);
  Write(File("run/chain.jsonl"), chain);
  Replayer replayer({});
  const absl::Status replayed = ReplayAround(Record("run"), 15, replayer).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(replayed)) << replayed;
  EXPECT_THAT(replayed.message(), HasSubstr("chain.jsonl is damaged"));
  EXPECT_EQ(replayer.runs(), 0);
}

TEST_F(Audit, RunThatGoesOnHasTheRecordsOfAnUndisturbedOne) {
  Train("whole", "--steps=150 --checkpoint_every=10");
  Train("parts", "--steps=47 --checkpoint_every=10");
  Train("parts", "--steps=150 --checkpoint_every=10");
  const RunRecord whole = Record("whole"), parts = Record("parts");
  EXPECT_THAT(Check("parts").problems, IsEmpty());
  EXPECT_EQ(parts.starts.size(), 2u);
  EXPECT_EQ(whole.batches.size(), 150u);
  EXPECT_EQ(parts.batches, whole.batches);
  for (const auto& [step, checkpoint] : whole.checkpoints) {
    EXPECT_EQ(parts.checkpoints.at(step).weights, checkpoint.weights) << step;
  }
}

// A killed process leaves a part of the chain.
TEST_F(Audit, ChainIsCutBackToItsCheckpoint) {
  Train("run", "--steps=20 --checkpoint_every=10");
  const std::string chain = Contents(File("run/chain.jsonl")), save = "{\"record\":\"save\",\"step\":10";
  const size_t kept = chain.find('\n', chain.find(save)) + 1;
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.cpu_threads = 1}).value();
  const std::unique_ptr<World> world = World::Alone();
  Graph graph(BuiltinOps());
  const auto session = Session::Create(graph, devices).value();
  const models::TrainStep step{.towers_in_all = 1};
  const io::Checkpoint checkpoint{.path = File("run/checkpoints/step-00000010.safetensors")};
  for (size_t size = kept; size <= chain.size();
       size = size == chain.size() ? size + 1 : std::min(size + 7, chain.size())) {
    Write(File("run/chain.jsonl"), chain.substr(0, size));
    TrainingState state{.session = *session, .world = *world, .train_step = step, .resume = &checkpoint, .total = 20};
    state.steps = 10;
    ASSERT_EQ(RunLedger({.directory = File("run")}).OnStart(state), absl::OkStatus());
    const std::string cut = Contents(File("run/chain.jsonl"));
    ASSERT_EQ(cut.substr(0, kept), chain.substr(0, kept));
    ASSERT_THAT(ParseChain(cut), Each(::testing::Field(&ChainLine::intact, true)));
    ASSERT_TRUE(absl::StartsWith(cut.substr(kept), "{\"record\":\"checkpoint\",\"step\":10"));
  }
}

TEST_F(Audit, RepeatsSteps) {
  Train("run", "--steps=100 --checkpoint_every=20 --devices=cpu:2 --towers=2");
  const RunRecord run = Record("run");
  Replayer same({}), other({"--devices=cpu:1"});
  for (Replayer* const replayer : {&same, &other}) {
    ASSERT_OK_AND_ASSIGN(const Comparison comparison, ReplayAround(run, 50, *replayer));
    EXPECT_TRUE(comparison.same) << comparison.text;
    EXPECT_THAT(comparison.text, HasSubstr("Steps 40 to 59 were repeated from"));
  }
  // The nearest checkpoint is gone, so the replay starts from the one before it.
  fs::remove(File("run/checkpoints/step-00000040.safetensors"));
  EXPECT_THAT(ReplayAround(run, 50, same)->text, HasSubstr("Steps 20 to 59 were repeated from"));
  EXPECT_TRUE(absl::IsOutOfRange(ReplayAround(run, 100, same).status()));
  Write(File("fault"), "33");
  Replayer faulty({absl::StrCat("--fault=", File("fault"))});
  ASSERT_OK_AND_ASSIGN(const Comparison comparison, ReplayAround(run, 33, faulty));
  EXPECT_FALSE(comparison.same);
  EXPECT_THAT(comparison.text, HasSubstr("not the variables after step 39"));
}

TEST_F(Audit, FindsAPlantedFault) {
  std::mt19937_64 random(TestSeed());
  Train("good");
  for (int trial = 0; trial < 3; ++trial) {
    const int64_t step = static_cast<int64_t>(random() % 500);
    SCOPED_TRACE(step);
    Write(File("fault"), absl::StrCat(step));
    fs::remove_all(File("bad"));
    Train("bad", absl::StrCat("--fault=", File("fault")));
    Replayer replayer({});
    ASSERT_OK_AND_ASSIGN(const Comparison comparison, CompareRuns(Record("good"), Record("bad"), replayer));
    EXPECT_FALSE(comparison.same);
    EXPECT_THAT(comparison.text,
                AllOf(HasSubstr(absl::StrCat("They differ first in step ", step, ", by arithmetic.")),
                      HasSubstr("'tower_0/nudge' (op Nudge, defined at tests/trainers/audit/nudged_training.cc:"),
                      HasSubstr("tower_0.")));
    EXPECT_LE(replayer.runs(), 12);
  }
}

TEST_F(Audit, TellsDataFromPlansAndFromWhatDoesNotRepeatItself) {
  Train("good", "--steps=100");
  Replayer replayer({});
  Train("same", "--steps=100");
  EXPECT_TRUE(CompareRuns(Record("good"), Record("same"), replayer)->same);
  Write(File("data.txt"), "8");
  Train("other", "--steps=100");
  EXPECT_THAT(CompareRuns(Record("good"), Record("other"), replayer)->text,
              HasSubstr("They differ first in step 0, by its data"));
  EXPECT_EQ(replayer.runs(), 0);
  Write(File("data.txt"), "7");
  Train("towers", "--steps=100 --towers=2 --devices=cpu:2");
  EXPECT_EQ(Record("towers").batches, Record("good").batches);
  EXPECT_THAT(CompareRuns(Record("good"), Record("towers"), replayer)->text, HasSubstr("by the plan (training 0)"));
  Write(File("fault"), "60");
  Train("once", absl::StrCat("--steps=100 --fault=", File("fault")));
  fs::remove(File("fault"));
  EXPECT_THAT(CompareRuns(Record("good"), Record("once"), replayer)->text,
              AllOf(HasSubstr("The records are the same up to step 50 and not after step 99"),
                    HasSubstr("does not repeat itself")));
}

TEST_F(Audit, DoesNotCallRunsTheSameThatHaveNoCheckpointInCommon) {
  Train("tens", "--steps=20 --checkpoint_every=10");
  Train("nines", "--steps=18 --checkpoint_every=9");
  Replayer replayer({});
  const absl::Status status = CompareRuns(Record("tens"), Record("nines"), replayer).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("--checkpoint_every"));
  EXPECT_EQ(replayer.runs(), 0);
}

// A run that goes on renews the records of what it finds, but not of what another has changed.
TEST_F(Audit, GoesOnFromItsOwnCheckpointOnly) {
  Train("run", "--steps=20 --checkpoint_every=10");
  Write(File("data.txt"), "8");
  Train("other", "--steps=20 --checkpoint_every=10");
  Write(File("data.txt"), "7");
  const std::string last = "run/checkpoints/step-00000020.safetensors";
  fs::copy_file(File(last), File("kept"));
  fs::copy_file(File("other/checkpoints/step-00000020.safetensors"), File(last), fs::copy_options::overwrite_existing);
  const std::vector<std::string> problems = Check("run").problems;
  EXPECT_THAT(problems, ElementsAre(HasSubstr("step-00000020.safetensors: the header")));
  ExpectForeignCheckpoint();
  EXPECT_EQ(Check("run").problems, problems) << "nothing was covered up";
  fs::copy_file(File("kept"), File(last), fs::copy_options::overwrite_existing);
  Train("run", "--steps=30 --checkpoint_every=10");
  EXPECT_THAT(Check("run").problems, IsEmpty());
  // A chain that was moved away begins anew with the checkpoint, before any that it says was saved.
  fs::remove(File("run/chain.jsonl"));
  Train("run", "--steps=40 --checkpoint_every=10");
  const std::string chain = Contents(File("run/chain.jsonl"));
  Write(File("run/chain.jsonl"), chain.substr(0, chain.rfind('\n', chain.find("{\"record\":\"save\"")) + 1));
  for (const char* name : {"step-00000040.safetensors", "latest"}) fs::remove(File("run/checkpoints") + "/" + name);
  fs::create_symlink("step-00000030.safetensors", File("run/checkpoints/latest"));
  Train("other", "--steps=30 --checkpoint_every=10");
  fs::copy_file(File("other/checkpoints/step-00000030.safetensors"), File("run/checkpoints/step-00000030.safetensors"),
                fs::copy_options::overwrite_existing);
  ExpectForeignCheckpoint();
}

TEST_F(Audit, RemembersDamageToLogsWhenTheRunGoesOn) {
  Train("run", "--steps=60 --checkpoint_every=20");
  const std::string metrics = Contents(File("run/metrics.jsonl"));
  Write(File("run/metrics.jsonl"), metrics.substr(0, metrics.find('\n') + 1));
  ASSERT_THAT(Check("run").problems, ::testing::Contains(HasSubstr("metrics.jsonl, bytes 0 to")));
  for (int turn = 0; turn < 2; ++turn) {
    Train("run", absl::StrCat("--checkpoint_every=20 --steps=", 80 + 20 * turn));
    EXPECT_THAT(Check("run").problems,
                ::testing::Contains(AllOf(HasSubstr("metrics.jsonl, bytes 0 to"),
                                          HasSubstr("not as they were when step 20 was done (line "),
                                          HasSubstr("; found when the run went on at step 60"))));
    EXPECT_THAT(Check("run").problems, Each(HasSubstr("at step 60")));
  }
  // Also when it goes back to an older checkpoint, whose records come before those of the damage.
  fs::remove(File("run/checkpoints/latest"));
  fs::create_symlink("step-00000020.safetensors", File("run/checkpoints/latest"));
  for (const int step : {40, 60, 80, 100}) {
    fs::remove(File(absl::StrCat("run/checkpoints/", io::CheckpointName(step))));
  }
  Train("run", "--steps=40 --checkpoint_every=20");
  EXPECT_THAT(Check("run").problems, ::testing::Contains(HasSubstr("found when the run went on at step 60")));
}

TEST_F(Audit, RemembersADamagedRecordThatIsCutOff) {
  Train("run", "--steps=20 --checkpoint_every=10");
  const std::string chain = Contents(File("run/chain.jsonl"));
  ChangeByte(File("run/chain.jsonl"), chain.find("\"record\":\"end\"") + 20, '!');
  ASSERT_THAT(Check("run").problems, ::testing::Contains(HasSubstr("does not match its hash")));
  Train("run", "--steps=30 --checkpoint_every=10");
  EXPECT_THAT(Check("run").problems, ElementsAre(HasSubstr("the record did not match its hash; found when the run")));
  // A kill leaves a part of a line, which is no damage.
  Train("killed", "--steps=20 --checkpoint_every=10");
  const std::string killed = Contents(File("killed/chain.jsonl"));
  Write(File("killed/chain.jsonl"), killed.substr(0, killed.size() - 9));
  Train("killed", "--steps=30 --checkpoint_every=10");
  EXPECT_THAT(Check("killed").problems, IsEmpty());
}

// A process that was killed after it had cut a log back, and before it recorded that.
TEST_F(Audit, ACutOfItsOwnIsNoDamage) {
  Train("run", "--steps=20 --checkpoint_every=10");
  const std::string chain = Contents(File("run/chain.jsonl"));
  Train("run", "--steps=30 --checkpoint_every=10");
  const std::string again = Contents(File("run/chain.jsonl"));
  const size_t start = again.find("{\"record\":\"start\",\"step\":20");
  ASSERT_NE(start, again.npos);
  Write(File("run/chain.jsonl"), again.substr(0, again.find('\n', start) + 1));
  fs::remove(File("run/checkpoints/step-00000030.safetensors"));
  fs::remove(File("run/checkpoints/latest"));
  fs::create_symlink("step-00000020.safetensors", File("run/checkpoints/latest"));
  const std::string metrics = Contents(File("run/metrics.jsonl"));
  Write(File("run/metrics.jsonl"), metrics.substr(0, metrics.find('\n') + 1));
  Train("run", "--steps=30 --checkpoint_every=10");
  EXPECT_THAT(Check("run").problems, IsEmpty());
}

TEST_F(Audit, LooksAtLinks) {
  Train("run", "--steps=40 --checkpoint_every=10");
  ASSERT_THAT(Check("run").problems, IsEmpty());
  const std::string latest = File("run/checkpoints/latest");
  fs::remove(latest);
  EXPECT_THAT(Check("run").problems, ElementsAre(HasSubstr("latest: does not lead to a checkpoint")));
  fs::create_symlink("step-00000020.safetensors", latest);
  EXPECT_THAT(Check("run").problems, ElementsAre(AllOf(HasSubstr("latest: leads to step-00000020.safetensors, but "
                                                                 "step-00000040.safetensors is the last one (line "))));
  fs::remove(latest);
  fs::copy_file(File("run/checkpoints/step-00000040.safetensors"), latest);
  EXPECT_THAT(Check("run").problems, IsEmpty());
}

// Another spelling of a step is another file.
TEST_F(Audit, CountsACheckpointOnce) {
  Train("run", "--steps=20 --checkpoint_every=10");
  fs::copy_file(File("run/checkpoints/step-00000020.safetensors"), File("run/checkpoints/step-020.safetensors"));
  EXPECT_THAT(Check("run").problems, IsEmpty());
  EXPECT_THAT(Check("run").summary, HasSubstr("; 2 of 2 checkpoints, 1 without a record, "));
}

TEST_F(Audit, KeepsPathsOfAnyBytes) {
  const std::string data = File("c\xFF\x1B.txt");
  Write(data, "7");
  Train("run", absl::StrCat("--steps=20 --checkpoint_every=10 '--data=", data, "'"));
  const RunRecord run = Record("run");
  EXPECT_THAT(run.data, ElementsAre(::testing::Key(data)));
  EXPECT_THAT(run.starts[0].arguments, ::testing::Contains(absl::StrCat("--data=", data)));
  EXPECT_THAT(Check("run").problems, IsEmpty());
  Replayer replayer({});
  EXPECT_TRUE(ValueOf(ReplayAround(run, 15, replayer)).same);
}

TEST_F(Audit, TakesDeepNesting) {
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  const RunRecord run =
      ParseRun("run", ParseChain(absl::StrCat("{\"record\":", deep, ",\"hash\":\"", std::string(32, '0'), "\"}\n")));
  EXPECT_EQ(run.damage.size(), 1u);
}

class AuditReplays : public Audit {
 protected:
  AuditReplays() {
    fs::create_directory(File("tmp"));
    setenv("TMPDIR", File("tmp").c_str(), 1);
  }
  ~AuditReplays() override { unsetenv("TMPDIR"); }
  // Starts a replay of many steps in a process of its own, waits until the program runs, and ends it by the signal.
  int Interrupt(int signal) const {
    const pid_t child = fork();
    if (child == 0) {
      Replayer replayer({});
      const absl::Status status = ReplayAround(Record("run"), 1, replayer).status();
      _exit(absl::IsCancelled(status) ? 3 : 4);
    }
    while (!fs::exists(Report())) absl::SleepFor(absl::Milliseconds(5));
    kill(child, signal);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
  // The report of the replay that is under way.
  std::string Report() const {
    for (const auto& entry : fs::directory_iterator(File("tmp"))) return entry.path() / "report.jsonl";
    return File("none");
  }
};

TEST_F(AuditReplays, LeaveNothingWhenTheyAreStopped) {
  Train("run", "--steps=40000 --checkpoint_every=40000");
  const int status = Interrupt(SIGINT);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
  EXPECT_TRUE(fs::is_empty(File("tmp")));
  EXPECT_TRUE(WIFSIGNALED(Interrupt(SIGKILL)));
  // The program ends with the one that started it, and a later one removes what that left.
  const std::string report = Report(), folder = fs::path(report).parent_path();
  const auto size = [&] { return fs::file_size(report); };
  absl::SleepFor(absl::Milliseconds(200));
  const uintmax_t before = size();
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(size(), before);
  fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  Train("short", "--steps=20 --checkpoint_every=10");
  Replayer replayer({});
  EXPECT_TRUE(ValueOf(ReplayAround(Record("short"), 15, replayer)).same);
  EXPECT_TRUE(fs::is_empty(File("tmp")));
}

}  // namespace
}  // namespace belfry::trainers
