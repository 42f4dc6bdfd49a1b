// Input: the file.
#include "framework/data/npy.h"

#include "framework/data/npy_header_impl.h"
#include "tests/framework/base/same_bits.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::data;
  static const fuzz::Folder folder;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  folder.Write("input.npy", bytes);
  const auto header = ParseNpyHeader("input", bytes, size);
  const auto tensor = ReadNpy(folder / "input.npy");
  if (!header.ok()) BELFRY_CHECK(tensor.status().code() == header.status().code());
  if (!tensor.ok()) {
    BELFRY_CHECK(absl::IsDataLoss(tensor.status()) || absl::IsUnimplemented(tensor.status()));
    return 0;
  }
  BELFRY_CHECK(header->shape == tensor->shape() && header->dtype == tensor->dtype());
  BELFRY_CHECK(header->data + tensor->bytes() == size);
  BELFRY_CHECK(WriteNpy(folder / "again.npy", *tensor).ok());
  const auto again = ReadNpy(folder / "again.npy");
  BELFRY_CHECK(again.ok() && SameBits(*tensor, *again));
  return 0;
}
