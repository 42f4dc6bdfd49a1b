#include "trainers/prediction/gpu_card.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry {
namespace {

// The shares of products, convolutions and attention are those with which published steps (tests/trainers/prediction/
// published_steps_test.cc, with their sources) are predicted best. There is none with convolutions on H100 and H200,
// whose shares are A100's, less by the ratio of the two cards' shares of products.
//
// The others are guesses near what is known of such cards, and first to be replaced by what a trace shows:
// - bandwidth_share: copies reach about 0.9 of the data sheet, kernels with more operands less.
// - cache_speed: hits of the second level are read two to three times as fast as memory (Jia et al., "Dissecting the
//   NVIDIA Volta GPU architecture via microbenchmarking", 2018); newer memory has gained more than the cache.
// - kernel, launch: a kernel of 2.9 us takes 3.4 in a graph and 3.8 without (developer.nvidia.com/blog/cuda-graphs),
// and
//   an empty one 1.5 to 2. graph_launch: some 10 us for a step, of any length on the newest drivers
//   (developer.nvidia.com/ blog/constant-time-launch-for-straight-line-graphs-and-other-performance-enhancements).
// - average, link_share: NCCL 2.29 on eight H200 takes 20 to 25 us for an all-reduce of 1 MiB, and 0.5 ms for 102 MB.
struct NamedCard {
  absl::string_view name;
  GpuCard card;
};

// NVIDIA V100 data sheet (DA-06879), A100 data sheet and white paper (WP-09183), H100 white paper (WP-11164), H200 data
// sheet; links: NVLink's total is for both directions, PCIe 3 and 4 x16 carry 12 and 25 GB/s.
const NamedCard kCards[] = {
    {"v100",
     {.model = "NVIDIA V100 SXM2 16GB",
      .memory = 16e9,
      .bandwidth = 900e9,
      .cache = 6e6,
      .multiprocessors = 80,
      .flops_16bit = 125e12,
      .flops_tf32 = 15.7e12,
      .flops_float32 = 15.7e12,
      .link = 150e9,
      .host_link = 12e9,
      .bandwidth_share = 0.85,
      .cache_speed = 2.2,
      .product_share = 0.75,
      .conv_share = 0.62,
      .conv_share_float32 = 1.1,
      .attention_share = 0.4,
      .link_share = 0.85,
      .average = 2e-5,
      .kernel = 2.2e-6,
      .launch = 5e-6,
      .graph_launch = 1e-5}},
    {"a100",
     {.model = "NVIDIA A100 SXM4 80GB",
      .memory = 80e9,
      .bandwidth = 2039e9,
      .cache = 40e6,
      .multiprocessors = 108,
      .flops_16bit = 312e12,
      .flops_tf32 = 156e12,
      .flops_float32 = 19.5e12,
      .link = 300e9,
      .host_link = 25e9,
      .bandwidth_share = 0.85,
      .cache_speed = 2.2,
      .product_share = 0.85,
      .conv_share = 0.55,
      .conv_share_float32 = 0.315,
      .attention_share = 0.5,
      .link_share = 0.85,
      .average = 2e-5,
      .kernel = 2e-6,
      .launch = 5e-6,
      .graph_launch = 1e-5}},
    {"a100_40gb",
     {.model = "NVIDIA A100 SXM4 40GB",
      .memory = 40e9,
      .bandwidth = 1555e9,
      .cache = 40e6,
      .multiprocessors = 108,
      .flops_16bit = 312e12,
      .flops_tf32 = 156e12,
      .flops_float32 = 19.5e12,
      .link = 300e9,
      .host_link = 25e9,
      .bandwidth_share = 0.88,
      .cache_speed = 2.8,
      .product_share = 0.85,
      .conv_share = 0.55,
      .conv_share_float32 = 0.315,
      .attention_share = 0.5,
      .link_share = 0.85,
      .average = 2e-5,
      .kernel = 2e-6,
      .launch = 5e-6,
      .graph_launch = 1e-5}},
    {"h100",
     {.model = "NVIDIA H100 SXM5 80GB",
      .memory = 80e9,
      .bandwidth = 3352e9,
      .cache = 50e6,
      .multiprocessors = 132,
      .flops_16bit = 989e12,
      .flops_tf32 = 494e12,
      .flops_float32 = 66.9e12,
      .link = 450e9,
      .host_link = 50e9,
      .bandwidth_share = 0.85,
      .cache_speed = 1.7,
      .product_share = 0.68,
      .conv_share = 0.42,
      .conv_share_float32 = 0.25,
      .attention_share = 0.45,
      .link_share = 0.85,
      .average = 2e-5,
      .kernel = 1.8e-6,
      .launch = 4e-6,
      .graph_launch = 1e-5}},
    {"h200",
     {.model = "NVIDIA H200 SXM 141GB",
      .memory = 141e9,
      .bandwidth = 4800e9,
      .cache = 50e6,
      .multiprocessors = 132,
      .flops_16bit = 989e12,
      .flops_tf32 = 494e12,
      .flops_float32 = 66.9e12,
      .link = 450e9,
      .host_link = 50e9,
      .bandwidth_share = 0.85,
      .cache_speed = 1.2,
      .product_share = 0.68,
      .conv_share = 0.42,
      .conv_share_float32 = 0.25,
      .attention_share = 0.45,
      .link_share = 0.85,
      .average = 2e-5,
      .kernel = 1.8e-6,
      .launch = 4e-6,
      .graph_launch = 1e-5}},
};

struct Member {
  absl::string_view name;
  double GpuCard::*value;
};
constexpr Member kMembers[] = {{"memory", &GpuCard::memory},
                               {"bandwidth", &GpuCard::bandwidth},
                               {"cache", &GpuCard::cache},
                               {"multiprocessors", &GpuCard::multiprocessors},
                               {"flops_16bit", &GpuCard::flops_16bit},
                               {"flops_tf32", &GpuCard::flops_tf32},
                               {"flops_float32", &GpuCard::flops_float32},
                               {"link", &GpuCard::link},
                               {"host_link", &GpuCard::host_link},
                               {"bandwidth_share", &GpuCard::bandwidth_share},
                               {"cache_speed", &GpuCard::cache_speed},
                               {"product_share", &GpuCard::product_share},
                               {"conv_share", &GpuCard::conv_share},
                               {"conv_share_float32", &GpuCard::conv_share_float32},
                               {"attention_share", &GpuCard::attention_share},
                               {"link_share", &GpuCard::link_share},
                               {"average", &GpuCard::average},
                               {"kernel", &GpuCard::kernel},
                               {"launch", &GpuCard::launch},
                               {"graph_launch", &GpuCard::graph_launch}};

const GpuCard* Known(absl::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kCards), std::end(kCards), [&](const NamedCard& card) { return card.name == name; });
  return found == std::end(kCards) ? nullptr : &found->card;
}

std::string Names() {
  return absl::StrJoin(kCards, ", ",
                       [](std::string* text, const NamedCard& card) { absl::StrAppend(text, card.name); });
}

absl::Status Set(absl::string_view key, absl::string_view value, GpuCard& card) {
  if (key == "model") {
    card.model = std::string(value);
    return absl::OkStatus();
  }
  if (key == "like") {
    const GpuCard* const known = Known(value);
    if (known == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("there is no card '", value, "'; known: ", Names()));
    }
    card = *known;
    card.conv_share_float32 = 0;  // fitted to the TF32 convolutions of that card
    return absl::OkStatus();
  }
  const auto* const member =
      std::find_if(std::begin(kMembers), std::end(kMembers), [&](const Member& one) { return one.name == key; });
  if (member == std::end(kMembers)) {
    const auto name = [](std::string* text, const Member& one) { absl::StrAppend(text, one.name); };
    return absl::InvalidArgumentError(
        absl::StrCat("unknown key '", key, "'; expected model, like, ", absl::StrJoin(kMembers, ", ", name)));
  }
  double number = 0;
  if (!absl::SimpleAtod(value, &number) || !std::isfinite(number) || number <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is '", value, "', which is not a positive number"));
  }
  card.*member->value = number;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GpuCard> GpuCard::Parse(absl::string_view text) {
  GpuCard card;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    const absl::Status status = Set(line.substr(0, end), absl::StripAsciiWhitespace(line.substr(end)), card);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));
  }
  for (const Member& member : kMembers) {
    if (card.*member.value > 0) continue;
    if (member.value == &GpuCard::conv_share_float32) {
      return absl::InvalidArgumentError(
          "there is no conv_share_float32; give it, since 'like' takes no share of float32 convolutions from a card");
    }
    return absl::InvalidArgumentError(
        absl::StrCat("there is no ", member.name, "; give all values, or begin with 'like h100'"));
  }
  if (card.model.empty()) card.model = "a described GPU";
  return card;
}

absl::StatusOr<GpuCard> GpuCard::Find(const std::string& name) {
  if (const GpuCard* const known = Known(name); known != nullptr) return *known;
  const absl::StatusOr<std::string> text = io::ReadFile(name, io::kMaxNoteBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("'", name, "' is neither a known card (", Names(),
                                                           ") nor a file: ", text.status().message()));
  }
  absl::StatusOr<GpuCard> card = Parse(*text);
  if (card.ok()) return card;
  return absl::Status(card.status().code(), absl::StrCat(name, ": ", card.status().message()));
}

}  // namespace belfry
