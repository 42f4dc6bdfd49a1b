// Input: a byte that picks a choice, then the file of earlier choices.
#include "ops/gpu/autotune.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  const int count = 1 + input.Byte() % 32, index = (count - 1) / 2;
  const absl::string_view former = input.Rest();
  folder.Write("autotune.txt", former);
  ops::AutotuneCache cache(folder / "autotune.txt");
  // Any word of the file may have become a key.
  for (size_t tab = 0; tab != absl::string_view::npos; tab = former.find('\t', tab + 1)) {
    const absl::string_view key = former.substr(tab == 0 ? 0 : tab + 1);
    const int found = cache.Find(key.substr(0, key.find('\n')), count);
    BELFRY_CHECK(-1 <= found && found < count);
  }
  cache.Add("a key", count, index);
  ops::AutotuneCache later(folder / "autotune.txt");
  BELFRY_CHECK(cache.Find("a key", count) == index && later.Find("a key", count) == index);
  return 0;
}
