// A GPU as numbers, by which the time of a step on it is predicted (trainers/prediction/gpu_cost.h). All constants of
// the prediction are here and in gpu_card.cc, each with its source.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// Rates are per second, sizes in bytes, times in seconds. A value.
struct GpuCard {
  std::string model;  // "NVIDIA H100 SXM5 80GB"
  // From the maker's data sheet, without sparsity.
  double memory = 0;
  double bandwidth = 0;        // of the memory
  double cache = 0;            // the second level
  double multiprocessors = 0;  // blocks are spread over them
  double flops_16bit = 0;      // products of float16 or bfloat16, summed in float32
  double flops_tf32 = 0;       // products of float32 in tensor cores; where there are none, those of flops_float32
  double flops_float32 = 0;    // outside of tensor cores
  double link = 0;             // to the other cards, in each direction
  double host_link = 0;        // to the host, in each direction
  // Measured on such cards.
  double bandwidth_share = 0;  // of `bandwidth`, that a long element-wise kernel reaches
  double cache_speed = 0;      // bandwidth of the cache over that of the memory
  double product_share = 0;    // of the peak, that a large product of matrices reaches
  // The same, of a convolution of 16 bits and of one of float32, by the operations of the direct algorithm. Without
  // TF32, Winograd's algorithm exceeds 1.
  double conv_share = 0, conv_share_float32 = 0;
  double attention_share = 0;  // the same, of a library's attention
  double link_share = 0;       // of `link`, that an average of many bytes reaches
  double average = 0;          // the shortest average over cards
  double kernel = 0;           // the shortest kernel, from the end of the one before it in a CUDA graph to its own
  double launch = 0;           // the host's time for a launch without a graph
  double graph_launch = 0;     // the host's time for a graph

  // "v100", "a100" (80 GB), "a100_40gb", "h100", "h200", or the file of that path, as Parse reads it. Errors name it.
  static absl::StatusOr<GpuCard> Find(const std::string& name);
  // Lines "key value", where a key is a member's name and '#' starts a comment; "like h100" takes all values that
  // follow nowhere from that card, but for conv_share_float32, which says how well its TF32 convolutions fit ResNet-50.
  // InvalidArgument names the line; a card needs all values, each positive.
  static absl::StatusOr<GpuCard> Parse(absl::string_view text);
};

}  // namespace belfry
