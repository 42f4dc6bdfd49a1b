// The rules that the source tree obeys, checked over its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace belfry::layering {

// Reads every .h, .cc, .cu and .cuh file in the project's folders under `root`. Returns one "path:line: what is wrong
// and what to do" per breach, sorted by path; empty when there is none. The rules:
// - Includes point downward in the order of the folders (below), or stay in their folder; none contains "..".
// - graph and device do not include each other.
// - #if, #ifdef and #ifndef stand in framework/device/cuda only, but for a macro's own guard (#ifndef X, #define X).
// - A header starts its code with #pragma once. A public one includes neither Eigen nor oneDNN nor an internal header;
//   internal are framework/base/half.h, those of ops/onednn, and those called *_impl.h.
// - No string literal in framework is the name of an op: what a family of ops fuses, it brings as a rewrite, and what
// the
//   framework needs, it finds by its role (OpDef::role). The names are gathered from the sources of ops.
// - No file has more than 500 lines.
// - Each source file is listed in the CMakeLists.txt of its folder or of one above it.
std::vector<std::string> CheckTree(const std::filesystem::path& root);

}  // namespace belfry::layering
