// Input: a list of files to put into the data set's folder. Each has a byte that picks its name, two bytes for its size
// and, for a file of images, a label for each record that has begun or, for a text file, the text.
#include "trainers/datasets/cifar10.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <map>

#include "tests/fuzz/fuzz.h"
#include "tests/trainers/datasets/planes.h"

namespace belfry::data {
namespace {

constexpr const char* kNames[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_5.bin",
                                  "test_batch.bin",   "batches.meta.txt", "textures.txt"};
constexpr size_t kImageFiles = 5;

std::string Records(fuzz::Input& input, size_t size) {
  std::string bytes(size, '\x5a');
  for (size_t at = 0; at < size; at += kCifar10RecordBytes) bytes[at] = static_cast<char>(input.Byte());
  return bytes;
}

bool IsWellFormed(const std::string& bytes) {
  if (bytes.empty() || bytes.size() % kCifar10RecordBytes != 0) return false;
  for (size_t at = 0; at < bytes.size(); at += kCifar10RecordBytes) {
    if (static_cast<uint8_t>(bytes[at]) >= kCifar10Classes) return false;
  }
  return true;
}

// The file from which the examples of `dataset` came.
std::string Print(const Dataset& dataset) {
  std::string bytes;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto example = ReadExample(dataset, i);
    BELFRY_CHECK(example.ok());
    bytes.push_back(static_cast<char>((*example)[1].scalar<int32_t>()));
    bytes += Planes((*example)[0]);
  }
  return bytes;
}

void CheckFolder(const fuzz::Folder& folder, const std::map<std::string, std::string>& files) {
  for (const auto& [name, bytes] : files) {
    const auto file = OpenCifar10File(folder / name);
    BELFRY_CHECK(file.ok() == IsWellFormed(bytes));
    if (file.ok()) BELFRY_CHECK(Print(**file) == bytes);
  }
  const auto both = OpenCifar10(folder.path());
  if (!both.ok()) {
    BELFRY_CHECK(absl::IsNotFound(both.status()) || absl::IsDataLoss(both.status()));
    return;
  }
  std::string train;
  for (size_t i = 0; i + 1 < kImageFiles && files.contains(kNames[i]); ++i) train += files.at(kNames[i]);
  // A fifth file without a fourth is an error, so it cannot occur here.
  BELFRY_CHECK(Print(*both->train) == train && Print(*both->test) == files.at("test_batch.bin"));
}

}  // namespace
}  // namespace belfry::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::data;
  spdlog::set_level(spdlog::level::off);
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  std::map<std::string, std::string> files;
  while (!input.empty() && files.size() < std::size(kNames)) {
    const size_t name = input.Byte() % std::size(kNames);
    const size_t high = input.Byte(), file_size = high << 8 | input.Byte();
    files[kNames[name]] = name < kImageFiles ? Records(input, file_size) : std::string(input.Bytes(file_size));
  }
  for (const auto& [name, bytes] : files) folder.Write(name, bytes);
  CheckFolder(folder, files);
  for (const auto& [name, bytes] : files) std::filesystem::remove(folder / name);
  return 0;
}
