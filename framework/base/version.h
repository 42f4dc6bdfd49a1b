// The version of Belfry.
#pragma once

namespace belfry {

// Of libbelfry: "0.1.0".
extern const char kVersion[];

}  // namespace belfry
