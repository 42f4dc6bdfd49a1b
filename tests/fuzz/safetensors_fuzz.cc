// Input: a file.
#include "framework/io/safetensors.h"

#include "tests/framework/base/same_bits.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::io;
  const fuzz::Folder folder;
  folder.Write("input", fuzz::Input(data, size).Rest());
  const auto file = SafetensorsFile::Open(folder / "input");
  if (!file.ok()) {
    BELFRY_CHECK(file.status().code() == absl::StatusCode::kDataLoss);
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
