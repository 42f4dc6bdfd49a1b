// Outputs of programs, which must not replace what the programs read.
#include <filesystem>
#include <fstream>

#include "tests/main/testing.h"
#include "trainers/flags/flags.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A program that reads data, weights and arguments, and writes a model, a log and, for rows, predictions.
class OutputFiles : public ::testing::Test {
 protected:
  OutputFiles() {
    for (const char* name :
         {"data/train.bin", "data/deep/more.bin", "t.csv", "w/index.json", "w/part.safetensors", "w/other.safetensors",
          "run/chain.jsonl", "run/metrics.jsonl", "run/trace.json", "run/events.out.tfevents.1.host",
          "run/model.safetensors", "run/checkpoints/step-00000005.safetensors", "flags", "notes"}) {
      folder_.Write(name, "bytes");
    }
    folder_.Write("flags", "");
    folder_.Write("w/index.json", R"({"weight_map": {"w": "part.safetensors"}})");
    fs::create_symlink("step-00000005.safetensors", File("run/checkpoints/latest"));
  }
  std::string File(const std::string& name) const { return folder_ / name; }
  // The message of the command line, whose words "--name=path" have paths in the folder; "" if it is right.
  std::string Error(const std::vector<std::string>& words) const {
    Flags flags;
    std::string data, weights, directory, model, log, predictions = "", text;
    std::vector<std::string> rows, arguments;
    flags.Add("data", &data, Reads(), "Data.");
    flags.Add("weights", &weights, Reads(), "Weights.");
    flags.Add("rows", &rows, Reads(), "Rows.");
    flags.Add("directory", &directory, PerTask().Files(FileUse::kRunDirectory), "The run's.");
    flags.Add("model", &model, Writes(), "A model.");
    flags.Add("log", &log, PerTask().Files(FileUse::kAppends), "A log.");
    flags.Add("predictions", &predictions, Writes("rows"), "Predictions.");
    flags.TakeArguments(arguments);
    std::vector<std::string> line = {"program"};
    for (const std::string& word : words) {
      const size_t equals = word.find('=');
      line.push_back(equals == word.npos ? File(word) : word.substr(0, equals + 1) + File(word.substr(equals + 1)));
    }
    const absl::Status status = flags.Parse(line, "Does things.", text);
    return std::string(status.message());
  }

  const TemporaryFolder folder_;
};

TEST_F(OutputFiles, ReplaceNothingThatIsRead) {
  fs::create_hard_link(File("t.csv"), File("hard"));
  fs::create_symlink(File("t.csv"), File("soft"));
  fs::create_directory_symlink(File("data"), File("linked"));
  for (const char* output : {"--model=t.csv", "--log=t.csv", "--model=hard", "--log=soft", "--model=./data/../t.csv"}) {
    EXPECT_THAT(Error({"--data=t.csv", output}),
                AllOf(HasSubstr("is a file that is read, --data="), HasSubstr("t.csv")))
        << output;
    EXPECT_THAT(Error({"--weights=soft", output}), HasSubstr("is a file that is read, --weights=")) << output;
    EXPECT_THAT(Error({"--rows=t.csv", output}), HasSubstr("is a file that is read, --rows=")) << output;
    EXPECT_THAT(Error({"t.csv", output}), HasSubstr("is a file that is read, ")) << output;
    EXPECT_EQ(Error({"--data=notes", output}), "") << output;
  }
  for (const char* output : {"--model=data/train.bin", "--log=data/deep/more.bin", "--model=linked/train.bin"}) {
    EXPECT_THAT(Error({"--data=data", output}), HasSubstr("is a file that is read, --data=")) << output;
    EXPECT_THAT(Error({"--data=linked", output}), HasSubstr("is a file that is read, --data=")) << output;
  }
  EXPECT_EQ(Error({"--data=data", "--model=data/new.safetensors"}), "");
  EXPECT_THAT(Error({"--flagfile=flags", "--model=flags"}), HasSubstr("is a file that is read, --flagfile="));
}

// The same command again, in the folder of its data, and beside the checkpoints that it begins with.
TEST_F(OutputFiles, ReplaceThemselves) {
  const std::string model = std::string("\x02\0\0\0\0\0\0\0{}", 10);
  for (const char* name : {"data/m.safetensors", "run/m.safetensors", "run/checkpoints/step-00000005.safetensors"}) {
    folder_.Write(name, model);
  }
  folder_.Write("data/m.jsonl", "{\"step\": 1}\n");
  for (const char* input : {"--data=data", "--weights=run"}) {
    EXPECT_EQ(Error({input, "--model=data/m.safetensors", "--log=data/m.jsonl"}), "") << input;
    EXPECT_EQ(Error({input, "--model=run/m.safetensors"}), "") << input;
  }
  EXPECT_THAT(Error({"--data=data", "--log=data/m.safetensors"}), HasSubstr("is a file that is read"));
  EXPECT_THAT(Error({"--data=data", "--model=data/m.jsonl"}), HasSubstr("is a file that is read"));
  for (const char* weights : {"--weights=run", "--weights=run/checkpoints"}) {
    EXPECT_THAT(Error({weights, "--model=run/checkpoints/step-00000005.safetensors"}),
                HasSubstr("is a file that is read"));
  }
}

TEST_F(OutputFiles, ReplaceNothingThatAnotherFileNames) {
  EXPECT_THAT(Error({"--weights=w/index.json", "--model=w/part.safetensors"}), HasSubstr("is a file that is read"));
  EXPECT_EQ(Error({"--weights=w/index.json", "--model=w/other.safetensors"}), "");
  folder_.Write("net.onnx",
                "\x0a\x08location\x12\x06"
                "beside, and a tensor named logits");
  folder_.Write("beside", "");
  folder_.Write("logits", "");
  for (const char* input : {"net.onnx", "--weights=net.onnx"}) {
    EXPECT_THAT(Error({input, "--model=beside"}), HasSubstr("is a file that is read"));
    EXPECT_EQ(Error({input, "--model=logits"}), "");
  }
  folder_.Write("vocab.json", "{}");
  folder_.Write("merges.txt", "");
  EXPECT_THAT(Error({"--weights=vocab.json", "--log=merges.txt"}), HasSubstr("is a file that is read"));
}

TEST_F(OutputFiles, ReplaceNothingOfARun) {
  fs::create_hard_link(File("run/chain.jsonl"), File("hard"));
  for (const char* output :
       {"--model=run/chain.jsonl", "--log=run/chain.jsonl", "--model=run/metrics.jsonl", "--model=run/trace.json",
        "--log=run/events.out.tfevents.1.host", "--model=run/checkpoints/step-00000005.safetensors",
        "--model=run/checkpoints/latest", "--model=run/checkpoints/new", "--log=hard"}) {
    EXPECT_THAT(Error({"--directory=run", output}), HasSubstr(" belongs to the run in --directory=")) << output;
  }
  // A run that is still to begin.
  EXPECT_THAT(Error({"--directory=new", "--model=new/chain.jsonl"}), HasSubstr(" belongs to the run in"));
  EXPECT_THAT(Error({"--directory=new", "--model=new/checkpoints/latest"}), HasSubstr(" belongs to the run in"));
  for (const char* output : {"--log=run/metrics.jsonl", "--log=run/other.jsonl", "--model=run/model.safetensors"}) {
    EXPECT_EQ(Error({"--directory=run", output}), "") << output;
    EXPECT_EQ(Error({"--data=.", "--directory=run", output}), "") << output;  // not data, wherever it lies
  }
}

TEST_F(OutputFiles, AreDifferentFiles) {
  EXPECT_THAT(Error({"--model=notes", "--log=notes"}), HasSubstr("notes is also --model="));
  EXPECT_THAT(Error({"--model=new", "--log=./new"}), HasSubstr("new is also --model="));
  EXPECT_EQ(Error({"--model=new", "--log=other"}), "");
  fs::create_symlink("/dev/null", File("device"));
  EXPECT_EQ(Error({"--model=device", "--log=device"}), "");
  // Predictions are written for rows only.
  EXPECT_EQ(Error({"--data=t.csv", "--predictions=t.csv"}), "");
  EXPECT_THAT(Error({"--data=t.csv", "--predictions=t.csv", "--rows=notes"}), HasSubstr("is a file that is read"));
}

}  // namespace
}  // namespace belfry::trainers
