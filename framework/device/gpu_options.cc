#include "framework/device/gpu_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

constexpr int kMaxParts = 64, kMaxCards = 1024;
constexpr double kMinBytes = 1 << 20;           // bytes; less is probably a mistake, such as a missing unit
constexpr double kMaxBytes = 4503599627370496;  // bytes: 2^52
constexpr size_t kGranule = 256;

// Room for what the driver, kernels and libraries load besides our own allocations.
size_t Margin(size_t total) { return std::min(total / 16, size_t{2} << 30); }

struct MemoryText {
  double number = 0;
  bool fraction = false;  // a fraction of the card's memory, not bytes
};

absl::StatusOr<MemoryText> ParseMemory(absl::string_view text) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("gpu_memory='", text, "': ", why,
                                                   "; expected a fraction of the card such as 0.4, or an amount in "
                                                   "bytes, KiB, MiB, GiB or TiB such as 4GiB"));
  };
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  absl::string_view digits = lower;
  double scale = 0;
  for (const auto& [unit, bytes] :
       {std::pair("kib", 0x1p10), std::pair("mib", 0x1p20), std::pair("gib", 0x1p30), std::pair("tib", 0x1p40)}) {
    if (!absl::EndsWith(digits, unit)) continue;
    digits.remove_suffix(3);
    scale = bytes;
    break;
  }
  digits = absl::StripTrailingAsciiWhitespace(digits);
  double number = 0;
  if (digits.empty() || digits.find_first_not_of("0123456789.") != absl::string_view::npos ||
      !absl::SimpleAtod(digits, &number)) {
    return wrong("not an amount of memory");
  }
  if (scale == 0 && absl::StrContains(digits, '.')) {
    if (!(number > 0 && number <= 1)) return wrong("a fraction must be above 0 and at most 1.0");
    return MemoryText{number, true};
  }
  number *= scale == 0 ? 1 : scale;
  if (number < kMinBytes) return wrong("less than 1 MiB");
  if (number > kMaxBytes) return wrong("more than any card has");
  return MemoryText{std::floor(number), false};
}

absl::StatusOr<std::vector<int>> ParseCards(absl::string_view text) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("visible_gpus='", text, "': ", why, "; expected card numbers such as 0,2"));
  };
  std::vector<int> cards;
  if (absl::StripAsciiWhitespace(text).empty()) return cards;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int card = 0;
    part = absl::StripAsciiWhitespace(part);
    if (!absl::SimpleAtoi(part, &card)) return wrong(absl::StrCat("'", part, "' is not a number"));
    if (card < 0 || card >= kMaxCards) return wrong(absl::StrCat("there is no card ", card));
    if (std::find(cards.begin(), cards.end(), card) != cards.end()) return wrong(absl::StrCat(card, " is given twice"));
    cards.push_back(card);
  }
  return cards;
}

std::string GibiBytes(size_t bytes) { return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / 0x1p30); }

}  // namespace

absl::Status CheckGpuOptions(const DeviceOptions& options) {
  if (options.virtual_gpus < 1 || options.virtual_gpus > kMaxParts) {
    return absl::InvalidArgumentError(
        absl::StrCat("virtual_gpus=", options.virtual_gpus, ": a card can be opened as 1 to ", kMaxParts, " devices"));
  }
  if (!options.gpu_memory.empty()) {
    ASSIGN_OR_RETURN(const MemoryText memory, ParseMemory(options.gpu_memory));
    if (memory.fraction && memory.number * options.virtual_gpus > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("gpu_memory='", options.gpu_memory, "' is the share of one device, ",
                       "and virtual_gpus=", options.virtual_gpus, " such shares exceed the card"));
    }
  }
  return ParseCards(options.visible_gpus).status();
}

absl::StatusOr<std::vector<int>> VisibleCards(const DeviceOptions& options, int found) {
  ASSIGN_OR_RETURN(std::vector<int> cards, ParseCards(options.visible_gpus));
  for (int card : cards) {
    if (card < found) continue;
    return absl::InvalidArgumentError(absl::StrCat("visible_gpus='", options.visible_gpus, "': there is no card ", card,
                                                   "; found ", found, found == 1 ? " card" : " cards",
                                                   ", counted from 0"));
  }
  if (cards.empty()) {
    for (int card = 0; card < found; ++card) cards.push_back(card);
  }
  return cards;
}

absl::StatusOr<std::vector<int>> CardsOfProcess(const DeviceOptions& options, int gpus, std::vector<int> cards) {
  const auto needed = static_cast<size_t>(PlaceOfGpu(options, gpus - 1).card) + 1;
  const size_t before = static_cast<size_t>(options.local_rank) * needed;
  if (before == 0 || needed >= cards.size()) return cards;
  if (before + needed > cards.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Requested gpu:", gpus, " in each process: process ", options.local_rank, " of this machine (counted from 0) ",
        "needs ", needed, needed == 1 ? " card" : " cards", " after the first ", before, ", but ", cards.size(),
        " are visible; start at most ", cards.size() / needed, cards.size() / needed == 1 ? " process" : " processes",
        " on this machine"));
  }
  cards.erase(cards.begin(), cards.begin() + static_cast<ptrdiff_t>(before));
  return cards;
}

absl::StatusOr<size_t> GpuMemoryLimit(const DeviceOptions& options, size_t total, size_t free) {
  const auto parts = static_cast<size_t>(options.virtual_gpus);
  const size_t margin = Margin(total);
  const size_t usable = free > margin ? free - margin : 0;
  if (options.gpu_memory.empty()) {
    const size_t limit = usable / parts / kGranule * kGranule;
    if (limit > 0) return limit;
    return absl::ResourceExhaustedError(
        absl::StrCat("only ", GibiBytes(free), " of ", GibiBytes(total),
                     " are free, and other processes use the rest; nothing is left for ", parts,
                     parts == 1 ? " device" : " devices"));
  }
  ASSIGN_OR_RETURN(const MemoryText memory, ParseMemory(options.gpu_memory));
  const double bytes = memory.fraction ? memory.number * static_cast<double>(total) : memory.number;
  const size_t limit = static_cast<size_t>(bytes) / kGranule * kGranule;
  if (limit <= free / parts) return limit;
  const std::string why = absl::StrCat("gpu_memory='", options.gpu_memory, "' is ", GibiBytes(limit),
                                       parts == 1 ? "" : absl::StrCat(" for each of ", parts, " devices"),
                                       ", but only ", GibiBytes(free), " of ", GibiBytes(total), " are free");
  return limit <= total / parts ? absl::ResourceExhaustedError(why) : absl::InvalidArgumentError(why);
}

}  // namespace belfry
