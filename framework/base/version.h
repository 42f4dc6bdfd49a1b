// The version of Belfry.
#pragma once

namespace belfry {

// The version of libbelfry and a digest of the headers whose types libbelfry and its modules exchange: "0.1.0
// (4f2c09d1)".
extern const char kBuild[];

}  // namespace belfry
