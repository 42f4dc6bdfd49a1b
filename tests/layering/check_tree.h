// Rules of the source tree, checked on its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace belfry::layering {

// Reads every .h, .cc, .cu and .cuh file in the project's folders under `root`. Returns one "path:line: what is wrong
// and what to do" per breach, sorted by path; empty if there is none. The rules:
// - Includes point downward in the order of the folders (kLayers), or stay in their folder; none contains "..".
// - graph and device do not include each other. In ops the order is: headers for users, ops/simd, ops/common,
// libraries,
//   families, and lists of them all. A family of ops includes another only where kFamilyIncludes says why.
// - #if, #ifdef and #ifndef occur in framework/device/cuda only, except to guard a macro's own definition (#ifndef X,
//   #define X).
// - A header's code starts with #pragma once. Public headers include neither Eigen nor oneDNN nor internal headers:
//   framework/base/half.h, those of ops/onednn, and those named *_impl.h.
// - No string literal in framework is the name of an op: a family's fusions are rewrites (OpRegistry::AddRewrite), and
//   ops that the framework needs are found by role (OpDef::role). The names are gathered from the sources of ops.
// - Names in comments that are written like those of types and functions exist (FindUnknownNames).
// - The wall clock is read where a date is written (kReadDates), and nowhere else.
// - No file has more than 500 lines, and no folder of the product more than 35 sources of its own.
// - A library links only libraries of its own folder or of folders below it.
// - Each source file is listed in the CMakeLists.txt of its folder or of one above it.
std::vector<std::string> CheckTree(const std::filesystem::path& root);

}  // namespace belfry::layering
