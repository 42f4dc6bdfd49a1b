// Helpers shared by the tests of event files.
#pragma once

#include <string>

#include "tests/main/testing.h"

namespace belfry::io {

// The bytes that `hex` has two digits for each of.
inline std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// One event of each kind, as TensorBoard's own classes serialise them.
inline constexpr char kVersionHex[] = "09000000000000f83f1a0d627261696e2e4576656e743a32";
inline constexpr char kSummaryHex[] =
    "09000000000000f83f10072a84010a080a016115000020400a660a01682a6109000000000000f0bf1100000000000008401900000000000010"
    "40210000000000001440290000000000002e40321800000000000000c0000000000000f03f00000000000010403a1800000000000000000000"
    "0"
    "0000000f03f00000000000008400a100a0169220b0802100518032203706e67";
inline constexpr char kStartHex[] = "10093a020801";
inline constexpr char kGraphHex[] = "22026764";
inline constexpr char kTensorValueHex[] = "2a0d0a0b0a016142062a040000803f";

}  // namespace belfry::io
