// Input: a file.
#include "framework/io/safetensors.h"

#include "absl/strings/match.h"
#include "tests/framework/base/same_bits.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::io;
  const fuzz::Folder folder;
  const absl::string_view bytes = fuzz::Input(data, size).Rest();
  folder.Write("input", bytes);
  const auto file = SafetensorsFile::Open(folder / "input");
  if (!file.ok()) {
    // A zip archive is another kind of file, and not a damaged one.
    const bool zip = absl::StartsWith(bytes, "PK\x03\x04");
    const auto expected = zip && bytes.size() >= 8 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss;
    BELFRY_CHECK(file.status().code() == expected);
    return 0;
  }
  const auto tensors = file->ReadAll();
  if (!tensors.ok()) {
    const absl::StatusCode code = tensors.status().code();
    BELFRY_CHECK(code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kUnimplemented);
    return 0;
  }
  const absl::Status written = WriteSafetensors(folder / "again", *tensors, file->metadata());
  BELFRY_CHECK(written.ok());
  const auto again = SafetensorsFile::Open(folder / "again");
  BELFRY_CHECK(again.ok() && again->metadata() == file->metadata());
  for (const NamedTensor& tensor : *tensors) {
    const TensorInfo* const info = again->Find(tensor.name);
    BELFRY_CHECK(info != nullptr);
    const auto value = again->Read(*info);
    BELFRY_CHECK(value.ok() && SameBits(*value, tensor.value));
  }
  return 0;
}
