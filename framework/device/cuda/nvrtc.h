// NVRTC, NVIDIA's compiler as a library. It is loaded when it is first needed, and needs neither headers nor a card.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// OK if NVRTC can be loaded and compiles for capability major.minor. Otherwise the error says what is missing, and
// where it was looked for. Thread-safe, as is CompileCubin.
absl::Status CheckNvrtc(int major, int minor);

// "--std=c++20 --fmad=false ...": the options that do not depend on the card.
std::string NvrtcOptions();

// The machine code of `source` for a card of capability major.minor. Without contraction of a multiplication and an
// addition, so that fused and unfused ops give the same bits. Internal, with the compiler's messages, if it is not
// correct.
absl::StatusOr<std::string> CompileCubin(absl::string_view source, int major, int minor);

}  // namespace belfry
